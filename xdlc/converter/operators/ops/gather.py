"""Gather and GatherElements, GatherND."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value, identity
from xdlc.ir.dtype import INT32


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
    """Return indices as int32; known negative ones count from the end, as ONNX has it."""
    if indices.is_static:
        known = indices.numpy().astype(np.int64)
        if known.size and (known.min() < -dim or known.max() >= dim):
            raise node.problem(f"index {known.min()} to {known.max()} in an axis of {dim} elements")
        return b.const(np.where(known < 0, known + dim, known).astype(np.int32), indices.tensor.name)
    return b.cast(indices, INT32)


def tuple_value(node: Node, b: Builder, indices: Value, dims: Sequence[int]) -> Value:
    """Return tuples of indices, one for each of ``dims``, as ``index_value`` does."""
    if not indices.is_static:
        return b.cast(indices, INT32)
    known = indices.numpy().astype(np.int64)
    bounds = np.asarray(dims, np.int64)
    if len(bounds) != known.shape[-1] or np.any(known < -bounds) or np.any(known >= bounds):
        raise node.invalid(f"indices do not fit dimensions {list(dims)}")
    return b.const(np.where(known < 0, known + bounds, known).astype(np.int32), indices.tensor.name)


@importer("GatherElements", since=11)
def gather_elements(node: Node, b: Builder) -> Value:
    """Map onto GatherElements."""
    x, indices = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", 0), x.rank)
    positions = index_value(node, b, indices, x.shape[axis])
    inputs = [b.source_order(x), b.source_order(positions)]
    out = b.emit("GatherElements", inputs, indices.shape, x.dtype, {"axis": ir.u32(axis)})
    return Value(out, identity(out.rank))


@importer("GatherND", since=11)
def gather_nd(node: Node, b: Builder) -> Value:
    """Map onto GatherNd, or Gather for static indices, where HTP's GatherNd fails."""
    x, indices = node.required(0), node.required(1)
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
