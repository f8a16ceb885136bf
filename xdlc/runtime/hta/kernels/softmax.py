"""``softmax``: exponentials divided by their sum along setting ``axis``.

Constant ``exponentials`` has a whole number for each distance from the largest stored integer along the
axis.  With E the exponential of an element and S the sum, the result is

    round(E * factor / (S * 2^shift)) + zero

clipped to the type; ties go to the even neighbour.  Where setting ``single`` is 1, 24 significant bits of
each partial sum, of the product and of the quotient are kept before rounding, as in single precision.  An
output of float32 gets E / S.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.single import kept
from xdlc.runtime.hta.stored import LARGEST, check_steps, count_of, is_unsigned

Array = Any  # numpy.ndarray
_FACTOR = 1 << 32


@kernel("softmax")
def softmax(step: Step) -> Run:
    """Normalize along an axis."""
    import numpy as np

    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if not is_unsigned(source) or source.shape != target.shape or not source.size:
        step.fail(f"cannot normalize {source.dtype}{list(source.shape)} to {list(target.shape)}")
    axis = step.number("axis", 0, source.ndim - 1)
    table = step.constant("exponentials", "int64", (count_of(source),))
    if table[0] < 1 or table.min() < 0 or table.max() > table[0]:
        step.fail(
            "has exponentials that are negative, or larger than the first, or a first that is not positive"
        )
    single = bool(step.number("single", 0, 1))
    count = source.shape[axis]
    check_steps(step, count)
    if int(table[0]) * count >= LARGEST:
        step.fail("has exponentials whose sums become too large")
    finish = _finish(step, int(table[0]), count)

    def run() -> None:
        rows = np.moveaxis(source, axis, 0)
        parts = table[rows.max(axis=0).astype(np.int64) - rows]
        if single:
            sums = np.zeros(parts.shape[1:], np.int64)
            for part in parts:
                sums = kept(sums + part)
        else:
            sums = parts.sum(axis=0)
        finish(parts, sums, single, np.moveaxis(target, axis, 0))

    return run


def _finish(step: Step, most: int, count: int) -> Any:
    import numpy as np

    (target,) = step.outputs
    if target.dtype == np.float32:
        return _divide
    if not is_unsigned(target):
        step.fail(f"stores {target.dtype}, should be uint8, uint16 or float32")
    top = count_of(target) - 1
    factor, shift = step.number("factor", 1, _FACTOR), step.number("shift", 0, 32)
    zero = step.number("zero", 0, top)
    if most * factor >= LARGEST or (most * count) << shift >= LARGEST:
        step.fail("multiplies to numbers that are too large")

    def finish(parts: Array, sums: Array, single: bool, place: Array) -> None:
        products = parts * factor
        found = _quotient(kept(products) if single else products, sums << shift, single)
        place[...] = np.clip(found + zero, 0, top)

    return finish


def _divide(parts: Array, sums: Array, single: bool, place: Array) -> None:
    place[...] = parts / sums


def _quotient(products: Array, sums: Array, single: bool) -> Array:
    """Return quotients rounded to whole numbers, ties to even."""
    import numpy as np

    whole = products // sums
    beyond = 2 * (products - whole * sums) - sums  # twice the rest, less what a half is
    up = beyond > 0
    tie = beyond == 0
    if single:  # what 24 bits do not tell from a half is one
        length = np.frexp(whole.astype(np.float64) + 0.5)[1]
        tie = np.abs(beyond) <= sums >> np.maximum(24 - length, 0)
    return np.where(tie, whole + (whole & 1), whole + up)
