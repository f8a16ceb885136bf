"""Steps of decompositions: one QNN operation each, in the source's axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.values import Order, Value, broadcast, identity
from xdlc.ir import DType
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, INT32


def number(b: Builder, like: Value, value: float) -> Value:
    """Return one number of the type of ``like``, of rank 0."""
    return b.const(np.asarray(value, like.dtype.numpy))


def unary(b: Builder, operation: int, x: Value) -> Value:
    """Append an ElementWiseUnary."""
    return b.unary("ElementWiseUnary", x, {"operation": ir.u32(operation)})


def neuron(b: Builder, value: Value, operation: int, params: Mapping[str, ir.Param] | None = None) -> Value:
    """Append an ElementWiseNeuron."""
    return b.unary("ElementWiseNeuron", value, {"operation": ir.u32(operation), **(params or {})})


def compare(b: Builder, operation: int, x: Value, y: Value) -> Value:
    """Append an ElementWiseBinary whose result is boolean."""
    return b.binary(operation, x, y, dtype=BOOL8)


def select(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Return ``x`` where the condition is true, else ``y``."""
    return b.elementwise("ElementWiseSelect", [condition, x, y], dtype=x.dtype)


def reduced(b: Builder, type: str, x: Value, axes: Sequence[int], *, keep: bool = True) -> Value:
    """Append a reduction over source axes, from 0; without ``keep`` they are dropped."""
    lying = sorted(x.order.index(axis) for axis in axes)
    keeps = keep or len(axes) == x.rank
    shape = [1 if axis in lying else dim for axis, dim in enumerate(x.tensor.shape)]
    if not keeps:
        shape = [dim for axis, dim in enumerate(shape) if axis not in lying]
    params: dict[str, ir.Param] = {
        "axes": ir.u32s(lying),
        "keep_dims": ir.b8(keeps),
    }
    out = b.emit(type, [b.to_layout(x, x.order)], shape, x.dtype, params)
    if keeps:
        made = Value(out, x.order)
        return made if keep else b.reshape(made, ())
    return Value(out, without_axes(x.order, axes))


def without_axes(order: Order, axes: Sequence[int]) -> Order:
    """Return the order of a value that lost source axes."""
    kept = [axis for axis in order if axis not in axes]
    ranks = {axis: position for position, axis in enumerate(sorted(kept))}
    return tuple(ranks[axis] for axis in kept)


def strided(b: Builder, x: Value, ranges: Mapping[int, tuple[int, int, int]]) -> Value:
    """Return elements at regular distances.

    Args:
        ranges: First position, position to stop before (-1 for "down to the first") and step, by source
            axis; omitted axes are kept.
    """
    if x.tensor.data is not None:
        where = tuple(
            slice(start, None if stop < 0 else stop, step)
            for start, stop, step in (ranges.get(axis, (0, x.shape[axis], 1)) for axis in range(x.rank))
        )
        cut = x.tensor.data.transform(lambda array: array[where], shape=_cut(x.shape, where))
        return b.const(cut, x.tensor.name)
    full = [ranges.get(axis, (0, x.shape[axis], 1)) for axis in x.order]
    shape = [len(range(*bounds)) for bounds in full]
    params = {"ranges": ir.static("", np.asarray(full, np.int32))}
    out = b.emit("StridedSlice", [x.tensor], shape, x.dtype, params, encoding=x.tensor.encoding)
    return Value(out, x.order)


def _cut(shape: Sequence[int], where: Sequence[slice]) -> tuple[int, ...]:
    return tuple(len(range(*one.indices(dim))) for one, dim in zip(where, shape, strict=True))


def part(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """Return the elements from ``start`` to before ``stop`` of a source axis."""
    return x if (start, stop) == (0, x.shape[axis]) else strided(b, x, {axis: (start, stop, 1)})


def reversed_along(b: Builder, x: Value, axis: int) -> Value:
    """Return ``x`` with a source axis turned round."""
    return x if x.shape[axis] == 1 else strided(b, x, {axis: (x.shape[axis] - 1, -1, -1)})


def joined(b: Builder, values: Sequence[Value], axis: int) -> Value:
    """Return values joined along a source axis, in the first computed one's layout."""
    values = [value for value in values if value.shape[axis]] or list(values[:1])
    if len(values) == 1:
        return values[0]
    order = next((value.order for value in values if not value.is_static), values[0].order)
    tensors = [b.to_layout(value, order) for value in values]
    lying = order.index(axis)
    shape = list(tensors[0].shape)
    shape[lying] = sum(tensor.shape[lying] for tensor in tensors)
    return Value(b.emit("Concat", tensors, shape, tensors[0].dtype, {"axis": ir.u32(lying)}), order)


def cut(b: Builder, x: Value, axis: int, count: int) -> list[Value]:
    """Return a source axis split into equal parts."""
    size = x.shape[axis] // count
    if count == 1 or x.is_static:
        return [part(b, x, axis, index * size, (index + 1) * size) for index in range(count)]
    lying = x.order.index(axis)
    shape = [size if held == lying else dim for held, dim in enumerate(x.tensor.shape)]
    params: dict[str, ir.Param] = {
        "axis": ir.u32(lying),
        "split_index": ir.static("", np.arange(size, size * count, size, dtype=np.uint32)),
    }
    made = b.emit_many("Split", [x.tensor], [(shape, x.dtype)] * count, params)
    return [Value(tensor, x.order) for tensor in made]


def picked(b: Builder, x: Value, axis: int, positions: Array) -> Value:
    """Return the elements at known positions of a source axis."""
    if np.array_equal(positions, np.arange(x.shape[axis])):
        return x
    index = b.source_order(b.const(positions.astype(np.int32), f"{b.stem}_positions"))
    lying = x.order.index(axis)
    tensor = b.to_layout(x, x.order)
    shape = [len(positions) if held == lying else dim for held, dim in enumerate(tensor.shape)]
    params = {"axis": ir.i32(lying)}
    out = b.emit("Gather", [tensor, index], shape, x.dtype, params, encoding=x.tensor.encoding)
    return Value(out, x.order)


def product(b: Builder, x: Value, y: Value) -> Value:
    """Append a MatMul over the last two source axes; the other axes broadcast."""
    rank = max(x.rank, y.rank)
    x, y = b.with_rank(x, rank), b.with_rank(y, rank)
    batch = [broadcast(pair) for pair in zip(x.shape[:-2], y.shape[:-2], strict=True)]
    params: dict[str, ir.Param] = {"transpose_in0": ir.b8(False), "transpose_in1": ir.b8(False)}
    shape = (*batch, x.shape[-2], y.shape[-1])
    return Value(
        b.emit("MatMul", [b.source_order(x), b.source_order(y)], shape, x.dtype, params), identity(rank)
    )


def scattered(b: Builder, x: Value, indices: Value, updates: Value, axis: int) -> Value:
    """Return ``x`` with ``updates`` written at ``indices`` along a source axis."""
    inputs = [b.source_order(x), b.source_order(b.cast(indices, INT32)), b.source_order(updates)]
    params: dict[str, ir.Param] = {"axis": ir.u32(axis), "reduction": ir.u32(0)}
    return Value(b.emit("ScatterElements", inputs, x.shape, x.dtype, params), identity(x.rank))


def constant(b: Builder, array: Array, dtype: DType | None = None) -> Value:
    """Return a constant, in a stated QNN type if any."""
    return b.const(array if dtype is None else array.astype(dtype.numpy))
