"""Layers and operations that rearrange, join, choose, crop and pad."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from xdlc.converter.functions.gathering import gather, split, stack, unstack
from xdlc.converter.functions.shapes import axis_of, channel_last, dims, permuted, vector
from xdlc.converter.functions.slicing import Masks, padded, reversed_axes, rolled, strided_slice
from xdlc.converter.keras.ops._operations import Arguments, operations
from xdlc.converter.keras.registry import (
    batched,
    handler,
    is_channel_first,
    number_of,
    only_input,
    sizes,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT32, INT64


def _part(a: Arguments) -> Value:
    """Slice by slices, indices, ellipsis and new axes."""
    key = a.option("key")
    masks = {"begin": 0, "end": 0, "ellipsis": 0, "new_axis": 0, "shrink": 0}
    spec: list[tuple[int, int, int]] = []
    for bit, entry in enumerate(key if type(key) is list else [key]):
        first, last, by = 0, 0, 1
        if entry is None:
            masks["new_axis"] |= 1 << bit
        elif entry is ...:
            masks["ellipsis"] |= 1 << bit
        elif isinstance(entry, slice):
            masks["begin"] |= (entry.start is None) << bit
            masks["end"] |= (entry.stop is None) << bit
            first, last, by = entry.start or 0, entry.stop or 0, 1 if entry.step is None else entry.step
        elif type(entry) is int:
            masks["shrink"] |= 1 << bit
            first, last = entry, entry + 1
        else:
            raise a.node.problem(
                f"xdlc does not support the index {entry!r:.40}", "use slices, integers or keras.ops.take"
            )
        spec.append((first, last, by))
    begin, end, step = (vector(a.g, column) for column in np.asarray(spec, np.int64).reshape(-1, 3).T)
    return strided_slice(a.g, a.value(), begin, end, step, Masks(**masks))


def _reshaped(a: Arguments) -> Value:
    wanted = a.option("newshape")
    listed = [-1 if size is None else size for size in wanted] if isinstance(wanted, list) else [wanted]
    if not all(type(size) is int for size in listed):
        raise a.node.invalid(f"argument newshape is not valid: {wanted!r:.40}")
    return a.g("Reshape", [a.value(), vector(a.g, listed)])


def _transposed(a: Arguments) -> Value:
    x = a.value()
    order = list(range(x.rank))[::-1] if a.option("axes") is None else a.integers("axes")
    return permuted(a.g, x, [axis_of(axis, x.rank) for axis in order])


def _swapped(a: Arguments) -> Value:
    x = a.value()
    order = list(range(x.rank))
    first, second = (axis_of(a.integer(name), x.rank) for name in ("axis1", "axis2"))
    order[first], order[second] = second, first
    return permuted(a.g, x, order)


def _moved(a: Arguments) -> Value:
    x = a.value()
    sources, places = (
        [axis_of(axis, x.rank) for axis in a.integers(name)] for name in ("source", "destination")
    )
    order = [axis for axis in range(x.rank) if axis not in sources]
    for target, source in sorted(zip(places, sources, strict=False)):
        order.insert(target, source)
    return permuted(a.g, x, order)


def _axes_of_one(a: Arguments) -> Value:
    """Insert or drop axes of size 1."""
    if a.option("axis") is None:
        return a.g("Squeeze", [a.value()])
    type = "Unsqueeze" if a.node.type == "ExpandDims" else "Squeeze"
    return a.g(type, [a.value(), vector(a.g, a.integers("axis"))])


def _joined(a: Arguments) -> Value:
    values = a.values("xs")
    axis = axis_of(a.integer("axis", 0), values[0].rank)
    return a.g("Concat", values, axis=axis) if len(values) > 1 else values[0]


def _split(a: Arguments) -> list[Value]:
    """Split into a number of equal parts, or at positions."""
    x, axis, where = a.value(), a.integer("axis", 0), a.option("indices_or_sections")
    (size,) = dims(x, [axis])
    if type(where) is int and where > 0 and size % where == 0:
        return split(a.g, x, [size // where] * where, axis)
    ends = [0, *a.integers("indices_or_sections"), size]
    return split(a.g, x, [last - first for first, last in pairwise(ends)], axis)


def _unstacked(a: Arguments) -> list[Value]:
    x, axis = a.value(), a.integer("axis", 0)
    return unstack(a.g, x, dims(x, [axis])[0], axis)


def _tiled(a: Arguments) -> Value:
    x, counts = a.value(), a.integers("repeats")
    counts = [1] * (x.rank - len(counts)) + counts
    if len(counts) > x.rank:
        x = a.g("Unsqueeze", [x, range(len(counts) - x.rank)])
    return a.g("Tile", [x, vector(a.g, counts)])


def _repeated(a: Arguments) -> Value:
    x, axis = a.along_one()
    (size,), count = dims(x, [axis]), a.integer("repeats")
    check_table(size, count)
    places = np.repeat(np.arange(size), count)
    return a.g("Gather", [x, vector(a.g, places)], axis=axis)


def _padded(a: Arguments) -> Value:
    x, pad_width = a.value(), a.option("pad_width")
    amounts = [
        [size, size] if type(size) is int else size
        for size in (pad_width if isinstance(pad_width, list) else [pad_width])
    ]
    amounts = amounts * x.rank if len(amounts) == 1 else amounts
    if not all(isinstance(pair, list) and [type(size) for size in pair] == [int, int] for pair in amounts):
        raise a.node.invalid(f"argument pad_width is not valid: {pad_width!r:.40}")
    fill = a.value("constant_values", x) if a.has("constant_values") else None
    widths = a.g.builder.const(np.asarray(amounts, np.int64))
    return padded(a.g, x, widths, a.option("mode", "constant"), fill)


def _rolled(a: Arguments) -> Value:
    if a.option("axis") is None:
        raise a.node.problem("xdlc does not support roll without axis")
    return rolled(a.g, a.value(), a.integers("shift"), a.integers("axis"))


def _taken(a: Arguments) -> Value:
    """Gather elements by index; negative indices count from the end."""
    x, axis = a.along_one()
    indices = a.value("indices", a.g.builder.const(np.asarray(0, np.int32)))
    indices = indices if indices.dtype in (INT32, INT64) else a.g.builder.cast(indices, INT32)
    return gather(a.g, x, indices, axis)


_SAME = ("Cast", "StopGradient", "Copy", "ConvertToTensor", "Array")
operations({name: ("x", lambda a: a.g("Identity", [a.value()])) for name in _SAME})
operations(
    {
        "GetItem": ("x key", _part),
        "Reshape": ("x newshape", _reshaped),
        "Transpose": ("x", _transposed),
        "Swapaxes": ("x", _swapped),
        "Moveaxis": ("x", _moved),
        "ExpandDims": ("x", _axes_of_one),
        "Squeeze": ("x", _axes_of_one),
        "Concatenate": ("xs", _joined),
        "Stack": ("x", lambda a: stack(a.g, a.values("x"), a.integer("axis", 0))),
        "Split": ("x", _split),
        "Unstack": ("x", _unstacked),
        "Tile": ("x", _tiled),
        "Repeat": ("x", _repeated),
        "BroadcastTo": ("x", lambda a: a.g("Expand", [a.value(), vector(a.g, a.integers("shape"))])),
        "Pad": ("x constant_values", _padded),
        "Flip": ("x", lambda a: reversed_axes(a.g, a.value(), a.axes(a.value()))),
        "Roll": ("x", _rolled),
        "Take": ("x indices", _taken),
    }
)


_ALL = (1 << 63) - 1


@handler("Flatten")
def flatten(node: Node, g: Operators) -> Value:
    """Join all axes but the batch, channels last."""
    x = only_input(node)
    if is_channel_first(node) and x.rank > 2:
        x = channel_last(g, x)
    return batched(g, x, [-1] if x.rank > 1 else [1])


@handler("Reshape")
def reshape(node: Node, g: Operators) -> Value:
    """Reshape each example; one dimension may be -1."""
    wanted = node.attr("target_shape")
    if not isinstance(wanted, list) or not all(type(size) is int or size is None for size in wanted):
        raise node.invalid(f"target_shape is not valid: {wanted!r:.60}")
    return batched(g, only_input(node), [-1 if size is None else size for size in wanted])


@handler("Permute")
def permute(node: Node, g: Operators) -> Value:
    """Permute the axes of examples, which count from 1."""
    x = only_input(node)
    wanted = sizes(node, "dims", x.rank - 1)
    if sorted(wanted) != list(range(1, x.rank)):
        raise node.invalid(f"dims is not valid: {wanted}")
    return permuted(g, x, [0, *wanted])


@handler("RepeatVector")
def repeat_vector(node: Node, g: Operators) -> Value:
    """Repeat vectors as steps of a sequence."""
    x, count = only_input(node), int(number_of(node, "n"))
    return g("Tile", [g("Unsqueeze", [x, [1]]), [1, count, *[1] * (x.rank - 1)]])


def _pairs(node: Node, name: str, count: int) -> list[list[int]]:
    """Return amounts before and after each spatial axis."""
    stated = node.attr(name)
    if type(stated) is int:
        stated = [stated] * max(count, 2)
    if count == 1 and isinstance(stated, list) and all(type(pad) is int for pad in stated):
        stated = [stated]
    pairs = [[pad, pad] if type(pad) is int else pad for pad in stated] if isinstance(stated, list) else []
    if len(pairs) != count or not all(
        isinstance(pair, list) and len(pair) == 2 and all(type(pad) is int for pad in pair) for pair in pairs
    ):
        raise node.invalid(f"{name} is not valid: {stated!r:.60}")
    return pairs


@handler(*(f"Cropping{rank}D" for rank in (1, 2, 3)))
def cropping(node: Node, g: Operators) -> Value:
    """Cut off borders of the spatial axes."""
    x = only_input(node)
    pairs = _pairs(node, "cropping", x.rank - 2)
    first = 2 if is_channel_first(node) else 1
    begin = vector(g, [pair[0] for pair in pairs])
    end = vector(g, [-pair[1] if pair[1] else _ALL for pair in pairs])
    return g("Slice", [x, begin, end, range(first, first + len(pairs))])


@handler(*(f"ZeroPadding{rank}D" for rank in (1, 2, 3)))
def zero_padding(node: Node, g: Operators) -> Value:
    """Put zeros around the spatial axes."""
    x = only_input(node)
    first = 2 if is_channel_first(node) else 1
    amounts = np.zeros((2, x.rank), np.int64)
    for axis, pair in enumerate(_pairs(node, "padding", x.rank - 2), first):
        amounts[:, axis] = pair
    return g("Pad", [x, vector(g, amounts)])
