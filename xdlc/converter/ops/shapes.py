"""Constants and shapes, views of the same elements, and their repetition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value, broadcast
from xdlc.ir import ArrayData, TensorData, fill


@importer("Constant")
def constant(node: Node, b: Builder) -> Value:
    """Bind a constant; its data are not copied."""
    name = node.outputs[0]
    for key, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if node.attr(key) is not None:
            return b.const(np.asarray(node.attr(key), dtype), name)
    if node.attr("value_ints") is not None:
        return b.const(np.asarray(node.attr("value_ints"), np.int64), name)
    value = node.attr("value", node.attr("sparse_value"))
    if not isinstance(value, TensorData):
        raise node.problem("xdlc does not support string constants", "use a tensor of numbers")
    return b.const(value, name)


@importer("ConstantOfShape", since=9)
def constant_of_shape(node: Node, b: Builder) -> Value:
    """Fill a shape with a value, which is expanded only when written."""
    shape = tuple(node.required_ints(0, "shape", "the sizes"))
    if any(dim < 0 for dim in shape):
        raise node.problem(f"the shape {list(shape)} has a negative dimension")
    given = node.attr("value")
    value = given.numpy().reshape(()) if given is not None else np.zeros((), np.float32)
    filled = fill(ArrayData(value), shape)
    if not b.takes_fill(filled):
        raise node.problem(f"the shape {list(shape)} has too many elements for a constant")
    return b.const(filled, node.outputs[0])


@importer("Shape")
def shape(node: Node, b: Builder) -> Value:
    """Return the shape, which is known during conversion."""
    dims = np.asarray(node.required(0).shape, np.int64)
    return b.const(dims[slice(node.attr("start", 0), node.attr("end"))], node.outputs[0])


@importer("Size")
def size(node: Node, b: Builder) -> Value:
    """Return the number of elements, which is known during conversion."""
    return b.const(np.asarray(node.required(0).size, np.int64), node.outputs[0])


@importer("Identity", layout=ANY, dynamic=True)
def identity(node: Node, b: Builder) -> Value:
    """Pass the value on."""
    return node.required(0)


@importer("Dropout", since=7, layout=ANY, ignores=("ratio", "seed", "is_test"), dynamic=True)
def dropout(
    node: Node, b: Builder, x: Value, ratio: Value | None = None, mode: Value | None = None
) -> list[Value]:
    """Pass the value on; return an all-true mask unless training reads it.

    onnxruntime, too, removes a Dropout between two nodes, be it in training form or not.
    """
    trains = mode is not None and not (mode.is_static and not mode.numpy().any())
    drops = trains and not (ratio is not None and ratio.is_static and not ratio.numpy().any())
    if x.is_dynamic or len(node.outputs) < 2 or drops:
        return [x]
    b.check_table(*x.shape)
    kept = np.ones(x.shape, np.bool_) if node.opset >= 10 else np.ones(x.shape, x.dtype.numpy)
    return [x, b.const(kept, node.outputs[1])]


@importer("Transpose")
def transpose(node: Node, b: Builder, value: Value) -> Value:
    """Permute the layout only; move elements where the node belongs to an op."""
    perm = [int(axis) for axis in node.attr("perm", range(value.rank)[::-1])]
    if sorted(perm) != list(range(value.rank)):
        raise node.invalid(f"perm {perm} does not fit an input of rank {value.rank}")
    if b.noted is not None and not value.is_static:
        return b.moved(value, perm, f"{node.name} moves the elements here")
    return b.transpose(value, perm)


@importer("Reshape", since=5)
def reshape(node: Node, b: Builder, value: Value) -> Value:
    """Reshape; 0 keeps a dimension (unless allowzero), -1 is inferred."""
    dims = node.required_ints(1, "shape", "the sizes")
    if not node.flag("allowzero"):
        dims = [value.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    if -1 in dims:
        product = math.prod(dim for dim in dims if dim != -1)
        dims[dims.index(-1)] = value.size // product if product else 0
    if math.prod(dims) != value.size or any(dim < 0 for dim in dims):
        raise node.problem(
            f"an input {list(value.shape)} cannot become {dims}: the number of elements differs"
        )
    return b.reshape(value, dims)


@importer("Flatten")
def flatten(node: Node, b: Builder, value: Value) -> Value:
    """Reshape to two axes, cut at ``axis``."""
    axis = node.attr("axis", 1)
    if not -value.rank <= axis <= value.rank:
        raise node.invalid(f"axis {axis} does not fit rank {value.rank}")
    axis += value.rank if axis < 0 else 0
    head = math.prod(value.shape[:axis])
    return b.reshape(value, (head, math.prod(value.shape[axis:])))


@importer("Squeeze")
def squeeze(node: Node, b: Builder, value: Value) -> Value:
    """Drop axes of size 1."""
    axes = node.ints(1, "axes", "the axes")
    if axes is None:
        dropped = {axis for axis, dim in enumerate(value.shape) if dim == 1}
    else:
        dropped = {axis + value.rank if axis < 0 else axis for axis in axes}
    if any(not 0 <= axis < value.rank or value.shape[axis] != 1 for axis in dropped):
        raise node.problem(f"axes {sorted(dropped)} of {list(value.shape)} must all have size 1")
    return b.reshape(value, [dim for axis, dim in enumerate(value.shape) if axis not in dropped])


@importer("Unsqueeze")
def unsqueeze(node: Node, b: Builder, value: Value) -> Value:
    """Insert axes of size 1."""
    axes = node.required_ints(1, "axes", "the axes")
    rank = value.rank + len(axes)
    inserted = {axis + rank if axis < 0 else axis for axis in axes}
    if len(inserted) != len(axes) or any(not 0 <= axis < rank for axis in inserted):
        raise node.problem(f"axes {axes} do not fit rank {value.rank}")
    dims = iter(value.shape)
    return b.reshape(value, [1 if axis in inserted else next(dims) for axis in range(rank)])


@importer("Expand", since=8, layout=ANY)
def expand(node: Node, b: Builder) -> Value:
    """Map broadcasting onto Tile."""
    return expanded(b, node.required(0), node.required_ints(1, "shape", "the sizes"))


def expanded(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Return ``x`` broadcast with a value of ``shape``."""
    rank = max(x.rank, len(shape))
    x = b.with_rank(x, rank)
    wanted = [1] * (rank - len(shape)) + list(shape)
    target = [broadcast((dim, other)) for dim, other in zip(x.shape, wanted, strict=True)]
    return tiled(b, x, [new // max(old, 1) for new, old in zip(target, x.shape, strict=True)])


@importer("Tile", since=6, layout=ANY)
def tile(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Tile."""
    repeats = node.required_ints(1, "repeats", "the repeats")
    if len(repeats) != x.rank:
        raise node.problem(f"{len(repeats)} repeats for rank {x.rank}")
    if any(count < 0 for count in repeats):
        raise node.invalid(f"repeats must be 0 or more, but are {repeats}")
    return tiled(b, x, repeats)


def tiled(b: Builder, x: Value, repeats: list[int]) -> Value:
    """Append a Tile unless all repeats are 1; constants are repeated on writing."""
    if all(count == 1 for count in repeats):
        return x
    if x.tensor.data is not None and x.tensor.encoding is None and x.bits is None:
        repeated = ir.Repeated(x.tensor.data, repeats)
        if b.takes_fill(repeated):
            return b.static_like(x, repeated)
    lying = [repeats[axis] for axis in x.order]
    params = {"multiples": ir.u32s(lying)}
    shape = [dim * count for dim, count in zip(x.tensor.shape, lying, strict=True)]
    return Value(b.emit("Tile", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)
