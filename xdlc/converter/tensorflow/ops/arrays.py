"""Handlers of operators on shapes: reshapes, joins, slices, gathers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xdlc import ir
from xdlc.converter.functions import blocks, diagonals, gathering, scatter, shapes, slicing
from xdlc.converter.functions.shapes import (
    axis_of,
    cast,
    ints,
    known,
    positions,
    reshape,
    vector,
)
from xdlc.converter.functions.terms import Term
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
    "MatrixDiag": diagonals.matrix_diagonals,
    "Slice": slicing.sliced,
    "SparseToDense": scatter.sparse_to_dense,
    "Tile": shapes.tiled,
    "Transpose": shapes.transposed,
    "Where": gathering.places,
}


@handler(*_FORMULAS, ignores=("index_type", "validate_indices"))
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
    if bounds[2].is_static and not bounds[2].numpy():
        raise node.invalid("the step of a range is 0")
    return g("Range", bounds)


@handler("LinSpace")
def _linspace(node: Node, g: Operators, start: Value, stop: Value, count: Value) -> Value:
    steps = int(known(count, "the number of elements").reshape(()))
    check_table(steps)
    shares = g.builder.const((np.arange(steps) / max(steps - 1, 1)).astype(start.dtype.numpy))
    return (Term(g, start) + (Term(g, stop) - start) * shares).value


@handler("Concat", "ConcatV2")
def _concat(node: Node, g: Operators, *operands: Value) -> Value:
    values = list(operands)
    axis = values.pop(0 if node.type == "Concat" else -1)
    (place,) = ints(axis, "the axis")
    return g("Concat", values, axis=axis_of(place, values[0].rank)) if len(values) > 1 else values[0]


@handler("Split")
def _split(node: Node, g: Operators, axis: Value, x: Value) -> list[Value]:
    _check_count(node, "num_split", len(node.outputs))
    (place,) = ints(axis, "the axis")
    return gathering.split_evenly(g, x, len(node.outputs), place)


@handler("SplitV")
def _split_v(node: Node, g: Operators, x: Value, sizes: Value, axis: Value) -> list[Value]:
    _check_count(node, "num_split", len(node.outputs))
    (place,) = ints(axis, "the axis")
    return gathering.split(g, x, ints(sizes, "the sizes"), place)


def _check_count(node: Node, name: str, count: int) -> None:
    if node.attr(name, count) != count:
        raise node.invalid(f"{name} is {node.attr(name)}, but the op has {count} tensors")


@handler("Pack")
def _pack(node: Node, g: Operators, *values: Value) -> Value:
    _check_count(node, "N", len(values))
    return gathering.stack(g, values, node.attr("axis", 0))


@handler("Unpack")
def _unpack(node: Node, g: Operators, x: Value) -> list[Value]:
    _check_count(node, "num", len(node.outputs))
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
    if min(time, batch) < 0:
        raise node.invalid(f"axis {min(time, batch)} is not valid")
    return gathering.reverse_sequence(g, x, lengths, time=time, batch=batch)


@handler("Roll")
def _roll(node: Node, g: Operators, x: Value, shifts: Value, axes: Value) -> Value:
    return slicing.rolled(g, x, ints(shifts, "the shifts"), ints(axes, "the axes"))


def _check_indices(node: Node, indices: Value) -> None:
    if indices.is_static and (indices.numpy() < 0).any():
        raise node.invalid("an index must be 0 or more")


@handler("Gather", "GatherV2", "ResourceGather", ignores=("validate_indices", "dtype", "Tindices"))
def _gather(node: Node, g: Operators, x: Value, indices: Value, *axis: Value) -> Value:
    _check_indices(node, indices)
    batch = node.attr("batch_dims", 0)
    pairs = zip((x.dims or ())[: max(batch, 0)], indices.dims or (), strict=False)
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        raise node.invalid(
            f"{batch} batch axes do not fit {list(x.dims or ())} and {list(indices.dims or ())}"
        )
    return gathering.gather(g, x, indices, ints(axis[0], "the axis")[0] if axis else batch, batch)


@handler("GatherNd", ignores=("bad_indices_policy",))
def _gather_nd(node: Node, g: Operators, x: Value, indices: Value) -> Value:
    _check_indices(node, indices)
    return gathering.gather_nd(g, x, indices)


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
    counted = [cast(g, counts, dtype)] if "Counts" in node.type else []
    return [values, cast(g, places, dtype), *counted]


@handler("ListDiff")
def _list_diff(node: Node, g: Operators, x: Value, y: Value) -> list[Value]:
    same = g("Equal", [g("Unsqueeze", [x, [1]]), y])
    found = g("ReduceMax", [cast(g, same, INT32), [1]], keepdims=0)
    places = g("Squeeze", [g("NonZero", [g("Not", [cast(g, found, ir.dtype.BOOL8)])]), [0]])
    return [g("Gather", [x, places], axis=0), cast(g, places, dtype_of(node, "out_idx", "int32"))]


def _band(value: Value) -> tuple[int, int]:
    given = ints(value, "the diagonals")
    return given[0], given[-1]


@handler("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_3(
    node: Node, g: Operators, x: Value, band: Value, rows: Value, columns: Value, fill: Value
) -> Value:
    count, width = (ints(value, "the number of rows or columns")[0] for value in (rows, columns))
    return diagonals.matrix_diagonals(
        g, x, _band(band), rows=count, columns=width, fill=fill, align=_align(node)
    )


@handler("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag(node: Node, g: Operators, x: Value, values: Value, *band: Value) -> Value:
    return diagonals.set_diagonals(g, x, values, _band(band[0]) if band else (0, 0), _align(node))


@handler("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part(node: Node, g: Operators, x: Value, *rest: Value) -> Value:
    if not rest:
        return diagonals.diagonals_of(g, x)
    return diagonals.diagonals_of(g, x, _band(rest[0]), fill=rest[1], align=_align(node))


def _align(node: Node) -> str:
    if not node.type.endswith("V3"):
        return "LEFT_LEFT"
    return str(node.attr("align", "RIGHT_LEFT"))


@handler("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(node: Node, g: Operators, x: Value, lower: Value, upper: Value) -> Value:
    sides = [int(known(value, "a width of the band").reshape(())) for value in (lower, upper)]
    return diagonals.band_part(g, x, *sides)
