"""Quantized TFLite values as float values of encodings that HTP supports.

Handlers compute on floats, which may stand for fixed-point tensors (``converter.fixed_point``); results are
rounded to the encodings of their tensors.  The integers of the source remain where something reads them as
such, and at the inputs and outputs of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter import fixed_point
from xdlc.converter.fixed_point import FIXED
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.tensors import Quantization, TensorInfo, reals
from xdlc.converter.values import SequenceValue, StoredValue, Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, Op, ScaleOffset, Tensor
from xdlc.ir.derived_data import StaticEncoding
from xdlc.ir.dtype import INT8, INT16, UINT8
from xdlc.ir.encoding import floats, integers
from xdlc.passes._static_fixed_point import Form

_FIXED = {dtype.numpy: FIXED[dtype] for dtype in (INT8, UINT8, INT16)}
"""Fixed-point types of the tensors that operators compute, by type."""
_STORED = (np.int8, np.uint8, np.int16, np.int32)
_INT8 = 9
_HYBRID = (
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "CONV_2D",
    "EMBEDDING_LOOKUP",
    "FULLY_CONNECTED",
    "LSTM",
    "RNN",
    "SVDF",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
)
"""Operators whose weights may be integers while their activations are floats."""


def is_stored(tensor: TensorInfo) -> bool:
    """Return whether results that are written to a tensor are rounded to its encoding."""
    return tensor.quantization is not None and tensor.dtype in _STORED


def is_implied(given: Quantization, dtype: np.dtype[Any], low: float, high: float | None) -> bool:
    """Return whether rounding to an encoding clips values to bounds at least as tight."""
    limits, scale, zero = np.iinfo(dtype), float(given.scales[0]), int(given.zero_points[0])
    return round(low / scale) + zero <= limits.min and (
        high is None or round(high / scale) + zero >= limits.max
    )


def real_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the float values of a quantized tensor; other values as is.

    They may stand for a fixed-point tensor (``converter.fixed_point``).
    """
    quantization = tensor.quantization
    if quantization is None or not value.dtype.is_integer:
        return value
    if isinstance(value, StoredValue) and value.source is quantization:
        return value.real
    form = None if value.is_static else _form(tensor)
    if form is None:
        return _dequantized(g, value, quantization, tensor.dtype)
    return fixed_point.real(g.builder, value, form)


def restored_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the values of ``real_value`` as floats that the graph has."""
    return fixed_point.restored(g.builder, real_value(g, value, tensor))


def stored_values(
    g: Operators, values: Sequence[Value], tensors: Sequence[TensorInfo], start: Op | None
) -> list[Value]:
    """Return the stored integers of the results of a node; other values as is.

    Args:
        start: The last op before those of the node, which may compute in fixed point.
    """
    b = g.builder
    forms = [_rounding(value, tensor) for value, tensor in zip(values, tensors, strict=False)]
    fixed_point.settle(b, start, values, [tensor.name for tensor in tensors], forms)
    return [
        _plain(g, value, tensor) if form is None else fixed_point.stored(b, value, form, tensor.quantization)
        for value, tensor, form in zip(values, tensors, forms, strict=False)
    ]


def stored_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the stored integers of a quantized tensor; other values as is."""
    return stored_values(g, [value], [tensor], g.builder.graph.last)[0]


def _plain(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return what no fixed-point tensor stores, rounded if its tensor is quantized."""
    if isinstance(value, SequenceValue):  # complex numbers
        return value
    value, quantization = fixed_point.restored(g.builder, value), tensor.quantization
    if quantization is None or not value.dtype.is_float or not is_stored(tensor):
        return value
    if quantization.scales.size > 1:
        raise UnsupportedOp(
            f"the operator rounds the result to {quantization.scales.size} scales; QNN rounds to one scale",
            fix="convert the model with one scale for each activation",
        )
    scale = g.builder.const(quantization.scales.reshape(()))
    zero = g.builder.const(_zeros(quantization, tensor.dtype).reshape(()))
    if tensor.dtype != np.int32:
        return g("QuantizeLinear", [value, scale, zero])
    steps = g("Cast", [g("Round", [g("Div", [value, scale])])], to=6)
    return g("Add", [steps, zero]) if quantization.zero_points.any() else steps


def _rounding(value: Value, tensor: TensorInfo) -> Form | None:
    """Return the form that a tensor rounds computed floats to, or None."""
    form = _form(tensor)
    return None if form is None or value.is_static or value.dtype.is_integer else form


def _form(tensor: TensorInfo) -> Form | None:
    """Return the storage type and encoding of a computed tensor of one scale, or None."""
    quantization = tensor.quantization
    if quantization is None or quantization.scales.size > 1:
        return None
    dtype = tensor.dtype
    if dtype not in _FIXED:
        return None
    zero = int(_zeros(quantization, dtype).reshape(()))
    return _FIXED[dtype], ScaleOffset(float(quantization.scales.reshape(())), -zero)


def signed_weights(node: Node, value: Value, tensor: TensorInfo) -> tuple[Value, TensorInfo]:
    """Return weights of 8 bits in the type in which the operator reads them.

    Models of 2018 state the symmetric int8 weights of float operators as uint8 (LiteRT's hybrid kernels).
    """
    given = tensor.quantization
    if given is None or not value.is_static or tensor.dtype != np.uint8 or given.zero_points.any():
        return value, tensor
    data = value.tensor.data
    if data is None or node.type not in _HYBRID or node.message.outputs[0].dtype != np.float32:
        return value, tensor
    signed = data.transform(lambda array: array.view(np.int8), dtype=np.int8)
    made = Tensor(value.tensor.name, value.tensor.shape, ir.dtype.INT8, data=signed, role=ir.Role.STATIC)
    return Value(made, value.order, ranked=value.ranked), replace(tensor, type=_INT8)


def _zeros(quantization: Quantization, dtype: np.dtype[Any]) -> Any:
    zeros = quantization.zero_points.astype(dtype)
    if (zeros.astype(np.int64) != quantization.zero_points).any():
        raise ModelError(
            f"a zero point of {quantization.zero_points.reshape(-1)[0]} is outside the range of {dtype}",
            fix="convert the model again: the quantization parameters do not fit the tensor",
        )
    return zeros


def _dequantized(g: Operators, value: Value, quantization: Quantization, dtype: np.dtype[Any]) -> Value:
    if value.dtype.bits > 32:  # biases of models with 16-bit activations
        array, limits = value.numpy() if value.is_static else np.zeros(0), np.iinfo(np.int32)
        if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
            return g.builder.const(reals(array, quantization), value.tensor.name)
        value, dtype = g("Cast", [value], to=6), np.dtype(np.int32)
    stored = FIXED.get(value.dtype) if value.is_static else None
    if stored is not None:
        return fixed_point.constant(g.builder, value, stored, _encoding(value, quantization, dtype))
    parameters: list[Any] = [quantization.scales, _zeros(quantization, dtype)]
    if quantization.scales.size == 1:
        parameters = [entry.reshape(()) for entry in parameters]
    constants = [g.builder.const(entry) for entry in parameters]
    blocks = {"block_size": quantization.block_size} if quantization.block_size else {}
    return g("DequantizeLinear", [value, *constants], axis=quantization.axis, **blocks)


def _encoding(value: Value, quantization: Quantization, dtype: np.dtype[Any]) -> StaticEncoding:
    """Return the encoding of static integers."""
    scales, offsets = quantization.scales, -_zeros(quantization, dtype).astype(np.int64)
    if scales.size == 1:
        return ScaleOffset(float(scales.reshape(())), int(offsets.reshape(())))
    if not quantization.block_size:
        axis = value.axis(quantization.axis)
        return AxisScaleOffset(axis, tuple(scales.tolist()), tuple(offsets.tolist()))
    block = tuple(quantization.block_size if axis == quantization.axis else 1 for axis in range(value.rank))
    return BlockScaleOffset(block, floats(scales.reshape(-1)), integers(offsets.reshape(-1)))
