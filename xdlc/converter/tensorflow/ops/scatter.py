"""Handlers of scattered elements, segments and diagonals."""

from __future__ import annotations

import math

from xdlc.converter.nhwc import scatter
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import cast, dims, ints, known, number, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import real_input, real_inputs
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_UPDATES = {"Update": "none", "Add": "add", "Sub": "sub", "Max": "max", "Min": "min"}
_SEGMENTS = ("Sum", "Prod", "Max", "Min", "Mean")


@handler("ScatterNd", ignores=("bad_indices_policy",))
def _scatter_nd(node: Node, g: Operators) -> Value:
    indices, updates, shape = real_inputs(node)
    base = scatter.full(g, ints(shape, "the shape"), 0, updates.dtype)
    return scatter.scatter_nd(g, base, indices, updates, "none" if updates.dtype is BOOL8 else "add")


@handler(*(f"TensorScatter{name}" for name in _UPDATES), ignores=("bad_indices_policy",))
def _tensor_scatter(node: Node, g: Operators) -> Value:
    x, indices, updates = real_inputs(node)
    return scatter.scatter_nd(g, x, indices, updates, _UPDATES[node.type.removeprefix("TensorScatter")])


@handler("SparseToDense", ignores=("validate_indices",))
def _sparse_to_dense(node: Node, g: Operators) -> Value:
    indices, shape, values, fill = real_inputs(node)
    return scatter.sparse_to_dense(g, indices, ints(shape, "the shape"), values, fill)


@handler(*(f"UnsortedSegment{name}" for name in _SEGMENTS[:-1]), ignores=("Tnumsegments",))
def _unsorted_segments(node: Node, g: Operators) -> Value:
    x, ids, count = real_inputs(node)
    (number,) = ints(count, "the number of segments")
    return scatter.segments(g, x, ids, number, node.type.removeprefix("UnsortedSegment"))


@handler(
    *(f"Segment{name}{version}" for name in _SEGMENTS for version in ("", "V2")), ignores=("Tnumsegments",)
)
def _segments(node: Node, g: Operators) -> Value:
    x, ids, *count = real_inputs(node)
    number = ints(count[0], "the number of segments")[0] if count else scatter.segment_count(ids)
    reduction = node.type.removeprefix("Segment").removesuffix("V2")
    empty = {"Prod": 1.0, "Mean": 0.0}.get(reduction, 0.0)
    return scatter.segments(g, x, ids, number, reduction, empty=None if reduction == "Sum" else empty)


def _band(value: Value) -> tuple[int, int]:
    given = ints(value, "the diagonals")
    return given[0], given[-1]


@handler("MatrixDiag", "BatchMatrixDiag")
def _matrix_diag(node: Node, g: Operators) -> Value:
    return scatter.matrix_diagonals(g, real_input(node, 0))


@handler("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_3(node: Node, g: Operators) -> Value:
    x, band, rows, columns, fill = real_inputs(node)
    count, width = (ints(value, "the number of rows or columns")[0] for value in (rows, columns))
    return scatter.matrix_diagonals(
        g, x, _band(band), rows=count, columns=width, fill=fill, align=_align(node)
    )


@handler("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag(node: Node, g: Operators) -> Value:
    x, diagonals, *band = real_inputs(node)
    return scatter.set_diagonals(g, x, diagonals, _band(band[0]) if band else (0, 0), _align(node))


@handler("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part(node: Node, g: Operators) -> Value:
    x, *rest = real_inputs(node)
    if not rest:
        return scatter.diagonals_of(g, x)
    return scatter.diagonals_of(g, x, _band(rest[0]), fill=rest[1], align=_align(node))


def _align(node: Node) -> str:
    if not node.type.endswith("V3"):
        return "LEFT_LEFT"
    return str(node.attr("align", "RIGHT_LEFT"))


@handler("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(node: Node, g: Operators) -> Value:
    x, lower, upper = real_inputs(node)
    sides = [int(known(value, "a width of the band").reshape(())) for value in (lower, upper)]
    return scatter.band_part(g, x, *sides)


@handler("Diag")
def _diag(node: Node, g: Operators) -> Value:
    return scatter.tensor_diagonal(g, real_input(node, 0))


@handler("DiagPart")
def _diag_part(node: Node, g: Operators) -> Value:
    return scatter.tensor_diagonal_part(g, real_input(node, 0))


@handler("DenseBincount", "Bincount")
def _bincount(node: Node, g: Operators) -> Value:
    x, size, weights = real_inputs(node)
    (count,) = ints(size, "the number of bins")
    if x.rank > 1:
        raise node.problem("bins of more than one axis are not supported")
    elements = math.prod(dims(x))
    flat = reshape(g, x, (elements,))
    inside = g("And", [g("GreaterOrEqual", [flat, number(g, x, 0)]), g("Less", [flat, number(g, x, count)])])
    place = where(g, inside, flat, number(g, flat, -1))
    if weights.size and not node.attr("binary_output", False):
        shares = reshape(g, weights, (elements,))
    else:
        shares = scatter.full(g, (elements,), 1, weights.dtype)
    totals = scatter.segments(g, shares, place, count, "Sum")
    if node.attr("binary_output", False):
        totals = cast(g, g("Greater", [totals, number(g, totals, 0)]), totals.dtype)
    return totals
