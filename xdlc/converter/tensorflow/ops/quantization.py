"""Handlers of quantization nodes, which become encodings if possible."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions import quantization
from xdlc.converter.functions.shapes import ints
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import dtype_of, handler
from xdlc.converter.values import Value


@handler("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel", "FakeQuantWithMinMaxArgs")
def _fake_quant(node: Node, g: Operators, x: Value, *ends: Value) -> Value:
    if not ends:
        limits = (node.attr(name, default) for name, default in (("min", -6.0), ("max", 6.0)))
        ends = tuple(g.builder.const(np.asarray(limit, np.float32)) for limit in limits)
    bits, narrow = int(node.attr("num_bits", 8)), bool(node.attr("narrow_range", False))
    return quantization.fake_quant(g, x, *ends, bits=bits, narrow=narrow)


@handler(
    "QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"
)
def _quantize_and_dequantize(node: Node, g: Operators, x: Value, *rest: Value) -> Value:
    bits = int(node.attr("num_bits", 8))
    if node.type == "QuantizeAndDequantize":
        rest = tuple(g.builder.const(np.asarray(node.attr(name, 0.0), np.float32)) for name in _ENDS)
    elif node.type.endswith("V3"):
        (bits,) = ints(rest[2], "the number of bits")
    axis = int(node.attr("axis", -1))
    given = bool(node.attr("range_given", node.type.endswith("V3")))
    low, high = (rest[0], rest[1]) if given else (None, None)
    return quantization.symmetric(
        g,
        x,
        low,
        high,
        bits=bits,
        is_signed=bool(node.attr("signed_input", True)),
        narrow=bool(node.attr("narrow_range", False)),
        axis=None if axis < 0 else axis,
        half_up=str(node.attr("round_mode", "HALF_TO_EVEN")) == "HALF_UP",
    )


_ENDS = ("input_min", "input_max")


@handler("Dequantize", ignores=("dtype",))
def _dequantize(node: Node, g: Operators, x: Value, low: Value, high: Value) -> Value:
    axis, narrow = int(node.attr("axis", -1)), bool(node.attr("narrow_range", False))
    mode = str(node.attr("mode", "MIN_COMBINED"))
    if mode == "MIN_FIRST" and low.is_static and high.is_static and (low.numpy() == high.numpy()).any():
        g.context.diagnostics.notices.append(
            f"node {node.own_name!r} has a range of one value, so TensorFlow divides by 0; "
            "xdlc returns this value"
        )
    return quantization.dequantized(
        g, x, low, high, mode=mode, narrow=narrow, axis=None if axis < 0 else axis
    )


@handler("QuantizeV2")
def _quantize(node: Node, g: Operators, x: Value, low: Value, high: Value) -> list[Value]:
    dtype = dtype_of(node, "T", "quint8")
    if int(node.attr("axis", -1)) >= 0:
        raise node.problem("xdlc does not support a range per element of an axis")
    return quantization.quantized(
        g,
        x,
        low,
        high,
        dtype,
        mode=str(node.attr("mode", "MIN_COMBINED")),
        narrow=bool(node.attr("narrow_range", False)),
        half_even=str(node.attr("round_mode", "HALF_AWAY_FROM_ZERO")) == "HALF_TO_EVEN",
        least_range=float(node.attr("ensure_minimum_range", 0.01)),
    )
