"""``pool_average``: the sum of each window, placed between bounds.

Constant ``values`` has a whole number for each stored integer of the input, that of setting ``zero`` is 0
and stands for padding.  The sums are taken row by row, 24 significant bits kept after each addition.
Constant ``bounds`` has a list for each number of elements that windows hold, and ``choice`` says for each
row and column of the result which list is taken.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.pool_window import window_of
from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.single import kept
from xdlc.runtime.hta.stored import LARGEST, bounds, count_of, is_unsigned, place

Array = Any  # numpy.ndarray


@kernel("pool_average")
def pool_average(step: Step) -> Run:
    """Sum up each window."""
    import numpy as np

    window = window_of(step)
    (source,), (target,) = step.inputs, step.outputs
    if not is_unsigned(source):
        step.fail(f"cannot pool {source.dtype}")
    values = step.constant("values", "int64", (count_of(source),))
    zero = step.number("zero", 0, count_of(source) - 1)
    largest = max(int(values.max()), -int(values.min()))
    if values[zero] != 0 or largest * window.size[0] * window.size[1] >= LARGEST:
        step.fail("has values that do not fit: that of the padding is not 0, or sums become too large")
    lists, choice = _lists(step, window.reach)

    def sums() -> Array:
        held, inside = window.buffer(source, 0, np.int64)
        inside[...] = values[source]
        total = np.zeros(target.shape, np.int64)
        for part in window.parts(held):
            total = kept(total + part)
        return total

    def run() -> None:
        total = sums()
        if len(lists) == 1:
            place(total, lists[0], target)
            return
        for index, limits in enumerate(lists):
            rows, columns = np.nonzero(choice == index)
            target[:, rows, columns] = limits.searchsorted(total[:, rows, columns], side="right")

    return run


def _lists(step: Step, reach: tuple[int, int]) -> tuple[Array, Array]:
    choice = step.constant("choice", "int32", reach)
    lists = step.constant("bounds", "int64")
    if lists.ndim != 2 or not lists.shape[0] or choice.min() < 0 or choice.max() >= lists.shape[0]:
        step.fail(f"chooses lists {choice.min()} to {choice.max()} of {list(lists.shape)}")
    return bounds(step, lists.shape[0]), choice
