"""16-bit weights as two of 8 bits, for DSP generations without 16-bit weights.

A 16-bit weight is 256 * high + low, both signed bytes.  The op computes with the high bytes and the bias, a
twin of it with the low ones, and a sum adds the results: twice the products, for the accuracy of 16 bits.
Scales of the two results are that of the sum times powers of two, so that factors that are exact for the
op (``multipliers``) are so for both.  Where the first saturates the sum does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from operator import mul
from typing import TypeAlias

import numpy as np

from xdlc.ir import AxisScaleOffset, Encoding, Graph, Op, Origin, ScaleOffset, Tensor, make_op, u32
from xdlc.ir.data import Array
from xdlc.ir.dtype import LARGEST_OF_BYTES, SFIXED8, SFIXED16, UFIXED16
from xdlc.ir.tensor import Role
from xdlc.opdefs.traits import traits
from xdlc.quant.multipliers import LEAST_FACTOR, LEAST_OF_SHIFTED, least_factor, shifts_sums
from xdlc.quant.ranges import MIN_WIDTH, Decision, QuantType, Range, Use, representable, to_quantized
from xdlc.targets import Soc

Halves: TypeAlias = tuple[ScaleOffset, ScaleOffset]
"""Encodings of the results of the high and of the low bytes, 16 bits each."""

_STEPS = (1 << 16) - 1

_SPREAD = 6.0
"""Standard deviations that a sum of random signs stays within."""

_ADD = 0
"""Operation of ElementWiseBinary."""


def splits(soc: Soc | None) -> bool:
    """Return whether a target has 8-bit weights only with 16-bit activations.

    Without a SoC the result is False.
    """
    return soc is not None and soc.capabilities.a16w8 and not soc.capabilities.a16w16


def can_split(op: Op) -> bool:
    """Return whether an op adds products with its static weights."""
    own = traits(op)
    return own.weight is not None and bool(own.macs) and len(op.outputs) == 1


def halves(op: Op, decision: Decision) -> Halves | None:
    """Return the encodings of the results of a weight's two bytes.

    The result is None if the weights or the op's result do not have 16 bits.

    Args:
        decision: The forms of its weights and of what it reads and writes.
    """
    weight, source = op.inputs[1], op.inputs[0]
    stored, result = decision.statics.get((op, 1)), decision.activations.get(op.outputs[0])
    read = decision.statics.get((op, 0)) or (decision.read(source, UFIXED16) if source is not None else None)
    if weight is None or stored is None or result is None or read is None or stored[0] is not SFIXED16:
        return None
    (written, own), entry = result, read[1]
    if written is not UFIXED16 or not isinstance(own, ScaleOffset) or not isinstance(entry, ScaleOffset):
        return None
    values = representable(entry, read[0])
    largest = max(-values.low, values.high) * _largest_sum(op, weight, stored[1])
    ends = representable(own, written)
    low = _covering(own.scale, Range(-largest, largest))
    # The high bytes have factors 256 times as large, and sums beyond the result.
    least = LEAST_OF_SHIFTED if shifts_sums(op) else LEAST_FACTOR
    least = max(least * low.scale, float(least_factor(op, entry, own).max()) * own.scale / 256) / entry.scale
    for index in (1, 2):
        if (op, index) in decision.statics:
            dtype, encoding = decision.statics[op, index]
            powers = _powers(stored[1], least)
            decision.statics[op, index] = dtype, _times(encoding, powers)
    return _covering(own.scale, Range(ends.low - largest, ends.high + largest)), low


def _powers(encoding: Encoding, least: float) -> tuple[float, ...]:
    """Return powers of two that bring the scales of channels to the least."""
    return tuple(2.0 ** max(0, math.ceil(math.log2(least / scale))) for scale in _scales(encoding))


def _covering(scale: float, values: Range) -> ScaleOffset:
    """Return an encoding over a range, its scale a power of two times ``scale``."""
    power = math.ceil(math.log2(max(values.width, MIN_WIDTH) / (scale * (_STEPS - 1))))
    fit = math.ldexp(scale, power)
    return ScaleOffset(fit, max(round((values.low + values.high) / (2 * fit)) - (_STEPS + 1) // 2, -_STEPS))


def _largest_sum(op: Op, weight: Tensor, encoding: Encoding) -> float:
    """Return the largest sum of low bytes of a channel to expect, as float values."""
    axis = traits(op).channel_axis
    low = _bytes(weight.numpy(), encoding=encoding, is_high=False).astype(np.float64)
    axes = tuple(index for index in range(low.ndim) if index != axis)
    # Signs of low bytes are those of chance: sums of many of them are far below that of their magnitudes.
    sums = np.minimum(np.abs(low).sum(axis=axes), _SPREAD * np.sqrt(np.square(low).sum(axis=axes)))
    if weight.data is not None:
        weight.data.release()
    return float((sums * np.asarray(_scales(encoding))).max(initial=0.0))


def _scales(encoding: Encoding) -> tuple[float, ...]:
    return encoding.scales if isinstance(encoding, AxisScaleOffset) else (getattr(encoding, "scale", 0.0),)


def split(graph: Graph, op: Op, decision: Decision) -> dict[Use, QuantType]:
    """Split an op into an op of the weights' high bytes and an op of the low bytes.

    Their results are added.

    Args:
        graph: The graph; activations are stored already.
        op: An op with ``halves`` in the decision.

    Returns:
        The forms of the static data of the op that are to be stored yet.
    """
    result, (form, bias) = op.outputs[0], (decision.statics.get((op, index)) for index in (1, 2))
    assert form is not None
    upper, lower = (
        Tensor(
            graph.unique_name(f"{result.name}_{name}"),
            result.shape,
            UFIXED16,
            encoding,
            dynamic_axes=result.dynamic_axes,
        )
        for name, encoding in zip(("high", "low"), decision.halves[op], strict=True)
    )
    high, low = (_half(graph, op, form[1], is_high=is_high) for is_high in (True, False))
    why = f"16-bit weights of {op.name!r} as two of 8 bits"
    origin = Origin(op.origin.nodes, why)
    copied = {key: replace(param) if isinstance(param, Tensor) else param for key, param in op.params.items()}
    read = [op.inputs[0], low]
    twin = make_op(
        graph, op.type, read, [lower], copied, name=f"{op.name}_low", package=op.package, origin=origin
    )
    graph.set_inputs(op, [op.inputs[0], high, *op.inputs[2:]])
    graph.set_output(op, 0, upper)
    graph.insert_after(op, twin)
    params = {"operation": u32(_ADD)}
    read, name = [upper, lower], f"{op.name}_sum"
    total = make_op(graph, "ElementWiseBinary", read, [result], params, name=name, origin=origin)
    graph.insert_after(twin, total)
    return {} if bias is None else {(op, 2): (bias[0], _times(bias[1], (256.0,)))}


def _half(graph: Graph, op: Op, encoding: Encoding, *, is_high: bool) -> Tensor:
    """Return a new static tensor with the high or low bytes of a weight.

    They are computed when they are read.
    """
    weight = op.inputs[1]
    if weight is None or weight.data is None:
        raise ValueError(f"{op.name!r} has no static weight")
    function = partial(_bytes, encoding=encoding, is_high=is_high)
    return graph.add_tensor(
        Tensor(
            graph.unique_name(f"{weight.name}_{'high' if is_high else 'low'}"),
            weight.shape,
            SFIXED8,
            _times(encoding, (256.0,)) if is_high else encoding,
            weight.data.transform(function, dtype=SFIXED8.numpy),
            Role.STATIC,
        )
    )


def _times(encoding: Encoding, factors: tuple[float, ...]) -> Encoding:
    """Return an encoding with scales multiplied by a factor, or by one factor each."""
    if isinstance(encoding, AxisScaleOffset):
        each = factors * (len(encoding.scales) // len(factors))
        return replace(encoding, scales=tuple(map(mul, encoding.scales, each)))
    assert isinstance(encoding, ScaleOffset)
    return replace(encoding, scale=max(factors) * encoding.scale)


def _bytes(array: Array, *, encoding: Encoding, is_high: bool) -> Array:
    """Return the high or low bytes of float values in a 16-bit encoding."""
    quantized = to_quantized(array, encoding, SFIXED16).astype(np.int32)
    quantized = np.clip(quantized, -LARGEST_OF_BYTES, LARGEST_OF_BYTES)
    low = ((quantized + 128) & 255) - 128
    return ((quantized - low) >> 8 if is_high else low).astype(np.int8)
