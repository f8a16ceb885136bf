"""Clip."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT64
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RELU, RELU_MIN_MAX


@importer("Clip", since=6, layout=ANY)
def clip(node: Node, b: Builder) -> Value:
    """Map constant float limits onto ReluMinMax, all else onto Minimum and Maximum."""
    value = node.required(0)
    low, high = _limit(node, b, 1, "min"), _limit(node, b, 2, "max")
    known = all(limit is None or limit.is_static for limit in (low, high))
    if value.dtype.is_float and value.dtype is not FLOAT64 and known:  # limits are of 32 bits
        lowest, highest = (
            None if limit is None else float(limit.numpy().reshape(())) for limit in (low, high)
        )
        if lowest is None and highest is None:
            return value
        if any(limit is not None and math.isnan(limit) for limit in (lowest, highest)):
            raise node.invalid("a limit is NaN")
        if lowest == 0.0 and highest is None:
            return neuron(b, value, RELU)
        most = float(np.finfo(np.float32).max)
        params = {
            "min_value": ir.f32(-most if lowest is None else max(lowest, -most)),
            "max_value": ir.f32(most if highest is None else min(highest, most)),
        }
        return neuron(b, value, RELU_MIN_MAX, params)
    if low is not None:
        value = b.binary(MAXIMUM, value, low)
    return value if high is None else b.binary(MINIMUM, value, high)


def _limit(node: Node, b: Builder, index: int, attribute: str) -> Value | None:
    given = node.attr(attribute)
    if given is not None:
        return b.const(np.asarray(given, node.required(0).dtype.numpy))
    return node.input(index)
