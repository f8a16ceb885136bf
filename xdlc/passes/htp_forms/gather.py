"""Known indices of several axes, and of batches."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
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
    """Write the number of the batch into known indices."""
    index, axes = op.inputs[1], int(op.param("batch_dims", 0))
    if not axes or index is None or index.data is None:
        return False
    places = index.numpy()
    numbers = numpy.indices(places.shape[:-1])[:axes]
    whole = numpy.concatenate([*(number[..., None] for number in numbers), places], -1)
    inputs = [source, w.like(index, whole.astype(places.dtype))]
    params = {**op.params, "batch_dims": ir.u32(0)}
    w.graph.replace_op(op, Op(op.type, inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True
