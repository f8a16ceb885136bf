"""Scales and zero points of quantized operators as encodings."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.onnx.registry import Node
from xdlc.converter.values import Value
from xdlc.ir import DType, Encoding
from xdlc.ir.data import Array

_FIXED = {
    ir.dtype.UINT8: ir.dtype.UFIXED8,
    ir.dtype.INT8: ir.dtype.SFIXED8,
    ir.dtype.UINT16: ir.dtype.UFIXED16,
    ir.dtype.INT16: ir.dtype.SFIXED16,
    ir.dtype.INT32: ir.dtype.SFIXED32,
}


def fixed(node: Node, dtype: DType) -> DType:
    """Return the fixed-point type of an integer type, or the type itself if it is one."""
    if dtype.is_fixed:
        return dtype
    if dtype not in _FIXED:
        raise node.problem(f"quantized values of type {dtype}; QNN has 8, 16 and 32 bits")
    return _FIXED[dtype]


def encoding(node: Node, scale_index: int, zero_index: int, axis: int = 0) -> Encoding:
    """Return the encoding that a scale and a zero-point input stand for.

    Args:
        node: The node.
        scale_index: Position of the scale.
        zero_index: Position of the zero point.
        axis: Axis of a scale with several values.
    """
    if node.attr("block_size", 0):
        raise node.problem("block_size", "use scales per tensor or per axis")
    scales = _known(node, scale_index, "the scale").astype(np.float64).reshape(-1)
    zero = node.static(zero_index, "the zero point")
    zeros = np.zeros(len(scales), np.int64) if zero is None else zero.astype(np.int64).reshape(-1)
    zeros = np.broadcast_to(zeros, scales.shape)
    if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
        raise node.problem(f"a scale is not a positive number: {scales[:4]}")
    if len(scales) == 1:
        return ir.ScaleOffset(float(scales[0]), -int(zeros[0]))
    return ir.AxisScaleOffset(axis, tuple(scales.tolist()), tuple((-zeros).tolist()))


def zero_dtype(node: Node, zero_index: int, default: DType = ir.dtype.UINT8) -> DType:
    """Return the fixed-point type that a zero point asks for."""
    zero = node.input(zero_index)
    return fixed(node, zero.dtype if zero is not None else default)


def _known(node: Node, index: int, what: str) -> Array:
    array = node.static(index, what)
    if array is None:
        raise node.problem(f"{what} (input {index}) is missing")
    return array


def static_quantized(node: Node, value: Value, given: Encoding) -> Value:
    """Return a static integer value as quantized data."""
    held = value.tensor
    if held.data is None:
        raise node.problem(f"{held.name!r} is computed at run time, but must be constant")
    tensor = ir.Tensor(held.name, held.shape, fixed(node, held.dtype), given, held.data, ir.Role.STATIC)
    return Value(tensor, value.order)
