"""Operations of ``keras.ops`` and slices: arrange, join, choose, resize."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from xdlc.converter.keras.ops._operations import Arguments, operations
from xdlc.converter.keras.ops.reshaping import resized
from xdlc.converter.nhwc import images
from xdlc.converter.nhwc.gathering import gather, split, stack, unstack
from xdlc.converter.nhwc.shapes import axis_of, dims, permuted, vector
from xdlc.converter.nhwc.slicing import Masks, padded, reversed_axes, rolled, strided_slice
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT32, INT64


def _part(a: Arguments) -> Value:
    """Take a part by slices, indices, ellipsis and new axes."""
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
            raise a.node.problem(f"an index of {entry!r:.40}", "use slices and integers, or keras.ops.take")
        spec.append((first, last, by))
    begin, end, step = (vector(a.g, column) for column in np.asarray(spec, np.int64).reshape(-1, 3).T)
    return strided_slice(a.g, a.value(), begin, end, step, Masks(**masks))


def _reshaped(a: Arguments) -> Value:
    wanted = a.option("newshape")
    listed = [-1 if size is None else size for size in wanted] if isinstance(wanted, list) else [wanted]
    if not all(type(size) is int for size in listed):
        raise a.node.invalid(f"argument newshape is {wanted!r:.40}")
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
    """Cut into a number of equal parts, or at positions."""
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
        x = a.g("Unsqueeze", [x, vector(a.g, range(len(counts) - x.rank))])
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
        raise a.node.invalid(f"argument pad_width is {pad_width!r:.40}")
    fill = a.value("constant_values", x) if a.has("constant_values") else None
    widths = a.g.builder.const(np.asarray(amounts, np.int64))
    return padded(a.g, x, widths, a.option("mode", "constant"), fill)


def _rolled(a: Arguments) -> Value:
    if a.option("axis") is None:
        raise a.node.problem("roll without axis is not supported")
    return rolled(a.g, a.value(), a.integers("shift"), a.integers("axis"))


def _taken(a: Arguments) -> Value:
    """Take elements by index; negative ones count from the end."""
    x, axis = a.along_one()
    indices = a.value("indices", a.g.builder.const(np.asarray(0, np.int32)))
    indices = indices if indices.dtype in (INT32, INT64) else a.g.builder.cast(indices, INT32)
    return gather(a.g, x, indices, axis)


# ---------------------------------------------------------------------------------------- images


def _is_last(a: Arguments) -> None:
    if a.option("data_format", "channels_last") != "channels_last":
        raise a.node.problem("channels_first operations are not supported", "transpose the images")


def _blocks(a: Arguments) -> Value:
    """Turn channels into blocks of pixels, or blocks into channels."""
    _is_last(a)
    function = images.depth_to_space if a.node.type == "DepthToSpace" else images.space_to_depth
    return function(a.g, a.value(), a.integer("block_size"))


def _resized(a: Arguments) -> Value:
    _is_last(a)
    if any(a.option(name, False) for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio")):
        raise a.node.problem("keeping the aspect ratio is not supported", "use the layer Resizing")
    x, size, antialias = a.value("images"), a.integers("size"), bool(a.option("antialias", False))
    if x.rank != 4 or len(size) != 2 or min(size) < 1:
        raise a.node.problem(f"size {size} of images of rank {x.rank}", "resize batches of images")
    return resized(a.node, a.g, x, size, a.option("interpolation", "bilinear"), antialias)


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
        "DepthToSpace": ("x", _blocks),
        "SpaceToDepth": ("x", _blocks),
        "Resize": ("images size", _resized),
    }
)
