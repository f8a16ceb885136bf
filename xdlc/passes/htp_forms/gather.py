"""Known indices of several axes, and of batches."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("Gather")
def _flat(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather by known indices of one axis."""
    index, result, axis = op.inputs[1], op.outputs[0], int(op.param("axis", 0))
    if index is None or index.data is None or index.rank < 2:
        return False
    shape = (*source.shape[:axis], index.size, *source.shape[axis + 1 :])
    inputs = [source, w.reshape(index, (index.size,))]
    gathered = w.emit("Gather", inputs, shape, op.params, result.dtype, result.encoding)
    w.finish(w.reshape(gathered, result.shape))
    return True


@form("GatherNd")
def _batches(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather by known indices of batches from the axes that they count as one."""
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
