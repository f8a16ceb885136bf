"""Pieces of tensors: joined, split, cut, padded, reversed or masked."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops._compose import number, picked, select
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, FLOAT64


@importer("Concat", since=4, layout=ANY)
def concat(node: Node, b: Builder) -> Value:
    """Join values along an axis, in the axis order that most of them have."""
    values = [
        value for value in (node.input(index) for index in range(len(node.inputs))) if value is not None
    ]
    if len({value.rank for value in values}) > 1 and not node.is_applied:
        raise node.invalid(f"{' and '.join(str(value.rank) for value in values[:4])} axes cannot be joined")
    values = [value for value in values if value.size] or values[:1]
    first = values[0]
    axis = node.axis(node.attr("axis"), first.rank)
    weights: dict[tuple[int, ...], int] = {}
    for value in values:
        if not value.is_static:
            weights[value.order] = weights.get(value.order, 0) + value.tensor.nbytes
    order = max(weights, key=lambda key: (weights[key], key != tuple(range(first.rank))), default=first.order)
    tensors = [
        b.to_layout(value, order, why=f"{node.name} joins values of different axis order") for value in values
    ]
    if len(tensors) == 1:
        return values[0]
    shape = list(tensors[0].shape)
    lying = order.index(axis)
    shape[lying] = sum(tensor.shape[lying] for tensor in tensors)
    out = b.emit(
        "Concat", tensors, shape, first.dtype, {"axis": ir.u32(lying)}, encoding=first.tensor.encoding
    )
    return Value(out, order)


@importer("Split", since=2, layout=ANY)
def split(node: Node, b: Builder, value: Value) -> list[Value]:
    """Cut a value along an axis."""
    axis = node.axis(node.attr("axis", 0), value.rank)
    dim, count = value.shape[axis], len(node.outputs)
    sizes = node.ints(1, "split", "the sizes")
    if sizes is None:
        if node.attr("num_outputs", count) != count:
            raise node.invalid(f"num_outputs does not fit the {count} outputs of the node")
        step = -(-dim // count)
        sizes = [min(step, dim - step * index) for index in range(count)]
    if sum(sizes) != dim or any(size < 0 for size in sizes) or len(sizes) != len(node.outputs):
        raise node.problem(f"sizes {sizes} do not cut {dim} elements into {len(node.outputs)} outputs")
    full = [size for size in sizes if size]
    made = iter(_parts(b, value, axis, full))
    empty = (*value.shape[:axis], 0, *value.shape[axis + 1 :])
    return [
        next(made) if size else b.const(np.zeros(empty, value.dtype.numpy), name)
        for size, name in zip(sizes, node.outputs, strict=True)
    ]


def _parts(b: Builder, value: Value, axis: int, sizes: list[int]) -> list[Value]:
    """Append a Split into non-empty parts of stated sizes."""
    if len(sizes) < 2:
        return [value] * len(sizes)
    lying = value.axis(axis)
    params: dict[str, ir.Param] = {
        "axis": ir.u32(lying),
        "split_index": ir.static("", np.cumsum(sizes[:-1]).astype(np.uint32)),
    }
    outputs = [
        (
            [size if position == lying else held for position, held in enumerate(value.tensor.shape)],
            value.dtype,
        )
        for size in sizes
    ]
    made = b.emit_many(
        "Split", [value.tensor], outputs, params, encodings=[value.tensor.encoding] * len(sizes)
    )
    return [Value(tensor, value.order) for tensor in made]


@importer("Slice", "DynamicSlice", layout=ANY)
def slice_(node: Node, b: Builder, value: Value) -> Value:
    """Map onto StridedSlice, its ranges in the axis order of the tensor."""
    starts = node.required_ints(1, "starts", "the starts")
    ends = node.required_ints(2, "ends", "the ends")
    axes = node.ints(3, "axes", "the axes")
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.ints(4, "steps", "the steps") or [1] * len(starts)
    ranges = [[0, dim, 1] for dim in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise node.problem("a step must not be 0")
        axis = node.axis(axis, value.rank)
        ranges[axis] = list(slice(start, end, step).indices(value.shape[axis]))
    shape = [len(range(*bounds)) for bounds in ranges]
    if shape == list(value.shape) and all(step == 1 for _, _, step in ranges):
        return value
    if 0 in shape:
        return b.const(np.zeros(shape, value.dtype.numpy), node.outputs[0])
    lying = [ranges[axis] for axis in value.order]
    params = {"ranges": ir.static("", np.asarray(lying, np.int32))}
    out = b.emit(
        "StridedSlice",
        [value.tensor],
        [shape[axis] for axis in value.order],
        value.dtype,
        params,
        encoding=value.tensor.encoding,
    )
    return Value(out, value.order)


_SCHEMES = {"constant": 0, "reflect": 2, "edge": 3}


@importer("Pad", since=2, layout=ANY)
def pad(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Pad; negative amounts cut instead."""
    amounts = node.required_ints(1, "pads", "the amounts")
    axes = node.ints(3, "axes", "the axes")
    axes = list(range(x.rank)) if axes is None else [node.axis(axis, x.rank) for axis in axes]
    if len(set(axes)) < len(axes):
        raise node.invalid(f"axes {axes} repeat an axis")
    if len(amounts) != 2 * len(axes):
        raise node.problem(f"{len(amounts)} amounts do not fit {len(axes)} axes")
    mode = node.attr("mode", "constant")
    if mode not in (*_SCHEMES, "wrap"):
        raise node.invalid(f"mode {mode!r} is unknown; use constant, reflect, edge or wrap")
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = amounts[index], amounts[index + len(axes)]
    x = _cut(node, b, x, before, after)
    lying = [[max(0, before[axis]), max(0, after[axis])] for axis in x.order]
    if not np.any(lying):
        return x
    if mode == "wrap":
        return _wrapped(b, x, before, after)
    params: dict[str, ir.Param] = {
        "scheme": ir.u32(_SCHEMES[mode]),
        "pad_amount": ir.u32s(lying),
    }
    if mode == "constant":
        fill = node.attr("value", 0.0)
        given = node.static(2, "the fill value")
        if given is not None and given.size:
            fill = given.reshape(-1)[0]
        params["pad_constant_value"] = _fill(node, x, fill)
    shape = [dim + sum(amount) for dim, amount in zip(x.tensor.shape, lying, strict=True)]
    return Value(b.emit("Pad", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)


def _cut(node: Node, b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    if not any(amount < 0 for amount in (*before, *after)):
        return x
    ranges = [[-min(0, before[axis]), dim + min(0, after[axis]), 1] for axis, dim in enumerate(x.shape)]
    if any(end <= start for start, end, _ in ranges):
        raise node.problem("the node crops all elements")
    lying = [ranges[axis] for axis in x.order]
    params = {"ranges": ir.static("", np.asarray(lying, np.int32))}
    shape = [end - start for start, end, _ in lying]
    return Value(b.emit("StridedSlice", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)


def _wrapped(b: Builder, x: Value, before: list[int], after: list[int]) -> Value:
    """Append a Gather along each axis that wraps around."""
    for axis, dim in enumerate(x.shape):
        b.check_table(dim + max(0, before[axis]) + max(0, after[axis]))
        place = np.arange(-max(0, before[axis]), dim + max(0, after[axis])) % dim
        x = picked(b, x, axis, place)
    return x


def _fill(node: Node, x: Value, fill: float) -> ir.Scalar:
    """Return the fill value as a parameter that represents it exactly."""
    if x.dtype.is_float:
        exact = x.dtype is not FLOAT64 or not np.isfinite(fill) or float(np.float32(fill)) == float(fill)
        param = ir.f32(float(fill))
    else:
        exact = -(1 << 31) <= int(fill) < 1 << 31
        param = ir.b8(bool(fill)) if x.dtype is BOOL8 else ir.i32(int(fill) if exact else 0)
    if not exact:
        raise node.problem(f"fill value {fill} cannot be stored exactly as a 32-bit parameter")
    return param


@importer("ReverseSequence", since=10)
def reverse_sequence(node: Node, b: Builder, x: Value) -> Value:
    """Map onto one Gather over time and batch together; the lengths must be known."""
    lengths = node.static(1, "the lengths")
    time, batch = node.attr("time_axis", 0), node.attr("batch_axis", 1)
    if x.rank < 2 or {time, batch} != {0, 1} or lengths is None or lengths.size != x.shape[batch]:
        raise node.invalid(f"axes {time} and {batch} of {list(x.shape)} do not fit the sequence lengths")
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > x.shape[time]:
        raise node.invalid(f"lengths {lengths.tolist()} do not fit {x.shape[time]} steps")
    return reversed_steps(b, x, lengths, time)


def reversed_steps(b: Builder, x: Value, lengths: Array, time: int = 0) -> Value:
    """Return ``x`` with the first ``lengths[n]`` steps of sequence n turned round.

    Args:
        x: Values whose first two axes are time and batch, in either order.
        lengths: Number of steps of each sequence.
        time: Axis of the steps.
    """
    steps, count = x.shape[time], x.shape[1 - time]
    b.check_table(steps, count)
    place = np.arange(steps)[:, None]
    source = np.where(place < lengths, lengths - 1 - place, place)  # [time, batch]
    index = source * count + np.arange(count) if time == 0 else (source + np.arange(count) * steps).T
    flat = b.reshape(x, (steps * count, *x.shape[2:]))
    return b.reshape(picked(b, flat, 0, index.reshape(-1)), x.shape)


@importer("Trilu", since=14, layout=ANY)
def trilu(node: Node, b: Builder, x: Value) -> Value:
    """Map onto selection by a static mask, so that even infinities become 0."""
    if x.rank < 2:
        raise node.invalid(f"the node needs an input of two or more axes, not {list(x.shape)}")
    diagonal = node.static(1, "the diagonal k")
    k = 0 if diagonal is None else int(diagonal.reshape(-1)[0])
    b.check_table(*x.shape[-2:])
    ones = np.ones(x.shape[-2:], np.bool_)
    k = max(-ones.shape[0], min(k, ones.shape[1]))
    mask = np.triu(ones, k) if node.flag("upper", 1) else np.tril(ones, k)
    return select(b, b.const(mask, f"{b.stem}_mask"), x, number(b, x, 0))


@importer("EyeLike", since=9)
def eye_like(node: Node, b: Builder, x: Value) -> Value:
    """Return a constant with ones on a diagonal; it depends only on the shape."""
    if x.rank != 2:
        raise node.invalid(f"the node needs an input of two axes, not {list(x.shape)}")
    given = node.attr("dtype")
    dtype = x.dtype if given is None else ir.dtype.from_numpy(protobuf.numpy_dtype(given))
    rows, columns = x.shape
    b.check_table(rows, columns)
    return b.const(np.eye(rows, columns, node.attr("k", 0), dtype.numpy), node.outputs[0])
