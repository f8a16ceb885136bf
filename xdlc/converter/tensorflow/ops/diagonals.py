"""Handlers of diagonals and bands of matrices."""

from __future__ import annotations

from xdlc.converter.nhwc.diagonals import band_part, diagonals_of, matrix_diagonals, set_diagonals
from xdlc.converter.nhwc.shapes import (
    ints,
    known,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value


def _band(value: Value) -> tuple[int, int]:
    given = ints(value, "the diagonals")
    return given[0], given[-1]


@handler("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_3(
    node: Node, g: Operators, x: Value, band: Value, rows: Value, columns: Value, fill: Value
) -> Value:
    count, width = (ints(value, "the number of rows or columns")[0] for value in (rows, columns))
    return matrix_diagonals(g, x, _band(band), rows=count, columns=width, fill=fill, align=_align(node))


@handler("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag(node: Node, g: Operators, x: Value, diagonals: Value, *band: Value) -> Value:
    return set_diagonals(g, x, diagonals, _band(band[0]) if band else (0, 0), _align(node))


@handler("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part(node: Node, g: Operators, x: Value, *rest: Value) -> Value:
    if not rest:
        return diagonals_of(g, x)
    return diagonals_of(g, x, _band(rest[0]), fill=rest[1], align=_align(node))


def _align(node: Node) -> str:
    if not node.type.endswith("V3"):
        return "LEFT_LEFT"
    return str(node.attr("align", "RIGHT_LEFT"))


@handler("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(node: Node, g: Operators, x: Value, lower: Value, upper: Value) -> Value:
    sides = [int(known(value, "a width of the band").reshape(())) for value in (lower, upper)]
    return band_part(g, x, *sides)
