"""Handlers of TFLite operators: float values, fused activations and encodings around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from xdlc.converter.importer import F, HandlerFunction, Handlers
from xdlc.converter.nhwc.elementwise import clipped
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.tflite.graphs import Operator
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.converter.values import Value

_CLIPS = {1: (0, None), 2: (-1, 1), 3: (0, 6)}
"""Bounds of the fused activations that clip, by number: RELU, RELU_N1_TO_1, RELU6."""
_TANH = 4
_STORED = (np.int8, np.uint8, np.int16)


class TfliteHandlers(Handlers):
    """Handlers of TFLite operators.

    A handler gets float values for quantized tensors and returns float values; around it, quantized inputs
    are dequantized, the fused activation is applied to the first output, and outputs are quantized.
    ``fold_quantize_dequantize`` makes operations on fixed point of that.
    """

    def __call__(
        self,
        *types: str,
        layout: str = SOURCE,
        ignores: Sequence[str] = (),
        domain: str = "",
        wraps: bool = True,
    ) -> Callable[[F], F]:
        """Register a function as the handler of operators, as ``Handlers`` does.

        Args:
            types: Operators.
            layout: Layout in which the handler works.
            ignores: Options without meaning.
            domain: Domain of the types.
            wraps: Whether quantized values and the fused activation are treated around the handler; else the
                handler gets the integers, and reads all options itself.
        """

        def register(function: F) -> F:
            around: HandlerFunction = _wrapped(function) if wraps else function
            super(TfliteHandlers, self).__call__(*types, layout=layout, ignores=ignores, domain=domain)(
                around
            )
            return function

        return register


def _wrapped(function: HandlerFunction) -> HandlerFunction:
    def handle(node: Node, g: Operators) -> Sequence[Value]:
        operator: Operator = node.message
        node.inputs = [
            value if value is None or info is None else real_value(g, value, info)
            for value, info in zip(node.inputs, operator.inputs, strict=True)
        ]
        made = cast("Value | Sequence[Value]", function(node, g))
        results = [made] if isinstance(made, Value) else list(made)
        activation = node.attr("fused_activation_function", 0)
        if activation and results:
            results[0] = activated(node, g, results[0], activation, operator.outputs[0])
        return [stored_value(g, value, info) for value, info in zip(results, operator.outputs, strict=False)]

    return handle


def real_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the float values that a quantized tensor denotes; other values as they are."""
    given = tensor.quantization
    if given is None or value.dtype.is_float or not value.dtype.is_integer:
        return value
    if value.dtype.bits > 32:  # biases of models with 16-bit activations
        value = g("Cast", [value], to=6)
    zeros = given.zero_points.astype(value.dtype.numpy)
    parameters: list[Any] = [given.scales, zeros]
    if given.scales.size == 1:
        parameters = [entry.reshape(()) for entry in parameters]
    constants = [g.builder.const(entry) for entry in parameters]
    return g("DequantizeLinear", [value, *constants], axis=given.axis)


def stored_value(g: Operators, value: Value, tensor: TensorInfo) -> Value:
    """Return the integers that a quantized tensor stores; other values as they are."""
    given = tensor.quantization
    if given is None or not value.dtype.is_float or tensor.dtype not in _STORED:
        return value
    scale = g.builder.const(given.scales.reshape(()))
    zero = g.builder.const(given.zero_points.astype(tensor.dtype).reshape(()))
    return g("QuantizeLinear", [value, scale, zero])


def activated(node: Node, g: Operators, value: Value, activation: int, tensor: TensorInfo) -> Value:
    """Return a value after a fused activation; one that the encoding of the result implies is no op."""
    if activation == _TANH:
        return g("Tanh", [value])
    if activation not in _CLIPS:
        raise node.problem(f"fused activation {activation} has no mapping onto QNN operations")
    low, high = _CLIPS[activation]
    given = tensor.quantization
    if given is not None and tensor.dtype in _STORED:
        limits = np.iinfo(tensor.dtype)
        least, most = (float((q - given.zero_points[0]) * given.scales[0]) for q in (limits.min, limits.max))
        if least >= low and (high is None or most <= high):
            return value
    if high is None:
        return g("Relu", [value])
    return clipped(g, value, low, high)


handler = TfliteHandlers("xdlc.converter.tflite.ops")
