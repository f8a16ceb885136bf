"""``resize_linear``: the weighted sum of four neighbours, placed between bounds.

Numbers are those of :mod:`xdlc.runtime.hta.single`: constant ``values`` for each stored integer of the
input, ``row_weights`` and ``column_weights`` for the two neighbours along an axis of each place of the
output, which are at ``rows`` and ``columns``.  The weight of a neighbour is the product of two, its part of
the sum the product of weight and value; of products and sums, 24 significant bits are kept.

With setting ``planes``, each row is an image of its own, of columns and channels.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.single import DROP, check_shifts, kept, numbers
from xdlc.runtime.hta.stored import bounds, check_steps, count_of, is_unsigned, place, places

Array = Any  # numpy.ndarray
_NEIGHBOURS = ((1, 1), (1, 0), (0, 1), (0, 0))
"""Which weights are multiplied, of a row and of a column: in the order in which the host adds."""


@kernel("resize_linear")
def resize_linear(step: Step) -> Run:
    """Interpolate between rows and columns."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if step.number("planes", 0, 1, default=0) and source.ndim == target.ndim == 4:
        source, target = (
            held.reshape(held.shape[0] * held.shape[1], *held.shape[2:], 1) for held in (source, target)
        )
    if source.ndim != 4 or not is_unsigned(source) or source.shape[::3] != target.shape[::3]:
        step.fail(f"cannot resize {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")
    rows = places(step, "rows", (2, target.shape[1]), source.shape[1])
    columns = places(step, "columns", (2, target.shape[2]), source.shape[2])
    values, value_shifts = numbers(step, "values", (count_of(source),))
    down, down_shifts = numbers(step, "row_weights", rows.shape)
    along, along_shifts = numbers(step, "column_weights", columns.shape)
    check_shifts(step, value_shifts, down_shifts, along_shifts)
    check_steps(step, target.shape[0] * target.shape[1])
    limits = bounds(step)

    def part(row: Array, index: int, first: int, second: int) -> Array:
        """Return the part of a neighbour, [columns, channels], given its row of the input."""
        weight = kept(along[second] * down[first, index]) >> DROP
        shift = along_shifts[second] + down_shifts[first, index]
        held = row[columns[1 - second]]
        product = kept(values[held] * weight[:, None]) >> DROP
        return product << (value_shifts[held] + shift[:, None])

    def run() -> None:
        for image, result in zip(source, target, strict=True):
            for index in range(result.shape[0]):
                total: Array = None
                for first, second in _NEIGHBOURS:
                    found = part(image[rows[1 - first, index]], index, first, second)
                    total = found if total is None else kept(total + found)
                place(total, limits, result[index])

    return run
