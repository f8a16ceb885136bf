"""Scales and zero points of quantized operators as encodings.

Whatever form a source has, it is imported the same way: integers are dequantized, an operation on
float values follows, and its result is quantized.  Values of integer type stay plain integers, as in the
source; between them and the fixed-point tensors stands Reinterpret, an op of the host that keeps the
quantized values and changes only what they denote.  The pass ``fold_quantize_dequantize`` makes of
all this operations on fixed-point tensors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, DType, ScaleOffset
from xdlc.ir.data import Array
from xdlc.ir.derived_data import StaticEncoding

REINTERPRET = "Reinterpret"
_FIXED = {
    ir.dtype.UINT8: ir.dtype.UFIXED8,
    ir.dtype.INT8: ir.dtype.SFIXED8,
    ir.dtype.UINT16: ir.dtype.UFIXED16,
    ir.dtype.INT16: ir.dtype.SFIXED16,
    ir.dtype.INT32: ir.dtype.SFIXED32,
}
_PLAIN = {fixed: plain for plain, fixed in _FIXED.items()}


def fixed(node: Node, dtype: DType) -> DType:
    """Return the fixed-point type that stores integers of a plain type."""
    if dtype not in _FIXED:
        raise node.problem(f"values quantized to {dtype} are not supported; QNN has 8, 16 and 32 bits")
    return _FIXED[dtype]


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
        scale_index: Position of the scale.
        zero_index: Position of the zero point.
        value: What has the encoding, if it may have several scales.
        axis: Source axis of a scale with several values.
    """
    scales, zeros = _scales_and_zeros(node, scale_index, zero_index)
    if scales.size == 1:
        return ScaleOffset(float(scales.reshape(())), -int(zeros.reshape(())))
    if scales.ndim != 1 or value is None or not -value.rank <= axis < value.rank:
        raise node.problem(f"a scale of shape {list(scales.shape)}", "use one scale per tensor or per axis")
    if value.shape[axis] != scales.size:
        raise node.problem(f"{scales.size} scales for {value.shape[axis]} elements along axis {axis}")
    return AxisScaleOffset(value.axis(axis), tuple(scales.tolist()), tuple((-zeros).tolist()))


def block_encoding(node: Node, value: Value, axis: int, block_size: int) -> BlockScaleOffset:
    """Return the encoding of integers with one scale per block of an axis (opset 21).

    Raises:
        UnsupportedOp: If the scales do not fit, or the last block is not full.
    """
    scales, zeros = _scales_and_zeros(node, 1, 2)
    axis += value.rank if axis < 0 else 0
    if not 0 <= axis < value.rank or block_size < 1:
        raise node.problem(f"block_size {block_size} along axis {axis} of {list(value.shape)}")
    if value.shape[axis] % block_size:
        raise node.problem(f"blocks of {block_size} do not divide {value.shape[axis]}")
    block = tuple(block_size if position == axis else 1 for position in range(value.rank))
    grid = tuple(dim // size for dim, size in zip(value.shape, block, strict=True))
    if scales.shape != grid:
        raise node.problem(f"scales {list(scales.shape)} for {list(grid)} blocks of {block_size}")
    return BlockScaleOffset(block, scales.reshape(-1), (-zeros).reshape(-1).astype(np.int32))


def real(node: Node, b: Builder, value: Value, encoding: StaticEncoding) -> Value:
    """Return the floats that integers denote.

    Static ones stay stored as they are until somebody reads them.  Four bits lie in eight, as QNN has
    weights; unsigned ones around 8 are the signed ones around 0.

    Args:
        value: Plain integers.
        encoding: Their encoding, its axis one of the value's tensor.
    """
    dtype, data = fixed(node, value.dtype), value.tensor.data
    if data is None:
        if isinstance(encoding, BlockScaleOffset):
            raise node.problem("block_size for computed values is not supported")
        return b.unary("Dequantize", _stored(b, value, dtype, encoding), dtype=ir.dtype.FLOAT32)
    if value.bits == 4:
        if not dtype.is_signed and _offsets(encoding) == {-8}:
            data = data.transform(lambda array: array.astype(np.int8) - np.int8(8), dtype=np.int8)
            dtype, encoding = ir.dtype.SFIXED8, _symmetric(encoding)
        encoding = replace(encoding, bits=4)
    return b.const(ir.Dequantized(data, dtype, encoding), value.tensor.name)


def _offsets(given: StaticEncoding) -> set[int]:
    return {given.offset} if isinstance(given, ScaleOffset) else set(np.unique(given.offsets).tolist())


def _symmetric(given: StaticEncoding) -> StaticEncoding:
    if isinstance(given, ScaleOffset):
        return replace(given, offset=0)
    return replace(given, offsets=())


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
    """Return the integers that float values are rounded to, as the result of a node.

    The fixed-point tensor that stores them takes the name that the source has for the result.
    """
    if value.dtype is not ir.dtype.FLOAT32:
        raise node.problem(f"quantizing {value.dtype} is not supported; QNN quantizes float32")
    rounded = b.unary("Quantize", value, dtype=dtype, encoding=encoding)
    name = node.outputs[0]
    if name and name not in b.graph.tensors:
        b.graph.rename(rounded.tensor, name)
    return b.unary(REINTERPRET, rounded, dtype=_PLAIN[dtype], package=ir.HOST_PACKAGE)
