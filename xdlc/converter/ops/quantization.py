"""QuantizeLinear, DequantizeLinear, and scales of operators as encodings.

Whatever form a source has, it is imported the same way: integers are dequantized, an operation on
float values follows, and its result is quantized.  Values of integer type stay plain integers, as in the
source; between them and the fixed-point tensors stands Reinterpret, an op of the host that keeps the
quantized values and changes only what they denote.  The pass ``fold_quantize_dequantize`` makes of
all this operations on fixed-point tensors.

The operators of the older form have integers in and integers out.  Each is the operator on float values of a
similar name between DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.fixed_point import FIXED, REINTERPRET, constant
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, MICROSOFT, Node, imported, importer
from xdlc.converter.values import Value
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, DType, ScaleOffset
from xdlc.ir.data import Array
from xdlc.ir.derived_data import StaticEncoding
from xdlc.ir.dtype import PLAIN


def fixed(node: Node, dtype: DType) -> DType:
    """Return the fixed-point type that stores integers of a plain type."""
    if dtype not in FIXED:
        raise node.problem(f"values quantized to {dtype} are not supported; QNN has 8, 16 and 32 bits")
    return FIXED[dtype]


def zero_dtype(node: Node, zero_index: int, default: DType = ir.dtype.UINT8) -> DType:
    """Return the fixed-point type that a zero point requires of a computed value."""
    zero = node.input(zero_index)
    if zero is not None and zero.bits is not None:
        raise node.problem(f"computed values of {zero.bits} bits are not supported; QNN stores 8 and 16")
    found = fixed(node, zero.dtype if zero is not None else default)
    if found.bits > 16:
        raise node.problem(f"computed values of type {found} are not supported; QNN rounds to 8 and 16 bits")
    return found


def _scales_and_zeros(node: Node, scale_index: int, zero_index: int) -> tuple[Array, Array]:
    """Return the scale in float32 and the zero point in int64, in one shape."""
    scales = node.static(scale_index, "the scale")
    if scales is None:
        raise node.problem(f"the scale (input {scale_index}) is missing")
    if scales.dtype != np.float32:
        raise node.problem(f"a scale of type {scales.dtype} is not supported; encodings hold float32")
    if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
        raise node.problem(f"a scale must be a positive number, but is {scales.reshape(-1)[:4]}")
    zeros = node.static(zero_index, "the zero point")
    if zeros is None:
        return scales, np.zeros(scales.shape, np.int64)
    if zeros.dtype.kind not in "iu":
        raise node.problem(f"a zero point of type {zeros.dtype} is not supported; encodings hold integers")
    zeros = zeros.astype(np.int64)
    if np.any(np.abs(zeros) >= 1 << 31):
        raise node.problem(f"zero point {zeros.reshape(-1)[:4]} is not supported; offsets have 32 bits")
    return scales, np.broadcast_to(zeros.reshape(()) if zeros.size == 1 else zeros, scales.shape)


def encoding(
    node: Node, scale_index: int, zero_index: int, value: Value | None = None, axis: int = 0
) -> ScaleOffset | AxisScaleOffset:
    """Return the encoding that a scale and a zero-point input denote.

    Args:
        zero_index: Position of the zero point.
        value: What has the encoding, if it may have several scales.
        axis: Source axis of a scale with several values.
    """
    scales, zeros = _scales_and_zeros(node, scale_index, zero_index)
    if scales.size == 1:
        return ScaleOffset(float(scales.reshape(())), -int(zeros.reshape(())))
    if scales.ndim != 1 or value is None or not -value.rank <= axis < value.rank:
        raise node.problem(
            f"scale shape {list(scales.shape)} is not supported", "use one scale per tensor or axis"
        )
    if value.shape[axis] != scales.size:
        raise node.problem(f"{scales.size} scales do not fit {value.shape[axis]} elements along axis {axis}")
    return AxisScaleOffset(value.axis(axis), tuple(scales.tolist()), tuple((-zeros).tolist()))


def block_encoding(node: Node, value: Value, axis: int, block_size: int) -> BlockScaleOffset:
    """Return the encoding of integers with one scale per block of an axis (opset 21).

    Raises:
        UnsupportedOp: If the scales do not fit, or the last block is not full.
    """
    scales, zeros = _scales_and_zeros(node, 1, 2)
    axis += value.rank if axis < 0 else 0
    if not 0 <= axis < value.rank or block_size < 1:
        raise node.problem(f"block_size {block_size} does not fit axis {axis} of {list(value.shape)}")
    if value.shape[axis] % block_size:
        raise node.problem(f"blocks of {block_size} do not divide {value.shape[axis]}")
    block = tuple(block_size if position == axis else 1 for position in range(value.rank))
    grid = tuple(dim // size for dim, size in zip(value.shape, block, strict=True))
    if scales.shape != grid:
        raise node.problem(f"scales {list(scales.shape)} do not fit {list(grid)} blocks of {block_size}")
    return BlockScaleOffset(block, scales.reshape(-1), (-zeros).reshape(-1).astype(np.int32))


def real(node: Node, b: Builder, value: Value, encoding: StaticEncoding) -> Value:
    """Return the floats that integers denote.

    Args:
        value: Plain integers.
        encoding: Their encoding, its axis one of the value's tensor.
    """
    dtype = fixed(node, value.dtype)
    if value.is_static:
        return constant(b, value, dtype, encoding)
    if isinstance(encoding, BlockScaleOffset):
        raise node.problem("block_size for computed values is not supported")
    return b.unary("Dequantize", _stored(b, value, dtype, encoding), dtype=ir.dtype.FLOAT32)


def _stored(b: Builder, value: Value, dtype: DType, encoding: ScaleOffset | AxisScaleOffset) -> Value:
    """Return the fixed-point value that computed integers store."""
    producer = value.tensor.producer
    origin = (producer.type, producer.package) if producer is not None else None
    source = producer.inputs[0] if producer and origin == (REINTERPRET, ir.HOST_PACKAGE) else None
    if source is not None and (source.dtype, source.encoding) == (dtype, encoding):
        return Value(source, value.order, ranked=value.ranked)
    return b.unary(REINTERPRET, value, dtype=dtype, encoding=encoding, package=ir.HOST_PACKAGE)


def quantized(
    node: Node, b: Builder, value: Value, dtype: DType, encoding: ScaleOffset | AxisScaleOffset
) -> Value:
    """Return float values quantized to integers, as the result of a node.

    The fixed-point tensor that stores them takes the name that the source has for the result.
    """
    if value.dtype is not ir.dtype.FLOAT32:
        raise node.problem(f"quantizing {value.dtype} is not supported; QNN quantizes float32")
    rounded = b.unary("Quantize", value, dtype=dtype, encoding=encoding)
    name = node.outputs[0]
    if name and name not in b.graph.tensors:
        b.graph.rename(rounded.tensor, name)
    return b.unary(REINTERPRET, rounded, dtype=PLAIN[dtype], package=ir.HOST_PACKAGE)


_FLOAT = 1  # TensorProto.DataType
_INTEGERS = {
    2: ir.dtype.UINT8,
    3: ir.dtype.INT8,
    4: ir.dtype.UINT16,
    5: ir.dtype.INT16,
}


@importer("QuantizeLinear", since=10, layout=ANY, ignores=("saturate",), dynamic=True)
@importer("QuantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def quantize_linear(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Quantize; the parameters become the encoding of the result."""
    axis = node.attr("axis", 1)
    if node.attr("block_size", 0):
        raise node.problem("block_size for computed values is not supported")
    if node.attr("precision", 0) not in (0, _FLOAT):
        raise node.problem(f"precision {node.attr('precision')} is not supported; QNN divides in float32")
    dtype = zero_dtype(node, 2, _asked(node))
    return quantized(node, b, x, dtype, encoding(node, 1, 2, x, axis))


def _asked(node: Node) -> DType:
    """Return the type that attribute ``output_dtype`` names; uint8 without it."""
    number = node.attr("output_dtype", 0) or 2
    if number not in _INTEGERS:
        raise node.problem(f"output_dtype {number} is not supported; QNN has 8 and 16 bits")
    return _INTEGERS[number]


@importer("DequantizeLinear", since=10, layout=ANY, dynamic=True)
@importer("DequantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def dequantize_linear(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Dequantize; the parameters become the encoding of the input."""
    axis, block_size = node.attr("axis", 1), node.attr("block_size", 0)
    if node.attr("output_dtype", 0) not in (0, _FLOAT):
        raise node.problem(f"output_dtype {node.attr('output_dtype')} is not supported; QNN has float32")
    if block_size:
        return real(node, b, x, block_encoding(node, x, axis, block_size))
    return real(node, b, x, encoding(node, 1, 2, x, axis))


def _operand(node: Node, g: Operators, index: int) -> Value:
    """Return an operand's float values; its scale and zero point follow it."""
    return real(node, g.builder, node.required(index), encoding(node, index + 1, index + 2))


def _result(node: Node, b: Builder, value: Value, scale_index: int) -> Value:
    """Return floats rounded to a scale at a position and the zero point after it."""
    given = encoding(node, scale_index, scale_index + 1)
    return quantized(node, b, value, zero_dtype(node, scale_index + 1), given)


def _rounded(node: Node, g: Operators, operands: Sequence[Value], scale_index: int, opset: int = 17) -> Value:
    """Return the result of the operator of a similar name on floats, rounded."""
    type = node.type.removeprefix("QLinear")
    return _result(node, g.builder, imported(node, g, type, operands, opset), scale_index)


@importer("QLinearConv", since=10, layout=CHANNEL_LAST)
def qlinear_conv(node: Node, g: Operators) -> Value:
    """Map onto a convolution; the bias scale is input times weight scale."""
    weight = node.required(3)
    scales = encoding(node, 4, 5, weight, axis=0)
    operands = [_operand(node, g, 0), real(node, g.builder, weight, scales)]
    bias = node.input(8)
    if bias is not None:
        x = encoding(node, 1, 2)
        operands.append(real(node, g.builder, bias, _product(node, x, scales)))
    return _rounded(node, g, operands, 6)


def _product(
    node: Node, x: ScaleOffset | AxisScaleOffset, weight: ScaleOffset | AxisScaleOffset
) -> ScaleOffset | AxisScaleOffset:
    """Return the scales of a bias: products of the operand scales, per output channel."""
    if not isinstance(x, ScaleOffset):
        raise node.problem("several scales of its input are not supported")
    if isinstance(weight, AxisScaleOffset):
        return AxisScaleOffset(0, tuple(x.scale * scale for scale in weight.scales))
    return ScaleOffset(x.scale * weight.scale)


@importer("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, g: Operators) -> Value:
    """Map onto a matrix product; weights may have one scale per column."""
    y = node.required(3)
    right = real(node, g.builder, y, encoding(node, 4, 5, y, axis=-1))
    return _rounded(node, g, [_operand(node, g, 0), right], 6)


@importer("QGemm", domain=MICROSOFT)
def qgemm(node: Node, g: Operators) -> Value:
    """Map onto Gemm; the bias scale is alpha times both scales; output may be float."""
    weight, bias = node.required(3), node.input(6)
    scales = encoding(node, 4, 5, weight, axis=0 if node.flag("transB") else 1)
    operands: list[Value | None] = [_operand(node, g, 0), real(node, g.builder, weight, scales)]
    if bias is not None:
        alpha = ScaleOffset(node.attr("alpha", 1.0))
        step = _product(node, encoding(node, 1, 2), scales)
        operands.append(real(node, g.builder, bias, _product(node, alpha, step)))
    product = imported(node, g, "Gemm", operands)
    return product if node.input(7) is None else _result(node, g.builder, product, 7)


@importer("QLinearAdd", "QLinearMul", domain=MICROSOFT, layout=ANY)
def qlinear_binary(node: Node, g: Operators) -> Value:
    """Map onto ElementWiseBinary."""
    return _rounded(node, g, [_operand(node, g, 0), _operand(node, g, 3)], 6)


@importer("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, layout=CHANNEL_LAST)
@importer("QLinearLeakyRelu", "QLinearReduceMean", "QLinearSigmoid", domain=MICROSOFT, layout=ANY)
def qlinear_unary(node: Node, g: Operators) -> Value:
    """Map onto the operation of the same name."""
    if node.flag("channels_last"):
        raise node.problem("channels_last = 1 is not supported", "export channel-first")
    return _rounded(node, g, [_operand(node, g, 0)], 3)


@importer("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: Node, g: Operators) -> Value:
    """Map onto Softmax in the version of ONNX that the node names."""
    node.attributes.setdefault("axis", -1)
    return _rounded(node, g, [_operand(node, g, 0)], 3, node.attr("opset", 1))


@importer("QLinearConcat", domain=MICROSOFT, layout=ANY)
def qlinear_concat(node: Node, g: Operators) -> Value:
    """Map onto Concat; the result's scale comes first, each operand has its own."""
    return _rounded(node, g, [_operand(node, g, index) for index in range(2, len(node.inputs), 3)], 0)


@importer("QLinearWhere", domain=MICROSOFT, layout=ANY)
def qlinear_where(node: Node, g: Operators) -> Value:
    """Map onto ElementWiseSelect."""
    return _rounded(node, g, [node.required(0), _operand(node, g, 1), _operand(node, g, 4)], 7)
