"""``resize_linear``: the weighted sum of four neighbours, placed between bounds.

Numbers are pairs of a whole number of at most 24 bits and a power of two that it is multiplied with:
``values`` and ``value_shifts`` for each stored integer of the input, ``row_weights`` and ``row_shifts``,
``column_weights`` and ``column_shifts`` for the two neighbours along an axis of each place of the output,
which are at ``rows`` and ``columns``.  The weight of a neighbour is the product of two, its part of the sum
the product of weight and value; of products and sums, 24 significant bits are kept.

With setting ``planes``, each row is an image of its own, of columns and channels.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import bounds, count_of, is_unsigned, kept, place, places

Array = Any  # numpy.ndarray
_BITS = 24
_NEIGHBOURS = ((1, 1), (1, 0), (0, 1), (0, 0))
"""Which weights are multiplied, of a row and of a column: in the order in which the host adds."""
WEIGHT_DROP, PART_DROP = 23, 22
"""Low bits of a product of full numbers that are 0 once 24 are kept."""
LARGEST_SHIFT = 34


@kernel("resize_linear")
def resize_linear(step: Step) -> Run:
    """Interpolate between rows and columns."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if step.number("planes", 0, 1, default=0) and source.ndim == target.ndim == 4:
        source, target = (held.reshape(-1, *held.shape[2:], 1) for held in (source, target))
    if source.ndim != 4 or not is_unsigned(source) or source.shape[::3] != target.shape[::3]:
        step.fail(f"cannot resize {source.dtype}{list(source.shape)} to {target.dtype}{list(target.shape)}")
    rows = places(step, "rows", (2, target.shape[1]), source.shape[1])
    columns = places(step, "columns", (2, target.shape[2]), source.shape[2])
    values, value_shifts = _numbers(step, "values", "value_shifts", (count_of(source),))
    down, down_shifts = _numbers(step, "row_weights", "row_shifts", rows.shape)
    along, along_shifts = _numbers(step, "column_weights", "column_shifts", columns.shape)
    if sum(int(held.max(initial=0)) for held in (value_shifts, down_shifts, along_shifts)) > LARGEST_SHIFT:
        step.fail(f"shifts by more than {LARGEST_SHIFT} bits")
    limits = bounds(step)

    def part(row: Array, index: int, first: int, second: int) -> Array:
        """Return the part of a neighbour, [columns, channels], given its row of the input."""
        weight = kept(along[second] * down[first, index]) >> WEIGHT_DROP
        shift = along_shifts[second] + down_shifts[first, index]
        held = row[columns[1 - second]]
        product = kept(values[held] * weight[:, None]) >> PART_DROP
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


def _numbers(step: Step, name: str, shifts: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    import numpy as np

    held = step.constant(name, "int32", shape).astype(np.int64)
    exponents = step.constant(shifts, "int8", shape).astype(np.int64)
    if held.size and (np.abs(held).max() > 1 << _BITS or exponents.min() < 0):
        step.fail(f"has constants {name!r} of more than {_BITS} bits, or negative {shifts!r}")
    return held, exponents
