"""Operations of functional models that arrange, join and choose elements."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from xdlc.converter.keras.handling import as_float, const, handler
from xdlc.converter.keras.ops._arguments import Arguments
from xdlc.converter.nhwc.elementwise import one_hot
from xdlc.converter.nhwc.gathering import gather, split, stack, unstack
from xdlc.converter.nhwc.shapes import axis_of, cast, dims, permuted, vector
from xdlc.converter.nhwc.slicing import Masks, padded, reversed_axes, rolled, sliced, strided_slice
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, from_numpy


def dtype_of(node: Node, name: Any) -> Any:
    """Return the type of a DLC for a type of Keras; floats are float32.

    Raises:
        UnsupportedOp: If there is none.
    """
    text = str(name or "float32")
    if text in ("float16", "bfloat16", "float64", "float32"):
        return FLOAT32
    if text not in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        raise node.problem(f"type {text:.30}")
    return from_numpy(np.dtype(text))


@handler("Cast", "SaturateCast", domain="ops")
def cast_to(node: Node, g: Operators) -> Value:
    """Convert to another type."""
    given = Arguments(node)
    x, dtype = given.value(g, "x"), dtype_of(node, given.option("dtype"))
    if dtype is BOOL8 and x.dtype is not BOOL8:
        return g("Not", [g("Equal", [x, const(g, 0, x)])])
    return cast(g, x, dtype)


@handler(
    "StopGradient",
    "Copy",
    "ConvertToTensor",
    "Array",
    domain="ops",
    ignores=("dtype", "sparse", "ragged", "args", "kwargs"),
)
def same(node: Node, g: Operators) -> Value:
    """Pass on the input."""
    return g("Identity", [node.required(0)])


@handler("GetItem", domain="ops")
def get_item(node: Node, g: Operators) -> Value:
    """Take a part by slices, indices, ellipsis and new axes."""
    given = Arguments(node, "x key")
    key = given.option("key")
    entries = key if type(key) is list else [key]
    begin: list[int] = []
    end: list[int] = []
    step: list[int] = []
    masks = {"begin": 0, "end": 0, "ellipsis": 0, "new_axis": 0, "shrink": 0}
    for bit, entry in enumerate(entries):
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
            raise node.problem(f"an index of {entry!r:.40}", "use slices and integers, or keras.ops.take")
        for part, number in ((begin, first), (end, last), (step, by)):
            part.append(number)
    spec = vector(g, begin), vector(g, end), vector(g, step)
    return strided_slice(g, given.value(g, "x"), spec[0], spec[1], spec[2], Masks(**masks))


@handler("Reshape", domain="ops")
def reshape(node: Node, g: Operators) -> Value:
    """Give another shape; a dimension of the batch may be open."""
    given = Arguments(node, "x newshape")
    wanted = [-1 if size is None else int(size) for size in list_of(node, given.option("newshape"))]
    return g("Reshape", [given.value(g, "x"), vector(g, wanted)])


@handler("Ravel", domain="ops")
def ravel(node: Node, g: Operators) -> Value:
    """Give one axis."""
    return g("Reshape", [Arguments(node).value(g, "x"), vector(g, [-1])])


def list_of(node: Node, given: Any) -> list[Any]:
    """Return an argument as a list, a single number as one of one.

    Raises:
        ModelError: If it is something else.
    """
    if type(given) is int:
        return [given]
    if not isinstance(given, list):
        raise node.invalid(f"a list is {given!r:.40}")
    return given


@handler("Transpose", "Swapaxes", "Moveaxis", domain="ops")
def transpose(node: Node, g: Operators) -> Value:
    """Permute axes."""
    given = Arguments(node)
    x = given.value(g, "x")
    order = list(range(x.rank))
    if node.type == "Transpose":
        wanted = given.option("axes")
        return permuted(g, x, order[::-1] if wanted is None else [axis_of(axis, x.rank) for axis in wanted])
    if node.type == "Swapaxes":
        first, second = (axis_of(int(given.option(name)), x.rank) for name in ("axis1", "axis2"))
        order[first], order[second] = second, first
        return permuted(g, x, order)
    sources, places = (
        [axis_of(axis, x.rank) for axis in list_of(node, given.option(name))]
        for name in ("source", "destination")
    )
    order = [axis for axis in order if axis not in sources]
    for target, source in sorted(zip(places, sources, strict=True)):
        order.insert(target, source)
    return permuted(g, x, order)


@handler("ExpandDims", "Squeeze", domain="ops")
def axes_of_one(node: Node, g: Operators) -> Value:
    """Insert or drop axes of size 1."""
    given = Arguments(node)
    x, axis = given.value(g, "x"), given.option("axis")
    if axis is None:
        return g("Squeeze", [x])
    return g("Unsqueeze" if node.type == "ExpandDims" else "Squeeze", [x, vector(g, list_of(node, axis))])


@handler("Concatenate", "Stack", domain="ops")
def join(node: Node, g: Operators) -> Value:
    """Put tensors side by side, along an axis of theirs or a new one."""
    name = "xs" if node.type == "Concatenate" else "x"
    given = Arguments(node, name)
    values, axis = given.values(g, name), int(given.option("axis", 0))
    if any(value.dtype is not values[0].dtype for value in values):
        values = [as_float(g, value) for value in values]
    if node.type == "Stack":
        return stack(g, values, axis)
    return g("Concat", values, axis=axis_of(axis, values[0].rank)) if len(values) > 1 else values[0]


@handler("Split", "Unstack", domain="ops", ignores=("num",))
def part(node: Node, g: Operators) -> list[Value]:
    """Cut into parts: a number of equal ones, at positions, or of size 1."""
    given = Arguments(node)
    x, axis = given.value(g, "x"), int(given.option("axis", 0))
    (size,) = dims(x, [axis])
    if node.type == "Unstack":
        return unstack(g, x, size, axis)
    where = given.option("indices_or_sections")
    if type(where) is int and where > 0 and size % where == 0:
        return split(g, x, [size // where] * where, axis)
    ends = [0, *list_of(node, where), size]
    return split(g, x, [last - first for first, last in pairwise(ends)], axis)


@handler("Tile", "Repeat", "BroadcastTo", domain="ops")
def repeat(node: Node, g: Operators) -> Value:
    """Repeat a tensor, its elements, or along axes of size 1."""
    given = Arguments(node)
    x = given.value(g, "x")
    if node.type == "BroadcastTo":
        return g("Expand", [x, vector(g, list_of(node, given.option("shape")))])
    counts = given.option("repeats")
    if node.type == "Tile":
        counts = [1] * max(0, x.rank - len(list_of(node, counts))) + list_of(node, counts)
        if len(counts) > x.rank:
            x = g("Unsqueeze", [x, vector(g, range(len(counts) - x.rank))])
        return g("Tile", [x, vector(g, counts)])
    axis = given.option("axis")
    if axis is None or type(counts) is not int:
        raise node.problem("a repeat of other than one number along one axis")
    (size,) = dims(x, [axis])
    return g("Gather", [x, vector(g, np.repeat(np.arange(size), counts))], axis=axis_of(axis, x.rank))


@handler("Pad", domain="ops")
def pad(node: Node, g: Operators) -> Value:
    """Put elements around a tensor."""
    given = Arguments(node, "x constant_values")
    x, amounts = given.value(g, "x"), list_of(node, given.option("pad_width"))
    amounts = [[each, each] if type(each) is int else each for each in amounts]
    amounts = amounts * x.rank if len(amounts) == 1 else amounts
    fill = given.value(g, "constant_values", x) if given.has("constant_values") else None
    return padded(
        g, x, g.builder.const(np.asarray(amounts, np.int64)), given.option("mode", "constant"), fill
    )


@handler("Flip", "Roll", domain="ops")
def turn(node: Node, g: Operators) -> Value:
    """Reverse or rotate the order along axes."""
    given = Arguments(node)
    x, axis = given.value(g, "x"), given.option("axis")
    if axis is None and node.type == "Roll":
        raise node.problem("a roll without axis")
    axes = list(range(x.rank)) if axis is None else list_of(node, axis)
    if node.type == "Flip":
        return reversed_axes(g, x, axes)
    return rolled(g, x, list_of(node, given.option("shift")), axes)


@handler("Take", "TakeAlongAxis", domain="ops")
def take(node: Node, g: Operators) -> Value:
    """Take elements by index; negative ones count from the end."""
    given = Arguments(node, "x indices")
    x, axis = given.value(g, "x"), given.option("axis")
    indices = given.value(g, "indices", g.builder.const(np.asarray(0, np.int32)))
    indices = indices if indices.dtype in (INT32, INT64) else cast(g, indices, INT32)
    if axis is None:
        x, axis = g("Reshape", [x, vector(g, [-1])]), 0
    if node.type == "Take":
        return gather(g, x, indices, int(axis))
    return g("GatherElements", [x, indices], axis=axis_of(int(axis), x.rank))


@handler("OneHot", domain="ops", ignores=("sparse",))
def one_hot_of(node: Node, g: Operators) -> Value:
    """Return indices as vectors."""
    given = Arguments(node)
    dtype = dtype_of(node, given.option("dtype"))
    on, off = (g.builder.const(np.asarray(each, dtype.numpy)) for each in (1, 0))
    return one_hot(
        g, given.value(g, "x"), int(given.option("num_classes")), on, off, int(given.option("axis", -1))
    )


@handler("ZerosLike", "OnesLike", "FullLike", domain="ops")
def filled(node: Node, g: Operators) -> Value:
    """Return a tensor of the shape of another, with one value."""
    given = Arguments(node, "x fill_value")
    x = given.value(g, "x")
    dtype = x.dtype if given.option("dtype") is None else dtype_of(node, given.option("dtype"))
    number = {"ZerosLike": 0, "OnesLike": 1}.get(node.type)
    value = given.option("fill_value") if number is None else number
    one = g.builder.const(np.asarray(value, dtype.numpy))
    return g("Expand", [one, vector(g, dims(x))] if not x.is_dynamic else [one, g("Shape", [x])])


@handler("Slice", domain="ops")
def slice_of(node: Node, g: Operators) -> Value:
    """Take a part of a size from a position on."""
    given = Arguments(node, "inputs start_indices")
    x, shape = given.value(g, "inputs"), list_of(node, given.option("shape"))
    return sliced(g, x, given.value(g, "start_indices", vector(g, [0])), vector(g, shape))


@handler("NanToNum", domain="ops")
def without_nan(node: Node, g: Operators) -> Value:
    """Replace NaN and infinite elements by numbers."""
    given = Arguments(node)
    x = as_float(g, given.value(g, "x"))
    most = float(np.finfo(np.float32).max)
    high, low = given.option("posinf", most), given.option("neginf", -most)
    infinite = g("IsInf", [x])
    ends = g("Where", [g("Greater", [x, const(g, 0)]), const(g, high), const(g, low)])
    return g("Where", [g("IsNaN", [x]), const(g, given.option("nan", 0)), g("Where", [infinite, ends, x])])


@handler("Tril", "Triu", domain="ops")
def triangle(node: Node, g: Operators) -> Value:
    """Set the elements on one side of a diagonal to 0."""
    given = Arguments(node)
    k = g.builder.const(np.asarray(int(given.option("k", 0)), np.int64))
    return g("Trilu", [given.value(g, "x"), k], upper=int(node.type == "Triu"))


@handler("Matmul", "Dot", "Tensordot", "Einsum", domain="ops")
def product(node: Node, g: Operators) -> Value:
    """Return products of matrices."""
    if node.type == "Einsum":
        names = " ".join(f"x{index}" for index in range(len(node.attr("args") or [])))
        given = Arguments(node, names)
        values = [as_float(g, given.value(g, name)) for name in names.split()]
        return g("Einsum", values, equation=str(given.option("subscripts")).replace(" ", ""))
    given = Arguments(node, "x1 x2")
    x, y = (as_float(g, each) for each in given.pair(g))
    if node.type == "Matmul":
        return g("MatMul", [x, y])
    axes = given.option("axes", 2) if node.type == "Tensordot" else 1
    if type(axes) is not int or (node.type == "Dot" and y.rank > 2):
        raise node.problem(f"axes {axes!r:.30} of ranks {x.rank} and {y.rank}", "use keras.ops.einsum")
    inner = math.prod(dims(y, range(axes)))
    head, tail = x.dims or (), y.shape[axes:]
    x = g("Reshape", [x, vector(g, [-1, inner])])
    made = g("MatMul", [x, g("Reshape", [y, vector(g, [inner, -1])])])
    kept = [-1 if size is None else size for size in head[: len(head) - axes]]
    return g("Reshape", [made, vector(g, [*kept, *tail])])
