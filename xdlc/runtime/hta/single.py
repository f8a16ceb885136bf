"""Numbers of single precision as pairs of a whole number and a shift, for kernels that multiply them.

The number is the whole one, of at most 24 bits, times a power of two; shifts are powers above the least.
Numbers but the smallest use all 24 bits, so that a product of two has 47 or 48, and zeros at the end once 24
are kept.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Step

Array = Any  # numpy.ndarray
BITS = 24
DROP = BITS - 2
"""Last bits of a product that are 0 once 24 are kept."""
LARGEST_SHIFT = 32
"""Most that all shifts of an instruction may come to."""


def kept(values: Array) -> Array:
    """Return int64 numbers rounded to 24 significant bits, ties to even.

    Example:
        >>> import numpy
        >>> (kept(numpy.array([1 << 25, (1 << 25) + 2, (1 << 25) + 3])) - (1 << 25)).tolist()
        [0, 0, 4]
    """
    import numpy as np

    return values.astype(np.float32).astype(np.int64)  # the conversion rounds so


def numbers(step: Step, name: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return constants ``<name>`` and ``<name>_shifts`` as int64.

    Raises:
        ContainerError: If one is missing, of another shape or type, or out of range.
    """
    import numpy as np

    held = step.constant(name, "int32", shape).astype(np.int64)
    shifts = step.constant(f"{name}_shifts", "int8", shape).astype(np.int64)
    if held.size and (np.abs(held).max() > 1 << BITS or shifts.min() < 0):
        step.fail(f"has constants {name!r} of more than {BITS} bits, or shifts below 0")
    return held, shifts


def check_shifts(step: Step, *shifts: Array) -> None:
    """Check how far numbers are shifted in all.

    Raises:
        ContainerError: If further than 64 bits allow.
    """
    if sum(int(held.max(initial=0)) for held in shifts) > LARGEST_SHIFT:
        step.fail(f"shifts by more than {LARGEST_SHIFT} bits")
