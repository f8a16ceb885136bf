"""Handlers of TFLite operators, on floats, and readers of their nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import F, Handler, HandlerFunction, Handlers
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.tflite import flex
from xdlc.converter.tflite.graphs import Operator
from xdlc.converter.tflite.quantized import is_implied, is_stored, real_value, signed_weights, stored_values
from xdlc.converter.tflite.tensors import TensorInfo
from xdlc.converter.values import SequenceValue, Value
from xdlc.ir import DType

_CLIPS = {1: (0, None), 2: (-1, 1), 3: (0, 6)}
"""Bounds of the fused activations that clip, by number: RELU, RELU_N1_TO_1, RELU6."""
_TANH = 4
_PARTWISE = frozenset(
    """
    RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE CONCATENATION SPLIT SPLIT_V PACK UNPACK SLICE STRIDED_SLICE GATHER
    GATHER_ND REVERSE_V2 TILE BROADCAST_TO ADD SUB NEG SUM
    """.split()  # noqa: SIM905 - a list literal would be 18 lines
)
"""Operators that do the same to the real and to the imaginary parts of complex values."""


class TfliteHandlers(Handlers):
    """Handlers of TFLite operators.

    A handler gets float values for quantized tensors and returns float values.  The floats may stand for
    fixed-point tensors, on which its operations compute then (``converter.fixed_point``).  Then the fused
    activation is applied to the first output, and outputs are rounded.
    """

    def __call__(
        self,
        *types: str,
        layout: str = SOURCE,
        ignores: Sequence[str] = (),
        domain: str = "",
        wraps: bool = True,
    ) -> Callable[[F], F]:
        """Register a function as the handler of operators, like ``Handlers``.

        Args:
            layout: Layout in which the handler works.
            ignores: Options without meaning.
            wraps: Whether quantized values and the fused activation are treated around the handler; else the
                handler gets the integers, and reads all options itself.
        """

        def register(function: F) -> F:
            around: HandlerFunction = _wrapped(self.with_operands(function)) if wraps else function
            super(TfliteHandlers, self).__call__(*types, layout=layout, ignores=ignores, domain=domain)(
                around
            )
            return function

        return register

    def find(self, domain: str, type: str) -> Handler | None:
        """Return the handler of a node type, of TensorFlow's importer for its operators."""
        return super().find(domain, type) or (None if domain else flex.handler_of(type))


def _wrapped(function: HandlerFunction) -> HandlerFunction:
    @functools.wraps(function)
    def handle(node: Node, g: Operators) -> Sequence[Value]:
        if any(isinstance(value, SequenceValue) for value in node.inputs):
            return _of_parts(function, node, g)
        operator: Operator = node.message
        node.inputs = [
            value if value is None or info is None else real_value(g, *signed_weights(node, value, info))
            for value, info in zip(node.inputs, operator.inputs, strict=True)
        ]
        start = g.builder.graph.last
        made = cast("Value | Sequence[Value]", function(node, g))
        results = [made] if isinstance(made, Value) else list(made)
        activation = node.attr("fused_activation_function", 0)
        if activation and results:
            results[0] = activated(node, g, results[0], activation, operator.outputs[0])
        return stored_values(g, results, operator.outputs, start)

    return handle


def _of_parts(function: HandlerFunction, node: Node, g: Operators) -> list[Any]:
    """Return complex results as pairs, computed from real and imaginary parts.

    Raises:
        UnsupportedOp: If the operator does not treat both alike.
    """
    if node.type not in _PARTWISE:
        raise node.problem(
            "xdlc does not support complex values",
            "export the model with real and imaginary parts as separate tensors",
        )
    operands: list[Any] = node.inputs
    parts = []
    for index in range(2):
        node.inputs = [
            value.elements[index] if isinstance(value, SequenceValue) else value for value in operands
        ]
        result = cast("Value | Sequence[Value]", function(node, g))
        parts.append([result] if isinstance(result, Value) else list(result))
    return [SequenceValue(pair) for pair in zip(*parts, strict=True)]


def activated(node: Node, g: Operators, value: Value, activation: int, tensor: TensorInfo) -> Value:
    """Return a value after a fused activation, unless its encoding implies it.

    TANH is not applied: LiteRT's kernels other than the recurrent ones compute without it.
    """
    if activation == _TANH:
        notice = f"{g.context.source.describe(node)}: its fused TANH is not applied, as in LiteRT's kernels"
        g.context.diagnostics.notices.append(notice)
        return value
    if activation not in _CLIPS:
        raise node.problem(f"xdlc does not support fused activation {activation}")
    low, high = _CLIPS[activation]
    given = tensor.quantization
    if given is not None and is_stored(tensor) and is_implied(given, tensor.dtype, low, high):
        return value
    if high is None:
        return g("Relu", [value])
    return clipped(g, value, low, high)


_RESTATING = """
asymmetric_quantize_inputs depth_multiplier idx_out_type in_data_type out_data_type output_type
pot_scale_int16 quantized_bias_type unused0 unused1 validate_indices
"""
"""Options that restate types or shapes, or choose a kernel of LiteRT."""

handler = TfliteHandlers("xdlc.converter.tflite.ops", _RESTATING.split())


def dtype_of(node: Node, output: int = 0) -> DType:
    """Return the data type that the file states of an output.

    Raises:
        ModelError: If a DLC has no such type.
    """
    tensor: TensorInfo = node.message.outputs[output]
    return tensor.qnn_dtype


def stated_dims(node: Node) -> Sequence[int] | None:
    """Return the first output's shape that the file states; None if open."""
    tensor = node.message.outputs[0]
    return None if -1 in tensor.signature else tensor.shape
