"""Rounding of floats to integers and back, expressed as encodings if possible."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import cast, known, number, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import DType
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32


def nudged(low: Array, high: Array, bits: int, narrow: bool) -> tuple[Array, Array]:
    """Return scale and zero point of a range, shifted so that 0 is exact.

    Args:
        low: Least values, float32.
        high: Greatest values, float32.
        bits: Width of the integers, which are 0 (1 if ``narrow``) to 2^bits - 1.
        narrow: Whether the least integer is not used.

    Raises:
        ModelError: If the range or the width is impossible.
    """
    if not 2 <= bits <= 16 or not np.all(np.isfinite(low) & np.isfinite(high) & (low <= high)):
        raise ModelError(
            f"a range of {low} to {high} does not fit integers of {bits} bits", fix=CONTRADICTION
        )
    least, most = np.float32(narrow), np.float32((1 << bits) - 1)
    scale = ((high - low) / (most - least)).astype(np.float32)
    place = least - low / np.where(scale == 0, 1, scale).astype(np.float32)
    return scale, np.clip(np.floor(place + 0.5), least, most).astype(np.int64)


def fake_quant(
    g: Operators, x: Value, low: Value, high: Value, *, bits: int = 8, narrow: bool = False
) -> Value:
    """Return ``x`` quantized and dequantized over a range.

    Args:
        low: Least value, or one for each element of the last axis; constant.
        high: Greatest value, or values.
        bits: Width of the integers, 2 to 16.
        narrow: Whether the least integer is not used.

    Raises:
        ModelError: If the range is impossible.
        UnsupportedOp: If the range is computed.
    """
    limits = [known(value, "the range of a quantization").astype(np.float32) for value in (low, high)]
    scale, zero = nudged(limits[0], limits[1], bits, narrow)
    if (scale == 0).all():
        return g("Mul", [x, number(g, x, 0)])
    scale = np.where(scale == 0, np.float32(np.finfo(np.float32).tiny), scale)
    wide = np.uint8 if bits <= 8 else np.uint16
    if narrow or bits not in (8, 16):  # less than the integers hold
        ends = [((end - zero) * scale).astype(np.float32) for end in (int(narrow), (1 << bits) - 1)]
        x = g("Min", [g("Max", [x, g.builder.const(ends[0])]), g.builder.const(ends[1])])
    middle = 1 << (7 if wide is np.uint8 else 15)
    if x.is_static and (zero == middle).all():  # weights: signed integers around 0
        return rounded(g, x, scale, np.zeros(zero.shape, np.int8 if wide is np.uint8 else np.int16))
    return rounded(g, x, scale, zero.astype(wide))


def rounded(g: Operators, x: Value, scale: Array, zero: Array) -> Value:
    """Return ``x`` quantized and dequantized by one scale or last-axis scales."""
    axis = {"axis": x.rank - 1} if scale.ndim else {}
    given = [g.builder.const(np.asarray(scale, np.float32)), g.builder.const(zero)]
    return g("DequantizeLinear", [g("QuantizeLinear", [x, *given], **axis), *given], **axis)


def symmetric(
    g: Operators,
    x: Value,
    low: Value | None,
    high: Value | None,
    *,
    bits: int,
    is_signed: bool,
    narrow: bool,
    axis: int | None,
    half_up: bool,
) -> Value:
    """Return ``x`` rounded to the smallest steps whose integers cover a range.

    Args:
        low: Least value, or one for each element of ``axis``; None for that of ``x`` itself.
        high: Greatest value, or values.
        is_signed: Whether they are signed.
        narrow: Whether the least of them is not used.
        axis: Axis of ranges of its own, or None.
        half_up: Whether halves are rounded up, instead of to even.

    Raises:
        ModelError: If the width is impossible.
    """
    if not 2 <= bits <= 24:
        raise ModelError(f"integers of {bits} bits are not valid", fix=CONTRADICTION)
    least = -(1 << bits - 1) + narrow if is_signed else 0
    most = (1 << bits - is_signed) - 1
    has_limits = low is not None and high is not None
    if low is None or high is None:
        axes = [index for index in range(x.rank) if axis is None or index != axis % x.rank]
        low, high = (reduced(g, name, x, axes, keep=True) for name in ("Min", "Max"))
    elif axis is not None:
        shape = [x.shape[index] if index == axis % x.rank else 1 for index in range(x.rank)]
        low, high = reshape(g, low, shape), reshape(g, high, shape)
    step = g("Max", [g("Div", [high, number(g, x, most)]), number(g, x, float(np.finfo(np.float32).tiny))])
    if least:
        step = g("Max", [step, g("Div", [low, number(g, x, least)])])
    if has_limits and step.is_static and bits in (8, 16) and axis is None and not half_up and not narrow:
        kinds = {(8, True): np.int8, (8, False): np.uint8, (16, True): np.int16, (16, False): np.uint16}
        return rounded(g, x, step.numpy().reshape(()), np.zeros((), kinds[bits, is_signed]))
    if has_limits:
        ends = [g("Mul", [step, number(g, x, end)]) for end in (least, most)]
        x = g("Min", [g("Max", [x, ends[0]]), ends[1]])
    steps = g("Div", [x, step])
    whole = g("Floor", [g("Add", [steps, number(g, x, 0.5)])]) if half_up else g("Round", [steps])
    return g("Mul", [clipped(g, whole, least, most), step])


def dequantized(
    g: Operators, x: Value, low: Value, high: Value, *, mode: str, narrow: bool, axis: int | None
) -> Value:
    """Return the floats that integers of a range denote.

    Args:
        x: Integers of 8, 16 or 32 bits.
        low: Value of the least integer, or one for each element of ``axis``; constant.
        high: Value of the greatest integer.
        mode: ``MIN_COMBINED``, ``MIN_FIRST`` (0 is a quantized value) or ``SCALED`` (0 is 0).
        narrow: Whether the least integer is not used; of ``SCALED`` only.
        axis: Axis of ranges of its own, or None.

    Raises:
        UnsupportedOp: If the range is computed, or the mode is unknown.
    """
    first, last = (known(value, "the range of a quantization").astype(np.float64) for value in (low, high))
    step, least, shift = _steps(x.dtype, first, last, mode, narrow)
    if axis is not None and step.size > 1:
        shape = [x.shape[held] if held == axis % x.rank else 1 for held in range(x.rank)]
        step, least = step.reshape(shape), np.asarray(least).reshape(shape if np.size(least) > 1 else ())
    zero = shift - least / np.where(step == 0, 1, step)
    limits = x.dtype.limits
    is_whole = bool(np.all(zero == np.floor(zero)) and np.all((zero >= limits[0]) & (zero <= limits[1])))
    if is_whole and step.size == 1 and step.reshape(-1)[0] > 0 and x.dtype.bits <= 16:
        single = np.asarray(step, np.float32).reshape(())
        given = [g.builder.const(single), g.builder.const(zero.reshape(()).astype(x.dtype.numpy))]
        return g("DequantizeLinear", [x, *given])
    real = g("Sub", [cast(g, x, FLOAT32), g.builder.const(np.asarray(shift, np.float32))])
    scaled = g("Mul", [real, g.builder.const(np.asarray(step, np.float32))])
    return g("Add", [scaled, g.builder.const(np.asarray(least, np.float32))])


def _steps(dtype: DType, low: Array, high: Array, mode: str, narrow: bool) -> tuple[Array, Array, float]:
    """Return the step, the value of the least integer, and that integer."""
    least, most = (float(limit) for limit in dtype.limits)
    if mode == "SCALED":
        positive = high / most
        step = positive if not least else np.maximum(low / (least + narrow), positive)
        return step, np.zeros_like(step), 0.0
    step = (high - low) / (most - least)
    if mode == "MIN_FIRST":
        return step, np.round(low / np.where(step == 0, 1, step)) * step, least
    if mode != "MIN_COMBINED":
        raise UnsupportedOp(f"quantization mode {mode!r} is unknown", fix="correct the model")
    return step, low, least


def quantized(
    g: Operators,
    x: Value,
    low: Value,
    high: Value,
    dtype: DType,
    *,
    mode: str,
    narrow: bool,
    half_even: bool,
    least_range: float,
) -> list[Value]:
    """Return floats of a range as integers, and the range that these cover.

    Args:
        low: Least value; constant.
        high: Greatest value; constant.
        mode: As of ``dequantized``.
        narrow: As of ``dequantized``.
        half_even: Whether halves are rounded to even, instead of away from 0; of ``SCALED`` only.
        least_range: Least distance of ``low`` and ``high``, as a share of the greater of them and 1.

    Raises:
        UnsupportedOp: If the range is computed, or the mode is unknown.
    """
    first, last = (known(value, "the range of a quantization").astype(np.float64) for value in (low, high))
    first = np.minimum(first, 0)
    share = least_range * np.maximum(1, np.maximum(np.abs(first), np.abs(last)))
    last = np.maximum(np.maximum(last, first + share), 0)
    step, least, shift = _steps(dtype, first, last, mode, narrow)
    limits = dtype.limits
    if mode == "SCALED":
        first, last = step * (limits[0] + narrow if limits[0] else 0), step * limits[1]
    if mode == "MIN_FIRST" and dtype.bits == 8 and not dtype.is_signed:
        mode, least = "MIN_COMBINED", first  # TensorFlow's kernel for these rounds no end of the range
    moved = g("Sub", [x, number(g, x, least.item())]) if mode == "MIN_COMBINED" else x
    places = g("Div", [moved, number(g, x, step.item())])
    if mode == "SCALED" and half_even:
        places = g("Round", [places])
    else:  # halves away from 0
        sign = g("Sign", [places])
        places = g("Mul", [sign, g("Floor", [g("Add", [g("Abs", [places]), number(g, x, 0.5)])])])
    if mode == "MIN_FIRST":
        places = g("Sub", [places, number(g, x, np.round(least / step).item())])
    moved = clipped(g, g("Add", [places, number(g, x, shift)]), limits[0] + narrow, limits[1])
    integers = cast(g, moved, INT32) if dtype.bits < 32 else moved
    ends = [g.builder.const(np.asarray(end, np.float32).reshape(low.shape)) for end in (first, last)]
    return [cast(g, integers, dtype), *ends]
