"""Negative indices."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("Gather", "GatherElements", "ScatterElements", "ScatterNd")
def _indices(w: Writer, op: Op, source: Tensor) -> bool:
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
