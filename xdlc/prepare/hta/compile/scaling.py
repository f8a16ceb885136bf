"""The constants by which a plan's accumulators become stored integers (``runtime.hta.scaling``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.runtime.hta.scaling import WIDE
from xdlc.runtime.htp_arithmetic.products import Product, fifteen_bits
from xdlc.runtime.htp_arithmetic.u8 import dropped
from xdlc.runtime.htp_arithmetic.u16 import half_down

Array = Any  # numpy.ndarray

_LEAST, _MOST = 2.0**-40, 2.0**20


@dataclass(frozen=True, slots=True)
class Constants:
    """What ``runtime.hta.scaling`` reads.

    Attributes:
        arrays: Constants by name, one number per output channel.
        settings: Settings by name.
    """

    arrays: dict[str, Array]
    settings: dict[str, Any]


def narrow(held: Product, zeros: Array, *, whole: bool) -> Constants:
    """Return the constants of an 8-bit product as HTP computes it; see ``runtime.htp_arithmetic.u8``.

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
        "shift": steps * 0 + 16,
    }
    return _constants(arrays, 0, -held.output_offset)


def wide(held: Product, zeros: Array, *, whole: bool) -> Constants:
    """Return the constants of a 16-bit product as HTP computes it; see ``runtime.htp_arithmetic.u16``.

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
    arrays = {"drop": factor * 0 + 8, "rest": rest, "factor": factor, "shift": shift}
    return _constants(arrays, WIDE, -held.output_offset)


def nearest(bias: Array, multipliers: Array, bits: int, zero: int) -> Constants:
    """Return the constants of a product that is rounded once, to the nearest.

    Args:
        bias: Added to the accumulators, per channel; what it has behind the point counts to 16 bits.
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
        arrays["drop"] = whole * 0 - _FRACTION
        arrays["rest"] = np.rint(bias * 2.0**_FRACTION)
        arrays["shift"] = shift + _FRACTION
    return _constants(arrays, bits, zero)


def bent(made: Constants, multipliers: Array) -> Constants:
    """Return the constants of ``nearest`` with multipliers of any sign for negative numbers."""
    import numpy as np

    small = np.abs(multipliers) < _LEAST
    factor, shift = mantissas(np.where(small, 0.0, multipliers), made.settings["bits"])
    below = {"factor_below": factor, "shift_below": shift + _fraction(made)}
    return Constants({**made.arrays, **_typed(below)}, made.settings)


def curved(made: Constants, steps: Array, largest: float, scale: float) -> Constants:
    """Return the constants of ``nearest`` with x * clip(x / 6 + 1/2, 0, 1) behind it.

    Args:
        made: The constants; of these, what comes before the multiplication.
        steps: What a step of the accumulator stands for, per channel.
        largest: Largest magnitude of a result.
        scale: Scale of the result.
    """
    import numpy as np

    places = 30 - math.ceil(math.log2(max(largest, 4.0)))
    factor, shift = mantissas(_checked(steps * 2.0**places), WIDE)
    last, back = mantissas(8 / (6 * 2.0**places * scale), 31)
    if not (places > 0 and 0 < back <= 62):
        raise ConstraintError(f"has a result up to {largest:.3g} in steps of {scale:.3g}, beyond 30 bits")
    arrays = {**made.arrays, **_typed({"factor": factor, "shift": shift + _fraction(made)})}
    curve = places, int(np.asarray(last)), int(np.asarray(back))
    return Constants(arrays, {**made.settings, "bits": WIDE, "curve": curve})


_FRACTION = 16


def _fraction(made: Constants) -> int:
    return _FRACTION if "drop" in made.arrays else 0


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
    return _constants(arrays, 0, 0)


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


def _constants(arrays: dict[str, Array], bits: int, zero: int) -> Constants:
    """Return constants for all channels; those that are 0 everywhere are left out."""
    import numpy as np

    shape = np.broadcast_shapes(*(np.shape(array) for array in arrays.values()))
    whole = {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    kept = {name: array for name, array in whole.items() if array.any() or name in ("factor", "shift")}
    return Constants(_typed(kept), {"bits": bits, "zero": zero})


def _typed(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return whole numbers in the smallest type that the kernels take."""
    import numpy as np

    def kind(name: str, array: Array) -> Any:
        if name in ("drop", "shift", "shift_below"):
            return np.int8
        return np.int32 if np.all(np.abs(array) < 1 << 31) else np.int64

    return {name: np.asarray(array).astype(kind(name, array)) for name, array in arrays.items()}
