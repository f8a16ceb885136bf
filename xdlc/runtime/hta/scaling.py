"""From accumulators to stored integers, by fixed-point multipliers.

A kernel that sums products gives a whole number, the accumulator a, for each result.  For each channel the
instruction has a bias, a number of bits to drop, a rest, a factor, an addend and a shift; with

    t = floor((a + bias) / 2^drop) + rest

the result is, where setting ``bits`` is 0,

    floor((t * factor + addend) / 2^shift) + zero

and otherwise, where keep rounds a whole number to as many significant bits, halves to even, as a
multiplier of that width does,

    round(keep(keep(t) * factor) / 2^shift) + zero

both clipped to what is from setting ``low`` on and the type of the result holds.  Constants ``factor_below``
and ``shift_below`` take the places of factor and shift for negative t.  Setting ``curve``, three numbers
(places, factor, shift), puts the function x * clip(x + 3, 0, 6) between the rounding and the zero, with
x = round(...) / 2^places and 64-bit integers; see ``Curve``.

The kernels compute with floats of 24 or 53 bits that hold nothing but whole numbers and their quotients by
powers of two: all steps are exact, and ``keep`` is the one rounding of the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdlc.runtime.hta.registry import Step

Array = Any  # numpy.ndarray

NARROW, WIDE = 24, 53
"""Bits that the two float types hold exactly."""
_LONGEST = 100
"""Most bits of a shift; with it no float leaves its range."""
_LONGEST_WHOLE = 62
_TOPS = {"uint8": 255, "uint16": 65535}


@dataclass(frozen=True, slots=True)
class Curve:
    """The function x * clip(x + 3, 0, 6) on whole numbers that stand for multiples of 2^-places.

    Attributes:
        places: Bits behind the point, at most 28.
        factor: What the function's value, its lower bits dropped, is multiplied with; below 2^31.
        shift: By how many bits that is shifted back.
    """

    places: int
    factor: int
    shift: int

    def __call__(self, t: Array) -> Array:
        """Return the function's value in steps of the result, rounded to the nearest; int64."""
        import numpy as np

        three = 3 << self.places
        x = np.clip(t, -three, 1 << 31).astype(np.int64)
        x *= np.clip(x + three, 0, 2 * three)  # below 2^62, as what follows
        x >>= self.places + 3
        x *= self.factor
        x += 1 << (self.shift - 1)
        x >>= self.shift
        return x


@dataclass(frozen=True, slots=True)
class Scaling:
    """The constants of an instruction, checked.

    Attributes:
        kind: Numpy type in which accumulators are to come: they are exact in it, sums of fewer products too.
        bias: Added first, per channel.
        drop: Quotients by powers of two then rounded down, or None.
        rest: Added then, or None.
        factor: Multiplier.
        scale: Power of two that the product is multiplied with.
        below: The same two for negative numbers, or None.
        addend: Added to the product before it is scaled, or None.
        bits: 0, 24 or 53.
        curve: The function that follows, or None.
        zero: Added last.
        low: Least result.
        top: Largest result.
    """

    kind: Any
    bias: Array
    drop: Array | None
    rest: Array | None
    factor: Array
    scale: Array
    below: tuple[Array, Array] | None
    addend: Array | None
    bits: int
    curve: Curve | None
    zero: int
    low: int
    top: int

    def write(self, sums: Array, target: Array) -> None:
        """Write stored integers; the accumulators are overwritten.

        Args:
            sums: Accumulators in type ``kind``, channels last.
            target: Where the results go, of the same shape.
        """
        import numpy as np

        t = sums
        t += self.bias
        if self.drop is not None:
            t *= self.drop
            np.floor(t, out=t)
        if self.rest is not None:
            t += self.rest
        if self.bits == NARROW:
            t = t.astype(np.float32, copy=False)
        elif t.dtype != self.factor.dtype:
            t = t.astype(self.factor.dtype)
        t = self._scaled(t)
        (np.rint if self.bits else np.floor)(t, out=t)
        if self.curve is not None:
            t = self.curve(t)
        t += self.zero
        np.clip(t, self.low, self.top, out=t)
        target[...] = t

    def _scaled(self, t: Array) -> Array:
        import numpy as np

        if self.below is not None:
            factor, scale = self.below
            low = t < 0
            t *= np.where(low, factor, self.factor)
            t *= np.where(low, scale, self.scale)
            return t
        t *= self.factor
        if self.addend is not None:
            t += self.addend
        t *= self.scale
        return t


def load(step: Step, channels: int, largest: Array) -> Scaling:
    """Return the scaling of an instruction.

    Args:
        step: The instruction.
        channels: Number of channels.
        largest: Upper bound of the accumulators' magnitudes, and of the sums of fewer products, per channel.

    Raises:
        ContainerError: If a constant is missing or malformed, or numbers become too large to be exact.
    """
    import numpy as np

    shape = (channels,)
    bits = step.number("bits", 0, WIDE)
    if bits not in (0, NARROW, WIDE):
        step.fail(f"keeps {bits} bits of a product, known are {NARROW}, {WIDE} and, for all of them, 0")

    def optional(name: str, *dtypes: str) -> Array:
        if name not in step.constants:
            return np.zeros(shape)
        return step.constant(name, dtypes, shape).astype(np.float64)

    def needed(name: str, *dtypes: str) -> Array:
        return step.constant(name, dtypes, shape).astype(np.float64)

    bias, rest, addend = (optional(name, "int32", "int64") for name in ("bias", "rest", "addend"))
    drop, shift = optional("drop", "int8"), needed("shift", "int8")
    factor = needed("factor", "int32", "int64")
    below = None
    if "factor_below" in step.constants:
        below = needed("factor_below", "int32", "int64"), needed("shift_below", "int8")
    shifts = (drop, shift) if below is None else (drop, shift, below[1])
    _check(step, largest, bias, drop, rest, factor, addend, below, bits, *shifts)
    exact = bool(np.all(largest + np.abs(bias) < 2.0**NARROW) and not drop.any() and not rest.any())
    kind = np.float32 if exact and bits == NARROW else np.float64
    last = np.float32 if bits == NARROW else np.float64
    top = _TOPS.get(step.outputs[0].dtype.name, 0)
    return Scaling(
        kind,
        bias.astype(kind),
        np.exp2(-drop) if drop.any() else None,
        rest if rest.any() else None,
        factor.astype(last),
        np.exp2(-shift).astype(last),
        None if below is None else (below[0].astype(last), np.exp2(-below[1]).astype(last)),
        addend if addend.any() else None,
        bits,
        _curve(step),
        step.number("zero", 0, top),
        step.number("low", 0, top, default=0),
        top,
    )


def _curve(step: Step) -> Curve | None:
    if "curve" not in step.settings:
        return None
    places, factor, shift = step.numbers("curve", 3, 0, (1 << 31) - 1)
    if not (1 <= places <= 28 and 1 <= shift <= _LONGEST_WHOLE):
        step.fail(f"has a function of {places} places, shifted by {shift}")
    return Curve(places, factor, shift)


def _check(
    step: Step,
    largest: Array,
    bias: Array,
    drop: Array,
    rest: Array,
    factor: Array,
    addend: Array,
    below: tuple[Array, Array] | None,
    bits: int,
    *shifts: Array,
) -> None:
    """Refuse constants with which a whole number would not be exact."""
    import numpy as np

    most = 2.0**WIDE
    total = largest + np.abs(bias)
    whole = total * np.exp2(np.maximum(-drop, 0)) + np.abs(rest)
    product = whole * np.abs(factor) + np.abs(addend)
    if any(np.any(np.abs(held) > _LONGEST) for held in shifts):
        step.fail(f"shifts by more than {_LONGEST} bits")
    if np.any(total >= most) or np.any(whole >= most) or (not bits and np.any(product >= most)):
        step.fail(f"computes with numbers of more than {WIDE} bits")
    if bits and (np.any(np.abs(factor) >= 2.0**bits) or addend.any()):
        step.fail(f"has factors of more than {bits} bits, or an addend where products are rounded")
    if below is not None and (not bits or np.any(np.abs(below[0]) >= 2.0**bits)):
        step.fail("has factors for negative numbers that do not fit")
