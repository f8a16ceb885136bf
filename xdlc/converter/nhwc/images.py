"""Patches, dilation and regions of images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xdlc.converter.nhwc.blocks import space_to_depth
from xdlc.converter.nhwc.gathering import unstack
from xdlc.converter.nhwc.shapes import (
    cast,
    dims,
    number,
    positions,
    reshape,
    vector,
)
from xdlc.converter.nhwc.windows import Padding, amounts
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import FLOAT32, INT32


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
        ModelError: If the window does not fit.
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
        ModelError: If the window does not fit.
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
        x = g("Pad", [x, vector(g, [0, top, left, 0, 0, bottom, right, 0]), number(g, x, fill)])
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

    Raises:
        ModelError: If the shapes do not fit.
        UnsupportedOp: If a dimension is open.
    """
    if mode not in ("bilinear", "nearest") or len(size) != 2 or min(size) < 1:
        raise ModelError(
            f"regions of size {list(size)} or method {mode!r} are not valid", fix="correct the model"
        )
    batch, height, width, channels = dims(x)
    (count, _) = dims(boxes)
    x = x if x.dtype is FLOAT32 else cast(g, x, FLOAT32)
    edges = unstack(g, boxes, 4, 1)
    rows = reshape(g, _places(g, edges[0], edges[2], height, size[0]), (count, size[0], 1))
    columns = reshape(g, _places(g, edges[1], edges[3], width, size[1]), (count, 1, size[1]))
    inside = g("And", [_within(g, rows, height), _within(g, columns, width)])
    base = reshape(g, g("Mul", [positions(g, images), vector(g, [height * width])]), (count, 1, 1))
    flat = reshape(g, x, (batch * height * width, channels))

    def at(row: Value, column: Value) -> Value:
        line = g("Mul", [positions(g, row), vector(g, [width])])
        place = g("Add", [g("Add", [base, line]), positions(g, column)])
        return g("Gather", [flat, place], axis=0)

    if mode == "nearest":  # halves away from 0
        sampled = at(*(_clamped(g, _rounded(g, lines), n) for lines, n in ((rows, height), (columns, width))))
    else:
        (top, bottom, down), (left, right, across) = (
            _neighbours(g, lines, n) for lines, n in ((rows, height), (columns, width))
        )
        upper = _between(g, at(top, left), at(top, right), across)
        lower = _between(g, at(bottom, left), at(bottom, right), across)
        sampled = _between(g, upper, lower, down)
    outside = g.builder.const(np.asarray(fill, np.float32))
    return g("Where", [g("Unsqueeze", [inside, vector(g, [3])]), sampled, outside])


def _places(g: Operators, first: Value, last: Value, size: int, count: int) -> Value:
    """Return the positions [boxes, count] of the elements of regions along an axis."""
    check_table(count)
    whole = number(g, first, size - 1)
    if count == 1:
        return g("Mul", [g("Mul", [g("Add", [first, last]), number(g, first, 0.5)]), whole])
    start = g("Unsqueeze", [g("Mul", [first, whole]), vector(g, [1])])
    step = g("Mul", [g("Sub", [last, first]), number(g, first, (size - 1) / (count - 1))])
    steps = g.builder.const(np.arange(count, dtype=np.float32))
    return g("Add", [start, g("Mul", [g("Unsqueeze", [step, vector(g, [1])]), steps])])


def _within(g: Operators, places: Value, size: int) -> Value:
    low = g("GreaterOrEqual", [places, number(g, places, 0)])
    return g("And", [low, g("LessOrEqual", [places, number(g, places, size - 1)])])


def _rounded(g: Operators, places: Value) -> Value:
    return g("Floor", [g("Add", [places, number(g, places, 0.5)])])


def _clamped(g: Operators, places: Value, size: int) -> Value:
    return cast(g, g("Clip", [places, number(g, places, 0), number(g, places, size - 1)]), INT32)


def _neighbours(g: Operators, places: Value, size: int) -> tuple[Value, Value, Value]:
    low = g("Floor", [places])
    share = g("Unsqueeze", [g("Sub", [places, low]), vector(g, [3])])
    return _clamped(g, low, size), _clamped(g, g("Ceil", [places]), size), share


def _between(g: Operators, x: Value, y: Value, share: Value) -> Value:
    return g("Add", [x, g("Mul", [g("Sub", [y, x]), share])])
