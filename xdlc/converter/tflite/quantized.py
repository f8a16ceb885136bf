"""Quantized TFLite values as float values of encodings that HTP supports.

Between operators stand the integers of the source.  Around each operator they are dequantized and its result
is quantized: ``fold_quantize_dequantize`` makes operations on fixed point of that.  HTP's operations take
unsigned activations where their signed ones are listed for some operations only, so signed integers of 8
and 16 bits are shifted: q + 128 with zero point + 128 denotes the same number.  The integers as the source
has them remain where something reads them as such, and at the inputs and outputs of the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.tensors import Quantization, TensorInfo, reals
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import Op, Tensor

_UNSIGNED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.int8): np.dtype(np.uint8),
    np.dtype(np.int16): np.dtype(np.uint16),
}
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
    """Return the float values of a quantized tensor; other values as is."""
    quantization = tensor.quantization
    if quantization is None or not value.dtype.is_integer:
        return value
    if value.is_static or tensor.dtype not in _UNSIGNED or quantization.scales.size > 1:
        return _dequantized(g, value, quantization, tensor.dtype)
    shifted = _shifted(g, value)
    return shifted or rounded_value(
        g, _dequantized(g, value, quantization, tensor.dtype), quantization, tensor.dtype
    )


def stored_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the stored integers of a quantized tensor; other values as is."""
    quantization = tensor.quantization
    if quantization is None or not value.dtype.is_float or not is_stored(tensor):
        return value
    if quantization.scales.size > 1:
        raise UnsupportedOp(
            f"the operator rounds the result to {quantization.scales.size} scales; QNN rounds to one scale",
            fix="convert the model with one scale for each activation",
        )
    if tensor.dtype == np.int32:
        steps = g("Round", [g("Div", [value, g.builder.const(quantization.scales.reshape(()))])])
        steps, zero = (
            g("Cast", [steps], to=6),
            g.builder.const(_zeros(quantization, tensor.dtype).reshape(())),
        )
        return g("Add", [steps, zero]) if quantization.zero_points.any() else steps
    _name(g, value.tensor, tensor.name)
    if tensor.dtype in _UNSIGNED:
        value = rounded_value(g, value, quantization, tensor.dtype)
    return _quantized(g, value, quantization, tensor.dtype)


def signed_weights(node: Node, value: Value, tensor: TensorInfo) -> tuple[Value, TensorInfo]:
    """Return weights of 8 bits in the type in which the operator reads them.

    Models of 2018 state the symmetric int8 weights of float operators as uint8 (LiteRT's hybrid kernels).
    """
    given, data = tensor.quantization, value.tensor.data
    hybrid = node.type in _HYBRID and node.message.outputs[0].dtype == np.float32
    if data is None or given is None or not hybrid or tensor.dtype != np.uint8 or given.zero_points.any():
        return value, tensor
    signed = data.transform(lambda array: array.view(np.int8), dtype=np.int8)
    made = Tensor(value.tensor.name, value.tensor.shape, ir.dtype.INT8, data=signed, role=ir.Role.STATIC)
    return Value(made, value.order, ranked=value.ranked), replace(tensor, type=_INT8)


def _name(g: Operators, made: Tensor, name: str) -> None:
    """Name the float tensor that the node computed and that becomes fixed point."""
    op, graph = made.producer, g.builder.graph
    if op is not None and op.origin.nodes[-1:] == (g.builder.node,) and name not in graph.tensors:
        graph.rename(made, name)


def rounded_value(g: Operators, value: Value, quantization: Quantization, dtype: np.dtype[Any]) -> Value:
    """Return float values that are rounded to unsigned integers on the way."""
    unsigned = _UNSIGNED[dtype]
    shifted = Quantization(quantization.scales, quantization.zero_points - np.iinfo(dtype).min)
    return _dequantized(g, _quantized(g, value, shifted, unsigned), shifted, unsigned)


def _quantized(g: Operators, value: Value, quantization: Quantization, dtype: np.dtype[Any]) -> Value:
    scale = g.builder.const(quantization.scales.reshape(()))
    zero = g.builder.const(_zeros(quantization, dtype).reshape(()))
    return g("QuantizeLinear", [value, scale, zero])


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
    parameters: list[Any] = [quantization.scales, _zeros(quantization, dtype)]
    if quantization.scales.size == 1:
        parameters = [entry.reshape(()) for entry in parameters]
    constants = [g.builder.const(entry) for entry in parameters]
    blocks = {"block_size": quantization.block_size} if quantization.block_size else {}
    return g("DequantizeLinear", [value, *constants], axis=quantization.axis, **blocks)


def _shifted(g: Operators, value: Value) -> Value | None:
    """Return the float values from which unsigned integers were computed."""
    maker = _made(_made(value.tensor, "Reinterpret"), "Quantize")
    if maker is None:
        maker = value.tensor
        for type in ("Reinterpret", "Dequantize", "Quantize", "Dequantize"):
            maker = _used(g, maker, type)
    elif _made(maker, "Dequantize") is None:
        return None
    return None if maker is None else Value(maker, value.order, ranked=value.ranked)


def _made(tensor: Tensor | None, type: str) -> Tensor | None:
    """Return the input of a tensor's producer, if that has the given type."""
    op = tensor.producer if tensor is not None else None
    return op.inputs[0] if op is not None and _is(op, type) else None


def _used(g: Operators, tensor: Tensor | None, type: str) -> Tensor | None:
    """Return the output of a tensor's consumer, if that has the given type."""
    readers = g.builder.graph.consumers(tensor) if tensor is not None else ()
    return next((op.outputs[0] for op in readers if _is(op, type)), None)


def _is(op: Op, type: str) -> bool:
    package = ir.HOST_PACKAGE if type == "Reinterpret" else ir.NATIVE_PACKAGE
    return (op.type, op.package) == (type, package)
