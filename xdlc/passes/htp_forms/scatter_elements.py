"""Scattered elements of other axes, of several encodings, or that are combined."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_NONE, _ADD, _MUL = 0, 1, 2
"""Reductions that ScatterNd of HTP has."""


@form("ScatterElements", reason=MISSING)
def _places(w: Writer, op: Op, source: Tensor) -> bool:
    """Scatter into one row, by places that are the index times a step plus known numbers."""
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
def _encodings(w: Writer, op: Op, source: Tensor) -> bool:
    """Bring operands to the encoding of the result: HTP copies their numbers as they are stored."""
    result, (index, updates) = op.outputs[0], op.inputs[1:3]
    if updates is None or op.param("reduction", _NONE) != _NONE:
        return False
    if source.encoding == result.encoding == updates.encoding:
        return False
    inputs = [_converted(w, source, result), index, _converted(w, updates, result)]
    w.finish(w.emit(op.type, inputs, result.shape, op.params, result.dtype, result.encoding))
    return True


def _converted(w: Writer, x: Tensor, like: Tensor) -> Tensor:
    if x.encoding == like.encoding:
        return x
    return w.emit("Convert", [x], x.shape, None, like.dtype, like.encoding)
