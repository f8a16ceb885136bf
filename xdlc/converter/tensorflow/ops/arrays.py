"""Handlers of operators on shapes: reshapes, joins, slices, gathers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc import blocks, diagonals, gathering, scatter, shapes, slicing
from xdlc.converter.nhwc.shapes import (
    axis_of,
    cast,
    ints,
    known,
    positions,
    reshape,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import dtype_of, handler
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT32

_FORMULAS: dict[str, Callable[..., Value]] = {
    "BatchMatrixDiag": diagonals.matrix_diagonals,
    "BroadcastArgs": shapes.broadcast_shape,
    "BroadcastTo": shapes.broadcast_to,
    "ConjugateTranspose": shapes.transposed,
    "Diag": diagonals.tensor_diagonal,
    "DiagPart": diagonals.tensor_diagonal_part,
    "ExpandDims": shapes.with_axes,
    "Fill": shapes.filled,
    "GatherNd": gathering.gather_nd,
    "MatrixDiag": diagonals.matrix_diagonals,
    "Slice": slicing.sliced,
    "SparseToDense": scatter.sparse_to_dense,
    "Tile": shapes.tiled,
    "Transpose": shapes.transposed,
    "Where": gathering.places,
}


@handler(*_FORMULAS, ignores=("bad_indices_policy", "index_type", "validate_indices"))
def _formula(node: Node, g: Operators, *values: Value) -> Value:
    return _FORMULAS[node.type](g, *values)


@handler("Reshape")
def _reshape(node: Node, g: Operators, x: Value, shape: Value) -> Value:
    return g("Reshape", [x, positions(g, shape)], allowzero=int(not x.is_dynamic))


@handler("Squeeze")
def _squeeze(node: Node, g: Operators, x: Value) -> Value:
    axes = node.attr("squeeze_dims") or node.attr("axis") or []
    return g("Squeeze", [x, vector(g, axes)] if axes else [x])


@handler("InvertPermutation")
def _invert_permutation(node: Node, g: Operators, x: Value) -> Value:
    return g.builder.const(np.argsort(known(x, "the permutation")).astype(x.dtype.numpy))


@handler("Shape", "ShapeN")
def _shape(node: Node, g: Operators, *values: Value) -> list[Value]:
    dtype = dtype_of(node, "out_type", "int32")
    return [cast(g, g("Shape", [x]), dtype) for x in values]


@handler("Size")
def _size(node: Node, g: Operators, x: Value) -> Value:
    return cast(g, g("Size", [x]), dtype_of(node, "out_type", "int32"))


@handler("Rank")
def _rank(node: Node, g: Operators, x: Value) -> Value:
    return g.builder.const(np.asarray(x.rank, np.int32))


@handler("Range")
def _range(node: Node, g: Operators, start: Value, stop: Value, step: Value) -> Value:
    bounds = [reshape(g, value, ()) for value in (start, stop, step)]
    if all(bound.is_static for bound in bounds) and not bounds[2].numpy():
        raise node.invalid("the step of a range is 0")
    return g("Range", bounds)


@handler("LinSpace")
def _linspace(node: Node, g: Operators, start: Value, stop: Value, count: Value) -> Value:
    steps = int(known(count, "the number of elements").reshape(()))
    check_table(steps)
    shares = g.builder.const((np.arange(steps) / max(steps - 1, 1)).astype(start.dtype.numpy))
    return g("Add", [start, g("Mul", [g("Sub", [stop, start]), shares])])


@handler("Concat", "ConcatV2")
def _concat(node: Node, g: Operators, *operands: Value) -> Value:
    values = list(operands)
    axis = values.pop(0 if node.type == "Concat" else -1)
    (place,) = ints(axis, "the axis")
    return g("Concat", values, axis=axis_of(place, values[0].rank)) if len(values) > 1 else values[0]


@handler("Split", ignores=("num_split",))
def _split(node: Node, g: Operators, axis: Value, x: Value) -> list[Value]:
    (place,) = ints(axis, "the axis")
    return gathering.split_evenly(g, x, len(node.outputs), place)


@handler("SplitV", ignores=("num_split",))
def _split_v(node: Node, g: Operators, x: Value, sizes: Value, axis: Value) -> list[Value]:
    (place,) = ints(axis, "the axis")
    return gathering.split(g, x, ints(sizes, "the sizes"), place)


@handler("Pack")
def _pack(node: Node, g: Operators, *values: Value) -> Value:
    return gathering.stack(g, values, node.attr("axis", 0))


@handler("Unpack", ignores=("num",))
def _unpack(node: Node, g: Operators, x: Value) -> list[Value]:
    return gathering.unstack(g, x, len(node.outputs), node.attr("axis", 0))


@handler("StridedSlice")
def _strided_slice(node: Node, g: Operators, x: Value, begin: Value, end: Value, strides: Value) -> Value:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    masks = slicing.Masks(*(int(node.attr(name, 0)) for name in names))
    return slicing.strided_slice(g, x, begin, end, strides, masks)


@handler("Pad", "PadV2")
def _pad(node: Node, g: Operators, x: Value, pads: Value, fill: Value | None = None) -> Value:
    return slicing.padded(g, x, pads, fill=fill)


@handler("MirrorPad")
def _mirror_pad(node: Node, g: Operators, x: Value, pads: Value) -> Value:
    return slicing.padded(g, x, pads, str(node.attr("mode", "REFLECT")).lower())


@handler("ReverseV2")
def _reverse(node: Node, g: Operators, x: Value, axes: Value) -> Value:
    return slicing.reversed_axes(g, x, ints(axes, "the axes"))


@handler("ReverseSequence")
def _reverse_sequence(node: Node, g: Operators, x: Value, lengths: Value) -> Value:
    time, batch = node.attr("seq_dim", 1), node.attr("batch_dim", 0)
    return gathering.reverse_sequence(g, x, lengths, time=time, batch=batch)


@handler("Roll")
def _roll(node: Node, g: Operators, x: Value, shifts: Value, axes: Value) -> Value:
    return slicing.rolled(g, x, ints(shifts, "the shifts"), ints(axes, "the axes"))


@handler("Gather", "GatherV2", "ResourceGather", ignores=("validate_indices", "dtype", "Tindices"))
def _gather(node: Node, g: Operators, x: Value, indices: Value, *axis: Value) -> Value:
    place = ints(axis[0], "the axis")[0] if axis else node.attr("batch_dims", 0)
    return gathering.gather(g, x, indices, place, node.attr("batch_dims", 0))


@handler("SpaceToBatchND", "SpaceToBatch", "BatchToSpaceND", "BatchToSpace")
def _batches(node: Node, g: Operators, x: Value, *operands: Value) -> Value:
    function = blocks.space_to_batch if node.type.startswith("Space") else blocks.batch_to_space
    if node.type.endswith("ND"):
        block, pads = operands
        sizes = ints(block, "the block shape")
    else:
        (pads,) = operands
        sizes = [int(node.attr("block_size", 1))] * 2
    return function(g, x, sizes, known(pads, "paddings or crops").reshape(-1, 2).tolist())


@handler("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def _unique(node: Node, g: Operators, x: Value, *axis: Value) -> list[Value]:
    dtype = dtype_of(node, "out_idx", "int32")
    axes = ints(axis[0], "the axis") if axis else []
    values, places, counts = gathering.unique(g, x, axes[0] if axes else None)
    return [values, cast(g, places, dtype), cast(g, counts, dtype)][: len(node.outputs)]


@handler("ListDiff")
def _list_diff(node: Node, g: Operators, x: Value, y: Value) -> list[Value]:
    same = g("Equal", [g("Unsqueeze", [x, vector(g, [1])]), y])
    found = g("ReduceMax", [cast(g, same, INT32), vector(g, [1])], keepdims=0)
    places = g("Squeeze", [g("NonZero", [g("Not", [cast(g, found, ir.dtype.BOOL8)])]), vector(g, [0])])
    return [g("Gather", [x, places], axis=0), cast(g, places, dtype_of(node, "out_idx", "int32"))]
