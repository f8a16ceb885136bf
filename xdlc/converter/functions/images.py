"""Patches, dilation and regions of images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xdlc.converter.functions.blocks import space_to_depth
from xdlc.converter.functions.gathering import unstack
from xdlc.converter.functions.shapes import (
    cast,
    dims,
    number,
    positions,
    reshape,
    vector,
)
from xdlc.converter.functions.terms import Term
from xdlc.converter.functions.windows import Padding, amounts
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import FLOAT32, INT32, INT64


def patches(
    g: Operators,
    x: Value,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: Padding,
) -> Value:
    """Return windows as channels, (y * width + x) * C + c; outside the image is 0.

    Raises:
        UnsupportedOp: If a dimension is open, or the window is too large.
    """
    shape = dims(x)
    height, width = kernel
    plain = list(strides) == list(kernel) and set(rates) == {1}
    if plain and height == width and not shape[1] % height and not shape[2] % width:
        return space_to_depth(g, x, height) if height > 1 else x
    parts = [part for _, part in _taps(g, x, kernel, strides, rates, padding, 0.0)]
    return g("Concat", parts, axis=3) if len(parts) > 1 else parts[0]


def dilation(
    g: Operators, x: Value, weight: Value, *, strides: Sequence[int], rates: Sequence[int], padding: Padding
) -> Value:
    """Return maxima of window elements plus ``weight`` [height, width, C].

    Raises:
        UnsupportedOp: If a dimension is open, or the window is too large.
    """
    kernel = dims(weight)[:2]
    lowest = float(np.finfo(np.float32).min) if x.dtype.is_float else float(x.dtype.limits[0])
    found = []
    for (row, column), part in _taps(g, x, kernel, strides, rates, padding, lowest):
        place = g.builder.const(np.asarray([row, column], np.int64))
        found.append(g("Add", [part, g("GatherND", [weight, reshape(g, place, (1, 2))])]))
    return found[0] if len(found) == 1 else g("Max", found)


def _taps(
    g: Operators,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: Padding,
    fill: float,
) -> Iterator[tuple[tuple[int, int], Value]]:
    """Iterate over positions in a window, with the elements of all windows at each."""
    sizes = dims(x, (1, 2))
    pads = amounts(padding, sizes, kernel, strides, rates)
    if any(map(any, pads)):
        (top, bottom), (left, right) = pads
        x = g("Pad", [x, [0, top, left, 0, 0, bottom, right, 0], number(g, x, fill)])
    reach = [(width - 1) * rate + 1 for width, rate in zip(kernel, rates, strict=True)]
    counts = [
        (size + sum(pad) - span) // step + 1
        for size, pad, span, step in zip(sizes, pads, reach, strides, strict=True)
    ]
    if min(counts) < 1:
        raise ModelError(
            f"a window {list(kernel)} does not fit an image {list(sizes)}", fix="correct the model"
        )
    if not g.context.budget.unrolled_nodes.take(kernel[0] * kernel[1]):
        raise UnsupportedOp(f"a window of {kernel[0] * kernel[1]} elements needs too many nodes")
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            first = [row * rates[0], column * rates[1]]
            last = [
                start + (count - 1) * step + 1
                for start, count, step in zip(first, counts, strides, strict=True)
            ]
            operands = [x, *(vector(g, values) for values in (first, last, [1, 2], strides))]
            yield (row, column), g("Slice", operands)


def crop_and_resize(
    g: Operators, x: Value, boxes: Value, images: Value, size: Sequence[int], *, mode: str, fill: float
) -> Value:
    """Return regions of images, all resized to one size.

    Args:
        x: [N, H, W, C].
        boxes: [count, 4]: y1, x1, y2, x2, as shares of height - 1 and width - 1.
        images: [count] index of the image of each box.
        size: Height and width of a region.
        mode: ``bilinear`` or ``nearest``.
        fill: Value of elements outside of the image.

    Returns:
        [count, height, width, C], float32.
    """
    if mode not in ("bilinear", "nearest") or len(size) != 2 or min(size) < 1:
        raise ModelError(
            f"regions of size {list(size)} or method {mode!r} are not valid", fix="correct the model"
        )
    batch, height, width, channels = dims(x)
    (count, _) = dims(boxes)
    x = x if x.dtype is FLOAT32 else cast(g, x, FLOAT32)
    top, left, bottom, right = (Term(g, edge) for edge in unstack(g, boxes, 4, 1))
    rows = _shaped(_places(top, bottom, height, size[0]), (count, size[0], 1))
    columns = _shaped(_places(left, right, width, size[1]), (count, 1, size[1]))
    inside = _within(rows, height) & _within(columns, width)
    base = _shaped(Term(g, positions(g, images)) * [height * width], (count, 1, 1))
    flat = Term(g, reshape(g, x, (batch * height * width, channels)))

    def at(row: Term, column: Term) -> Term:
        place = base + row.to(INT64) * [width] + column.to(INT64)
        return flat("Gather", place, axis=0)

    if mode == "nearest":  # halves away from 0
        sampled = at(_clamped((rows + 0.5)("Floor"), height), _clamped((columns + 0.5)("Floor"), width))
    else:
        (upper, lower, down), (before, after, across) = _neighbours(rows, height), _neighbours(columns, width)
        first, second = (_between(at(line, before), at(line, after), across) for line in (upper, lower))
        sampled = _between(first, second, down)
    return inside.raised(3).where(sampled, np.asarray(fill, np.float32)).value


def _shaped(x: Term, shape: Sequence[int]) -> Term:
    return Term(x.g, reshape(x.g, x.value, shape))


def _places(first: Term, last: Term, size: int, count: int) -> Term:
    """Return the positions [boxes, count] of the elements of regions along an axis."""
    check_table(count)
    if count == 1:
        return (first + last) * 0.5 * (size - 1)
    step = (last - first) * ((size - 1) / (count - 1))
    return (first * (size - 1)).raised(1) + step.raised(1) * np.arange(count, dtype=np.float32)


def _within(places: Term, size: int) -> Term:
    return (places >= 0) & (places <= size - 1)


def _clamped(places: Term, size: int) -> Term:
    return places("Clip", 0, size - 1).to(INT32)


def _neighbours(places: Term, size: int) -> tuple[Term, Term, Term]:
    """Return the elements before and after positions, and the share of the latter."""
    low = places("Floor")
    return _clamped(low, size), _clamped(places("Ceil"), size), (places - low).raised(3)


def _between(x: Term, y: Term, share: Term) -> Term:
    return x + (y - x) * share
