"""The constants by which a plan's accumulators become stored integers (``runtime.hta.scaling``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.runtime.hta.scaling import WIDE
from xdlc.runtime.narrow import dropped
from xdlc.runtime.products import Product, fifteen_bits
from xdlc.runtime.wide import half_down

Array = Any  # numpy.ndarray

_LEAST, _MOST = 2.0**-40, 2.0**20


@dataclass(frozen=True, slots=True)
class Constants:
    """What ``runtime.hta.scaling`` reads.

    Attributes:
        arrays: Constants by name, one number per output channel.
        bits: Bits that are kept of a product; 0: all.
        zero: Added to the results.
    """

    arrays: dict[str, Array]
    bits: int
    zero: int


def narrow(held: Product, zeros: Array, *, whole: bool) -> Constants:
    """Return the constants of an 8-bit product as HTP computes it; the formulas are in ``runtime.narrow``.

    Args:
        held: The product.
        zeros: The input's zero point times the sum of weights, per channel.
        whole: Whether the whole accumulator is kept.
    """
    import numpy as np

    multipliers = _checked(held.multipliers)
    if whole:
        return _whole(held, zeros, multipliers)
    unit, factor = dropped(multipliers)
    steps = np.rint(factor * 2.0**15)
    arrays = {
        "bias": held.added - zeros,
        "drop": np.log2(unit),
        "factor": 2 * steps,
        "addend": steps + 2**15,
        "shift": np.full(held.channels, 16),
    }
    return _constants(held, arrays, 0, -held.output_offset)


def wide(held: Product, zeros: Array, *, whole: bool) -> Constants:
    """Return the constants of a 16-bit product as HTP computes it; the formulas are in ``runtime.wide``.

    Args:
        held: The product.
        zeros: The input's zero point times the sum of weights, per channel.
        whole: Whether the whole accumulator is kept.
    """
    import numpy as np

    multipliers = _checked(held.multipliers)
    if whole:
        return _whole(held, zeros, multipliers)
    factor, shift = mantissas(256.0 * multipliers, WIDE)
    rest = half_down(held.offset * held.sums / 256) + np.trunc(held.added / 256)
    arrays = {"drop": np.full(held.channels, 8), "rest": rest, "factor": factor, "shift": shift}
    return _constants(held, arrays, WIDE, -held.output_offset)


def nearest(held: Product, bias: Array, multipliers: Array, bits: int, zero: int) -> Constants:
    """Return the constants of a product that is rounded once, to the nearest.

    Args:
        held: The product.
        bias: Added to the accumulators; what it has behind the point counts to 16 bits.
        multipliers: What a step of the accumulator is in steps of the result, per channel.
        bits: Bits that are kept of multipliers and products.
        zero: Zero point of the result.
    """
    import numpy as np

    whole = np.rint(bias)
    factor, shift = mantissas(_checked(multipliers), bits)
    arrays = {"bias": whole, "factor": factor, "shift": shift}
    if not np.array_equal(whole, bias):
        arrays["bias"] = whole * 0
        arrays["drop"] = np.full(held.channels, -_FRACTION)
        arrays["rest"] = np.rint(bias * 2.0**_FRACTION)
        arrays["shift"] = shift + _FRACTION
    return _constants(held, arrays, bits, zero)


_FRACTION = 16


def mantissas(multipliers: Array, bits: int) -> tuple[Array, Array]:
    """Return multipliers as whole numbers of some bits, and by how many bits these are to be shifted back.

    Example:
        >>> [int(part) for part in mantissas(0.375, 24)]
        [12582912, 25]
    """
    import numpy as np

    fraction, exponent = np.frexp(np.asarray(multipliers, np.float64))
    return np.rint(fraction * 2.0**bits), bits - exponent


def _whole(held: Product, zeros: Array, multipliers: Array) -> Constants:
    import numpy as np

    unit = np.exp2(np.floor(np.log2(multipliers)) - 14)
    shift = -np.log2(unit)
    if np.any(shift < 1):
        raise _too_large(multipliers)
    arrays = {
        "bias": held.added - np.rint(held.output_offset / multipliers) - zeros,
        "factor": fifteen_bits(multipliers) / unit,
        "addend": np.exp2(shift - 1),
        "shift": shift,
    }
    return _constants(held, arrays, 0, 0)


def _checked(multipliers: Array) -> Array:
    import numpy as np

    found = np.asarray(multipliers, np.float64)
    if not np.all((found >= _LEAST) & (found <= _MOST)):
        raise _too_large(found)
    return found


def _too_large(multipliers: Array) -> ConstraintError:
    import numpy as np

    return ConstraintError(
        f"input scale times weight scale is {np.min(multipliers):.3g} to {np.max(multipliers):.3g} times the "
        f"output scale, fixed-point multipliers reach from {_LEAST:.3g} to {_MOST:.3g}",
        fix="quantize the model again",
    )


def _constants(held: Product, arrays: dict[str, Array], bits: int, zero: int) -> Constants:
    """Return constants in their types, each for all channels; those that are 0 everywhere are left out."""
    import numpy as np

    made = {}
    for name, array in arrays.items():
        whole = np.broadcast_to(np.asarray(array, np.float64), (held.channels,)).astype(np.int64)
        small = name in ("shift", "drop", "shift_below")
        fits = np.all(np.abs(whole) < 1 << 31)
        if whole.any() or name in ("factor", "shift"):
            made[name] = whole.astype(np.int8 if small else np.int32 if fits else np.int64)
    return Constants(made, bits, zero)
