"""``product``: products or quotients of two values, placed between bounds.

Constants ``first`` and ``second`` have a number (:mod:`xdlc.runtime.hta.single`) for each stored integer of
the two operands (``xdlc.runtime.hta.stored.operands``).  24 significant bits of the result are kept.
Setting ``divides`` is 1 for quotients; of a division by zero the result is as large as can be, and of 0 by 0
as small.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.single import BITS, DROP, check_shifts, kept, numbers
from xdlc.runtime.hta.stored import bounds, broadcast, check_steps, count_of, operands, place

Array = Any  # numpy.ndarray
MORE = BITS + 2
"""Bits that a dividend gets for a quotient of more than 24."""
_FAR = 1 << 62


@kernel("product")
def product(step: Step) -> Run:
    """Multiply or divide."""
    sources = operands(step)
    (target,) = step.outputs
    first, second = broadcast(step, sources)
    tables = [
        numbers(step, name, (count_of(held),))
        for name, held in zip(("first", "second"), sources, strict=True)
    ]
    (left, left_shifts), (right, right_shifts) = tables
    check_shifts(step, left_shifts, right_shifts)
    limits = bounds(step)
    if step.number("divides", 0, 1):
        compute, right_shifts = _quotients, right_shifts.max() - right_shifts
    else:
        compute = _products

    check_steps(step, target.shape[1] if target.ndim > 2 else 1)
    # Row by row, so that little is held in 64 bits.
    parts = [(slice(None), row) for row in range(target.shape[1])] if target.ndim > 2 else [(...,)]

    def run() -> None:
        for part in parts:
            one, two = first[part], second[part]
            shifts = left_shifts[one] + right_shifts[two]
            place(compute(left[one], right[two], shifts), limits, target[part])

    return run


def _products(left: Array, right: Array, shifts: Array) -> Array:
    return kept(left * right) >> DROP << shifts


def _quotients(left: Array, right: Array, shifts: Array) -> Array:
    import numpy as np

    divisor = np.maximum(np.abs(right), 1)
    whole, rest = np.divmod(np.abs(left) << MORE, divisor)
    found = kept(whole << 1 | (rest > 0)) << shifts
    found = np.where((left < 0) != (right < 0), -found, found)
    return np.where(right == 0, np.where(left > 0, _FAR, -_FAR), found)
