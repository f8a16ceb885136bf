"""QuantizeLinear, DequantizeLinear and onnxruntime's older quantized form.

The operators of the older form have integers in and integers out.  Each is the operator on float values of a
similar name between DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _quantized
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, MICROSOFT, Node, find, importer
from xdlc.converter.values import Value
from xdlc.ir import AxisScaleOffset, DType, ScaleOffset

_FLOAT = 1  # TensorProto.DataType
_INTEGERS = {
    2: ir.dtype.UINT8,
    3: ir.dtype.INT8,
    4: ir.dtype.UINT16,
    5: ir.dtype.INT16,
}


@importer("QuantizeLinear", since=10, layout=ANY, ignores=("saturate",), dynamic=True)
@importer("QuantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def quantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Quantize; the parameters become the encoding of the result."""
    x, axis = node.required(0), node.attr("axis", 1)
    if node.attr("block_size", 0):
        raise node.problem("block_size for computed values is not supported")
    if node.attr("precision", 0) not in (0, _FLOAT):
        raise node.problem(f"precision {node.attr('precision')} is not supported; QNN divides in float32")
    dtype = _quantized.zero_dtype(node, 2, _asked(node))
    return _quantized.quantized(node, b, x, dtype, _quantized.encoding(node, 1, 2, x, axis))


def _asked(node: Node) -> DType:
    """Return the type that attribute ``output_dtype`` names; uint8 without it."""
    number = node.attr("output_dtype", 0) or 2
    if number not in _INTEGERS:
        raise node.problem(f"output_dtype {number}; QNN has 8 and 16 bits")
    return _INTEGERS[number]


@importer("DequantizeLinear", since=10, layout=ANY, dynamic=True)
@importer("DequantizeLinear", domain=MICROSOFT, layout=ANY, dynamic=True)
def dequantize_linear(node: Node, b: Builder) -> Value:
    """Map onto Dequantize; the parameters become the encoding of the input."""
    x, axis, block_size = node.required(0), node.attr("axis", 1), node.attr("block_size", 0)
    if node.attr("output_dtype", 0) not in (0, _FLOAT):
        raise node.problem(f"output_dtype {node.attr('output_dtype')} is not supported; QNN has float32")
    if block_size:
        return _quantized.real(node, b, x, _quantized.block_encoding(node, x, axis, block_size))
    return _quantized.real(node, b, x, _quantized.encoding(node, 1, 2, x, axis))


_OPSET = 17
"""Version of the operators on float values that are put in place of these."""


def _operand(node: Node, b: Builder, index: int) -> Value:
    """Return an operand's float values; its scale and zero point follow it."""
    return _quantized.real(node, b, node.required(index), _quantized.encoding(node, index + 1, index + 2))


def _result(node: Node, b: Builder, value: Value, scale_index: int) -> Value:
    """Return floats rounded to a scale at a position and the zero point after it."""
    given = _quantized.encoding(node, scale_index, scale_index + 1)
    return _quantized.quantized(node, b, value, _quantized.zero_dtype(node, scale_index + 1), given)


def _on_reals(
    node: Node, b: Builder, type: str, operands: Sequence[Value | None], opset: int = _OPSET
) -> Value:
    """Import an operator on float values with the attributes of the node."""
    entry = find("", type, opset)
    if entry is None:
        raise node.problem(f"{type} of opset {opset} has no importer")
    made = entry.function(replace(node, type=type, domain="", opset=opset, inputs=list(operands)), b)
    return made if isinstance(made, Value) else made[0]


@importer("QLinearConv", since=10, layout=CHANNEL_LAST)
def qlinear_conv(node: Node, b: Builder) -> Value:
    """Map onto a convolution; the bias scale is input times weight scale."""
    weight = node.required(3)
    scales = _quantized.encoding(node, 4, 5, weight, axis=0)
    operands = [_operand(node, b, 0), _quantized.real(node, b, weight, scales)]
    bias = node.input(8)
    if bias is not None:
        x = _quantized.encoding(node, 1, 2)
        operands.append(_quantized.real(node, b, bias, _product(node, x, scales)))
    return _result(node, b, _on_reals(node, b, "Conv", operands), 6)


def _product(
    node: Node, x: ScaleOffset | AxisScaleOffset, weight: ScaleOffset | AxisScaleOffset
) -> ScaleOffset | AxisScaleOffset:
    """Return the encoding of a bias, one number per output channel."""
    if not isinstance(x, ScaleOffset):
        raise node.problem("several scales of its input are not supported")
    if isinstance(weight, AxisScaleOffset):
        return AxisScaleOffset(0, tuple(x.scale * scale for scale in weight.scales))
    return ScaleOffset(x.scale * weight.scale)


@importer("QLinearMatMul", since=10)
def qlinear_matmul(node: Node, b: Builder) -> Value:
    """Map onto a matrix product; weights may have one scale per column."""
    y = node.required(3)
    right = _quantized.real(node, b, y, _quantized.encoding(node, 4, 5, y, axis=-1))
    return _result(node, b, _on_reals(node, b, "MatMul", [_operand(node, b, 0), right]), 6)


@importer("QGemm", domain=MICROSOFT)
def qgemm(node: Node, b: Builder) -> Value:
    """Map onto Gemm; the bias scale is alpha times both scales; output may be float."""
    weight, bias = node.required(3), node.input(6)
    scales = _quantized.encoding(node, 4, 5, weight, axis=0 if node.flag("transB") else 1)
    operands: list[Value | None] = [_operand(node, b, 0), _quantized.real(node, b, weight, scales)]
    if bias is not None:
        alpha = ScaleOffset(node.attr("alpha", 1.0))
        step = _product(node, _quantized.encoding(node, 1, 2), scales)
        operands.append(_quantized.real(node, b, bias, _product(node, alpha, step)))
    product = _on_reals(node, b, "Gemm", operands)
    return product if node.input(7) is None else _result(node, b, product, 7)


@importer("QLinearAdd", "QLinearMul", domain=MICROSOFT, layout=ANY)
def qlinear_binary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseBinary."""
    operands = [_operand(node, b, 0), _operand(node, b, 3)]
    return _result(node, b, _on_reals(node, b, node.type.removeprefix("QLinear"), operands), 6)


@importer("QLinearLeakyRelu", "QLinearReduceMean", "QLinearSigmoid", domain=MICROSOFT, layout=ANY)
def qlinear_unary(node: Node, b: Builder) -> Value:
    """Map onto the operation of the same name."""
    return _result(node, b, _on_reals(node, b, node.type.removeprefix("QLinear"), [_operand(node, b, 0)]), 3)


@importer("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT, layout=CHANNEL_LAST)
def qlinear_pool(node: Node, b: Builder) -> Value:
    """Map onto an average pool."""
    if node.flag("channels_last"):
        raise node.problem("channels_last = 1", "export channel-first")
    return _result(node, b, _on_reals(node, b, node.type.removeprefix("QLinear"), [_operand(node, b, 0)]), 3)


@importer("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: Node, b: Builder) -> Value:
    """Map onto Softmax in the version of ONNX that the node names."""
    node.attributes.setdefault("axis", -1)
    opset = node.attr("opset", 1)
    return _result(node, b, _on_reals(node, b, "Softmax", [_operand(node, b, 0)], opset), 3)


@importer("QLinearConcat", domain=MICROSOFT, layout=ANY)
def qlinear_concat(node: Node, b: Builder) -> Value:
    """Map onto Concat; the result's scale comes first, each operand has its own."""
    operands = [_operand(node, b, index) for index in range(2, len(node.inputs), 3)]
    return _result(node, b, _on_reals(node, b, "Concat", operands), 0)


@importer("QLinearWhere", domain=MICROSOFT, layout=ANY)
def qlinear_where(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseSelect."""
    operands = [node.required(0), _operand(node, b, 1), _operand(node, b, 4)]
    return _result(node, b, _on_reals(node, b, "Where", operands), 7)
