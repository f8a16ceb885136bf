"""Gathers, scatters and their indices."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS, MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form

_SHORT, _FEWEST = (8, 16, 32), 32
"""Bytes of rows, and the least number of indices, for which HTP gathers differently."""
_MANY = 256
_NONE, _ADD, _MUL = 0, 1, 2
"""Reductions that ScatterNd of HTP has."""


@form("Gather")
def _indices_of_several_axes(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather by indices flattened to one axis."""
    index, result, axis = op.inputs[1], op.outputs[0], int(op.param("axis", 0))
    if index is None or index.rank < 2 or not _is_counted(w, index):
        return False
    shape = (*source.shape[:axis], index.size, *source.shape[axis + 1 :])
    inputs = [source, w.reshape(index, (index.size,))]
    gathered = w.emit("Gather", inputs, shape, op.params, result.dtype, result.encoding)
    w.finish(w.reshape(gathered, result.shape))
    return True


@form("Gather")
def _short_rows(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather short rows by GatherNd.

    HTP's Gather misses the last row, and rows of all batches but the first.

    A single row is repeated: GatherNd is wrong there.
    """
    index, result, axis = op.inputs[1], op.outputs[0], int(op.param("axis", 0))
    batches, count, size = (
        math.prod(source.shape[:axis]),
        source.shape[axis],
        math.prod(source.shape[axis + 1 :]),
    )
    if index is None or index.size < _FEWEST or not _is_short(source, size) or not _is_counted(w, index):
        return False
    if batches * count == 1:
        w.finish(w.reshape(w.expand(w.reshape(source, (1, size)), (index.size, size)), result.shape))
        return True
    starts = numpy.arange(batches).reshape(-1, 1) * count
    if index.data is not None:
        places = index.numpy().reshape(1, -1) % count
        if batches == 1 and (places < count - 1).all():
            return False
        rows = w.constant((starts + places).astype(INT32.numpy).reshape(-1, 1))
    else:
        rows = w.reshape(w.cast(index, INT32), (1, index.size))
        rows = w.binary(ADD, rows, w.constant(starts.astype(INT32.numpy)))
        rows = w.reshape(rows, (batches * index.size, 1))
    inputs = [w.reshape(source, (batches * count, size)), rows]
    params: dict[str, ir.Param] = {"batch_dims": ir.u32(0)}
    gathered = w.emit("GatherNd", inputs, (rows.size, size), params, result.dtype, result.encoding)
    w.finish(w.reshape(gathered, result.shape))
    return True


@form("Gather")
def _odd_rows_of_bytes(w: Writer, op: Op, source: Tensor) -> bool:
    """Append an axis of 1 to an odd last axis of bytes.

    HTP shifts every second row of many gathered ones.
    """
    index, result, axis = op.inputs[1], op.outputs[0], int(op.param("axis", 0))
    count = source.shape[axis]
    if index is None or index.size < _MANY or axis != source.rank - 1 or count % 2 == 0:
        return False
    if not _is_counted(w, index):
        return False
    if not source.dtype.is_fixed or source.dtype.bits != 8 or source.size == count:
        return False
    column = w.reshape(source, (source.size // count, count, 1))
    shape, params = (column.shape[0], index.size, 1), {"axis": ir.i32(1)}
    inputs = [column, w.reshape(index, (index.size,))]
    gathered = w.emit("Gather", inputs, shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(gathered, result.shape))
    return True


def _is_counted(w: Writer, index: Tensor) -> bool:
    """Return whether computed indices are known not to be negative."""
    return index.data is not None or not index.dtype.is_signed or w.is_selected(index)


def _is_short(source: Tensor, size: int) -> bool:
    """Return whether rows have a size for which HTP gathers wrongly.

    HTP stores integers in 8 or 32 bits.
    """
    widths = (source.dtype.bits // 8,) if source.dtype.is_fixed else (1, 4)
    return not source.dtype.is_float and any(size * width in _SHORT for width in widths)


@form("GatherNd")
def _batch_indices(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather by known indices with the batch axes merged."""
    index, axes, result = op.inputs[1], int(op.param("batch_dims", 0)), op.outputs[0]
    if not axes or index is None or index.data is None:
        return False
    places = index.numpy().astype(INT32.numpy)
    numbers = numpy.indices(places.shape[:-1])[:axes]
    whole = [*numbers, *numpy.moveaxis(places, -1, 0)]
    sizes, inner = source.shape[: len(whole)], source.shape[len(whole) :]
    lines = numpy.ravel_multi_index([each % size for each, size in zip(whole, sizes, strict=True)], sizes)
    inputs = [w.reshape(source, (math.prod(sizes), *inner)), w.constant(lines.ravel().astype(INT32.numpy))]
    params: dict[str, ir.Param] = {"axis": ir.i32(0)}
    gathered = w.emit("Gather", inputs, (lines.size, *inner), params, result.dtype, result.encoding)
    w.finish(w.reshape(gathered, result.shape))
    return True


@form("Gather", "GatherElements", "ScatterElements", "ScatterNd")
def _negative_indices(w: Writer, op: Op, source: Tensor) -> bool:
    """Count negative indices from the start."""
    index = op.inputs[1]
    if index is None or not index.dtype.is_signed or w.is_selected(index):
        return False
    sizes = numpy.array(source.shape, numpy.int32)
    sizes = sizes[: index.shape[-1]] if op.type == "ScatterNd" else sizes[[int(op.param("axis", 0))]]
    if index.data is not None:
        numbers = index.numpy()
        if (numbers >= 0).all():
            return False
        index = w.constant(numpy.where(numbers < 0, numbers + sizes, numbers).astype(numpy.int32))
    else:
        index = w.cast(index, INT32)
        is_negative = w.binary(LESS, index, w.number(0, INT32), BOOL8)
        index = w.select(is_negative, w.binary(ADD, index, w.constant(sizes)), index)
    w.graph.set_inputs(op, [source, index, *op.inputs[2:]])
    return True


@form("ScatterElements", reason=MISSING)
def _one_row(w: Writer, op: Op, source: Tensor) -> bool:
    """Scatter into the flattened tensor by ScatterNd.

    Places are the index times a step plus known numbers.
    """
    index, updates = op.inputs[1:3]
    axis, reduction = int(op.param("axis", 0)), int(op.param("reduction", 0))
    if index is None or updates is None or not (axis or reduction) or reduction not in (_NONE, _ADD, _MUL):
        return False
    result = op.outputs[0]
    steps = numpy.append(numpy.cumprod(source.shape[:0:-1])[::-1], 1).astype(INT32.numpy)
    others = [numpy.arange(dim) if at != axis else numpy.zeros(dim) for at, dim in enumerate(index.shape)]
    fixed = sum(grid * step for grid, step in zip(numpy.meshgrid(*others, indexing="ij"), steps, strict=True))
    fixed = numpy.asarray(fixed, INT32.numpy)
    if index.data is not None:
        places = w.constant((index.numpy() * steps[axis] + fixed).astype(INT32.numpy).reshape(-1, 1))
    else:
        step = w.number(steps[axis], INT32)
        places = w.binary(ADD, w.binary(MULTIPLY, w.cast(index, INT32), step), w.constant(fixed))
        places = w.reshape(places, (index.size, 1))
    inputs = [w.reshape(source, (source.size,)), places, w.reshape(updates, (index.size,))]
    params: dict[str, ir.Param] = {"reduction": ir.u32(reduction)}
    row = w.emit("ScatterNd", inputs, (source.size,), params, result.dtype, result.encoding)
    w.finish(w.reshape(row, source.shape))
    return True


@form("ScatterElements", "ScatterNd")
def _several_encodings(w: Writer, op: Op, source: Tensor) -> bool:
    """Convert operands to the encoding of the result.

    HTP copies their numbers as they are stored.
    """
    result, (index, updates) = op.outputs[0], op.inputs[1:3]
    if updates is None or op.param("reduction", _NONE) != _NONE:
        return False
    if source.encoding == result.encoding == updates.encoding:
        return False
    inputs = [w.convert(x, result.dtype, result.encoding) for x in (source, updates)]
    w.finish(w.again([inputs[0], index, inputs[1]]))
    return True
