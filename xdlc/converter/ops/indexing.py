"""Elements that are selected, replaced or marked by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops._compose import compare, number, picked, scattered, select, unary
from xdlc.converter.ops.shapes import tiled
from xdlc.converter.values import Value, identity
from xdlc.ir import DType, Scalar, Tensor
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS, MOD, NEG, SUBTRACT


@importer("Gather", layout=ANY)
def gather(node: Node, b: Builder) -> Value:
    """Map onto Gather; the index types of QNN have 32 bits."""
    x, indices = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", 0), x.rank)
    positions = index_value(node, b, indices, x.shape[axis])
    if indices.rank <= 1:
        lying = x.axis(axis)
        flat = b.reshape(positions, (1,)) if not indices.rank else positions
        shape = list(x.tensor.shape)
        shape[lying] = flat.shape[0]
        tensor = _data(b, x)
        out = b.emit(
            "Gather",
            [tensor, b.source_order(flat)],
            shape,
            x.dtype,
            {"axis": ir.i32(lying)},
            encoding=x.tensor.encoding,
        )
        found = Value(out, x.order)
        if indices.rank:
            return found
        return b.reshape(found, [dim for position, dim in enumerate(x.shape) if position != axis])
    out = b.emit(
        "Gather",
        [b.source_order(x), b.source_order(positions)],
        (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]),
        x.dtype,
        {"axis": ir.i32(axis)},
        encoding=x.tensor.encoding,
    )
    return Value(out, identity(out.rank))


def _data(b: Builder, x: Value) -> ir.Tensor:
    return b.to_layout(x, x.order)


def index_value(node: Node, b: Builder, indices: Value, dim: int) -> Value:
    """Return indices as int32; known negative indices count from the end."""
    if indices.is_static:
        known = indices.numpy().astype(np.int64)
        if known.size and (known.min() < -dim or known.max() >= dim):
            raise node.problem(f"index {known.min()} to {known.max()} is outside an axis of {dim} elements")
        return b.const(np.where(known < 0, known + dim, known).astype(np.int32), indices.tensor.name)
    return b.cast(indices, INT32)


def tuple_value(node: Node, b: Builder, indices: Value, dims: Sequence[int]) -> Value:
    """Return tuples of indices, one per entry of ``dims``, like ``index_value``."""
    if not indices.is_static:
        return b.cast(indices, INT32)
    known = indices.numpy().astype(np.int64)
    bounds = np.asarray(dims, np.int64)
    if len(bounds) != known.shape[-1] or np.any(known < -bounds) or np.any(known >= bounds):
        raise node.invalid(f"the indices do not fit an input of shape {list(dims)}")
    return b.const(np.where(known < 0, known + bounds, known).astype(np.int32), indices.tensor.name)


@importer("GatherElements", since=11)
def gather_elements(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto GatherElements."""
    axis = node.axis(node.attr("axis", 0), x.rank)
    positions = index_value(node, b, indices, x.shape[axis])
    inputs = [b.source_order(x), b.source_order(positions)]
    out = b.emit("GatherElements", inputs, indices.shape, x.dtype, {"axis": ir.u32(axis)})
    return Value(out, identity(out.rank))


@importer("GatherND", since=11)
def gather_nd(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto GatherNd, or Gather for static indices, where HTP's GatherNd fails."""
    batch = node.attr("batch_dims", 0)
    depth = indices.shape[-1]
    joined = x.shape[batch : batch + depth]
    positions = tuple_value(node, b, indices, joined)
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])
    if positions.is_static and not batch and indices.size and x.size < 1 << 31:
        rows = np.ravel_multi_index(tuple(np.moveaxis(positions.numpy(), -1, 0)), joined).reshape(-1)
        table = b.reshape(x, (math.prod(joined), *x.shape[depth:]))
        return b.reshape(picked(b, table, 0, rows), shape)
    inputs = [b.source_order(x), b.source_order(positions)]
    out = b.emit("GatherNd", inputs, shape, x.dtype, {"batch_dims": ir.u32(batch)})
    return Value(out, identity(out.rank))


_REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3}


@importer("ScatterElements", since=11)
@importer("Scatter", since=9)
def scatter_elements(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto ScatterElements."""
    axis = node.axis(node.attr("axis", 0), x.rank)
    positions = index_value(node, b, indices, x.shape[axis])
    return _scattered(node, b, "ScatterElements", positions, {"axis": ir.u32(axis)})


@importer("ScatterND", since=11)
def scatter_nd(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto ScatterNd."""
    dims = x.shape[: indices.shape[-1]]
    return _scattered(node, b, "ScatterNd", tuple_value(node, b, indices, dims), {})


def _scattered(node: Node, b: Builder, type: str, positions: Value, params: Mapping[str, ir.Param]) -> Value:
    """Append a scatter; a minimum is the negated maximum of negated values."""
    x, updates = node.required(0), node.required(2)
    if positions.rank == 1 and type == "ScatterNd":  # one update, of rank 0 where it is one element
        positions, updates = b.with_rank(positions, 2), b.reshape(updates, (1, *updates.shape))
    reduction = node.attr("reduction", "none")
    if reduction not in (*_REDUCTIONS, "min"):
        raise node.invalid(f"reduction {reduction!r} is unknown; use none, add, mul, min or max")
    turned = reduction == "min"
    if turned:
        x, updates, reduction = _upside_down(b, x), _upside_down(b, updates), "max"
    inputs = [b.source_order(value) for value in (x, positions, updates)]
    given = {**params, "reduction": ir.u32(_REDUCTIONS[reduction])}
    result = Value(b.emit(type, inputs, x.shape, x.dtype, given), identity(x.rank))
    return _upside_down(b, result) if turned else result


def _upside_down(b: Builder, x: Value) -> Value:
    """Return values in reverse order of size, without overflow of integers."""
    if x.dtype.is_float:
        return unary(b, NEG, x)
    most = x.dtype.limits[1] if not x.dtype.is_signed else -1
    return b.binary(SUBTRACT, number(b, x, most), x)


@importer("TensorScatter", since=24)
def tensor_scatter(node: Node, b: Builder, past: Value, update: Value, start: Value | None = None) -> Value:
    """Map onto ScatterElements along ``axis``, with a start per sequence of the batch."""
    axis = node.axis(node.attr("axis", -2), past.rank)
    mode = node.attr("mode", "linear")
    dims = [dim if held == axis else past.shape[held] for held, dim in enumerate(update.shape)]
    if axis == 0 or mode not in ("linear", "circular") or list(update.shape) != dims:
        raise node.invalid(
            f"mode {mode!r} and axis {axis} do not fit inputs {list(past.shape)} and {list(update.shape)}"
        )
    count = update.shape[axis]
    shape = [1] * past.rank
    shape[axis] = count
    b.check_table(count)
    steps = b.const(np.arange(count, dtype=np.int32).reshape(shape), f"{b.stem}_steps")
    places = steps
    if start is not None:
        most = (past.shape[axis] if mode == "linear" else 1 << 31) - count
        if start.is_static and ((start.numpy() < 0) | (start.numpy() > most)).any():
            raise node.invalid(f"a first position must be 0 to {most}")
        first = b.reshape(b.cast(start, INT32), (past.shape[0], *(1,) * (past.rank - 1)))
        places = b.binary(ADD, first, steps)
    if mode == "circular":
        places = b.binary(MOD, places, number(b, places, past.shape[axis]))
    index = tiled(b, places, [new // old for new, old in zip(update.shape, places.shape, strict=True)])
    return scattered(b, past, index, update, axis)


@importer("Compress", since=9)
def compress(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Gather of the selected elements, which must be static."""
    condition = node.static(1, "the condition")
    axis = node.attr("axis")
    if axis is None:
        x = b.reshape(x, (x.size,))
    axis = 0 if axis is None else node.axis(axis, x.rank)
    kept = np.flatnonzero([] if condition is None else condition)
    if kept.size and kept[-1] >= x.shape[axis]:
        raise node.invalid(f"the condition keeps element {kept[-1]} of only {x.shape[axis]}")
    if not kept.size:
        shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
        return b.const(np.zeros(shape, x.dtype.numpy), node.outputs[0])
    return picked(b, x, axis, kept)


@importer("OneHot", since=9)
def one_hot(node: Node, b: Builder, indices: Value) -> Value:
    """Map onto OneHot; an index below 0 counts from the depth."""
    depth, values = node.static(1, "the depth"), node.static(2, "the values")
    if depth is None or values is None or values.size != 2:
        raise node.invalid("the node requires a depth and two values")
    dim = int(depth.reshape(-1)[0])
    off, on = (_scalar(node, values.reshape(-1)[index]) for index in range(2))
    index = b.cast(indices, INT32)
    if indices.dtype.is_signed:
        below = compare(b, LESS, index, number(b, index, 0))
        index = select(b, below, b.binary(ADD, index, number(b, index, dim)), index)
    dtype = node.required(2).dtype
    axis = node.attr("axis", -1)
    return marked(b, index, dim, node.axis(axis, index.rank + 1), dtype, off=off, on=on)


def marked(b: Builder, index: Value, dim: int, axis: int, dtype: DType, *, off: Scalar, on: Scalar) -> Value:
    """Append a OneHot: a new source axis of ``dim`` elements, the indexed one ``on``."""
    shape = list(index.shape)
    source = index if index.rank else b.reshape(index, (1,))
    params: dict[str, ir.Param] = {
        "depth": ir.u32(dim),
        "axis": ir.u32(axis),
        "on_value": on,
        "off_value": off,
    }
    made = [*source.shape[:axis], dim, *source.shape[axis:]]
    out = b.emit("OneHot", [b.source_order(source)], made, dtype, params)
    shape.insert(axis, dim)
    return b.reshape(Value(out, identity(len(made))), shape)


def _scalar(node: Node, value: np.generic) -> Scalar:
    """Return a value as a parameter that represents it exactly."""
    plain = value.item()
    if isinstance(plain, bool):
        return ir.b8(plain)
    if isinstance(plain, int) and -(1 << 31) <= plain < 1 << 31:
        return ir.i32(plain)
    if isinstance(plain, float) and (not math.isfinite(plain) or float(np.float32(plain)) == plain):
        return ir.f32(plain)
    if value.dtype.name == "bfloat16":
        return ir.f32(float(value))
    raise node.problem(f"value {plain} cannot be stored exactly as a 32-bit parameter")


@importer("Hardmax")
def hardmax(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Argmax and OneHot; before opset 13 the axes from ``axis`` on are one."""
    axis = node.axis(node.attr("axis", -1 if node.opset >= 13 else 1), x.rank)
    if node.opset < 13:
        flat = b.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return b.reshape(_hardmax(b, flat, 1), x.shape)
    return _hardmax(b, x, axis)


def _hardmax(b: Builder, x: Value, axis: int) -> Value:
    tensor: Tensor = b.source_order(x)
    rest = [dim for held, dim in enumerate(x.shape) if held != axis]
    params: dict[str, ir.Param] = {"axis": ir.u32(axis), "keep_dims": ir.b8(not rest)}
    found = b.emit("Argmax", [tensor], rest or (1,), INT32, params)
    index = b.reshape(Value(found, identity(found.rank)), rest)
    zero, one = (ir.f32(0.0), ir.f32(1.0)) if x.dtype.is_float else (ir.i32(0), ir.i32(1))
    return marked(b, index, x.shape[axis], axis, x.dtype, off=zero, on=one)
