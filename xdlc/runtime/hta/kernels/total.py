"""``total``: the sum along setting ``axes``, placed between constant ``bounds``.

With constant ``values``, a whole number for each stored integer, those are added one after the other, 24
significant bits kept after each addition; without it the stored integers are.  With setting ``lanes``, 4,
they are added in turns to four sums, and these as (0 + 2) + (1 + 3), before those that are left over.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.single import kept
from xdlc.runtime.hta.stored import LARGEST, bounds, check_steps, count_of, is_unsigned, place

Array = Any  # numpy.ndarray


@kernel("total")
def total(step: Step) -> Run:
    """Sum up one buffer along axes; the output may keep them with one element each, or not."""
    import numpy as np

    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    axes = step.numbers("axes", None, 0, max(source.ndim - 1, 0))
    rest = tuple(extent for axis, extent in enumerate(source.shape) if axis not in axes)
    if not is_unsigned(source) or len(set(axes)) != len(axes) or target.size != np.prod(rest, dtype=np.int64):
        step.fail(f"sums {source.dtype}{list(source.shape)} along {list(axes)} to {list(target.shape)}")
    limits = bounds(step)
    if "values" in step.constants:
        return _in_rows(step, axes, limits)

    def run() -> None:
        place(source.sum(axis=axes, dtype=np.int64).reshape(target.shape), limits, target)

    return run


def _in_rows(step: Step, axes: tuple[int, ...], limits: Array) -> Run:
    import numpy as np

    (source,), (target,) = step.inputs, step.outputs
    values = step.constant("values", "int64", (count_of(source),))
    front = np.moveaxis(source, axes, range(len(axes)))
    count = source.size // max(target.size, 1)
    if max(int(values.max()), -int(values.min())) * count >= LARGEST:
        step.fail("has values whose sums become too large")
    check_steps(step, count)
    lanes = step.number("lanes", 1, 4, default=1)
    if lanes not in (1, 4):
        step.fail(f"adds in {lanes} lanes, known are 1 and 4")
    whole = count - count % lanes

    def run() -> None:
        rows = front.reshape(count, target.size)
        sums = np.zeros((lanes, target.size), np.int64)
        for start in range(0, whole, lanes):
            sums = kept(sums + values[rows[start : start + lanes]])
        total = sums[0]
        if lanes > 1:
            first, second = kept(sums[:2] + sums[2:])
            total = kept(first + second)
        for row in rows[whole:]:
            total = kept(total + values[row])
        place(total.reshape(target.shape), limits, target)

    return run
