"""Shape functions of matrix products."""

from __future__ import annotations

import math

from xdlc.ir import Op
from xdlc.opdefs.args import operand
from xdlc.opdefs.shapes.base import Dims, ShapeError, broadcast_shape, mismatch, shape


@shape("MatMul")
def matmul(op: Op) -> list[Dims]:
    """Return rows of one operand by columns of the other, for each of the matrices."""
    first, second = operand(op, 0), operand(op, 1)
    if min(first.rank, second.rank) < 2:
        raise ShapeError("it multiplies a vector")
    rows, inner = first.shape[-2:][:: -1 if op.param("transpose_in0", False) else 1]
    depth, columns = second.shape[-2:][:: -1 if op.param("transpose_in1", False) else 1]
    if inner != depth:
        raise ShapeError(mismatch([first, second]))
    return [(*broadcast_shape([first, second], last=2), rows, columns)]


@shape("FullyConnected")
def fully_connected(op: Op) -> list[Dims]:
    """Return one row of units for each row of the weights' columns."""
    source, weight = operand(op, 0), operand(op, 1)
    units, width = weight.shape
    taken = row_axes(source.shape, width)
    if taken is None:
        raise ShapeError(f"it requires {width} elements a row, but its input is {list(source.shape)}")
    rows, held = source.shape[:-taken], op.outputs[0].shape
    if op.outputs[0].rank == 2:
        return [(math.prod(rows), units)]
    keeps = held[-1:] == (units,) and math.prod(held) == math.prod(rows) * units
    return [held if keeps else (*rows, units)]


def row_axes(shape: tuple[int, ...], width: int) -> int | None:
    """Return how many of the last axes make up a row of ``width`` elements, or None."""
    return next((n for n in range(1, len(shape) + 1) if math.prod(shape[-n:]) == width), None)
