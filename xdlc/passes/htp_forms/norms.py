"""Normalizations and LogSoftmax."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT16, UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._writing import Writer, widened
from xdlc.passes.avoid_faults import MISSING, form

_BLOCK = 64
_BELOW = 12.0
"""Distance of an entry below all others at which it adds less than a 16-bit step."""


@form("Batchnorm")
def _two_columns(w: Writer, op: Op, source: Tensor) -> bool:
    """Normalize a row of two columns and one channel as two rows.

    HTP adds no bias to the second column.
    """
    shape = source.shape
    if not source.dtype.is_fixed or shape[-2:] != (2, 1) or shape[1:-2] not in ((), (1,)):
        return False
    rows = w.reshape(source, (shape[0], 2, 1, 1))
    w.finish(w.reshape(w.again([rows, *op.inputs[1:]], rows.shape), shape))
    return True


@form("GroupNorm")
@form("InstanceNorm", reason=MISSING)
def _sequences(w: Writer, op: Op, source: Tensor) -> bool:
    """Norm sequences of a batch of several as planes of one row."""
    if source.rank != 3 or source.shape[0] == 1:
        return False
    batch, *rest = source.shape
    plane = w.reshape(source, (batch, 1, *rest))
    w.finish(w.reshape(w.again([plane, *op.inputs[1:]], plane.shape), source.shape))
    return True


@form("LogSoftmax")
def _log_softmax(w: Writer, op: Op, source: Tensor) -> bool:
    """Append an entry without influence on the sum, and slice its result off.

    HTP omits the last entry of an axis of one more than a multiple of 64.
    """
    axis, result = int(op.param("axis", source.rank - 1)), op.outputs[0]
    size, beta = source.shape[axis], float(op.param("beta", 1.0))
    if size % _BLOCK != 1 or not beta > 0:
        return False
    kind, encoding, lowest = result.dtype, result.encoding, -FLOAT16.largest
    if source.dtype.is_fixed:
        if not isinstance(source.encoding, ir.ScaleOffset) or not isinstance(encoding, ir.ScaleOffset):
            return False
        if not {source.dtype, kind} <= {UFIXED8, UFIXED16}:
            return False
        source, lowest = _lowered(w, source, source.encoding, _BELOW / beta), 0.0
        if kind is not UFIXED16:
            kind, encoding = UFIXED16, widened(result)
    shape = [1 if at == axis else dim for at, dim in enumerate(source.shape)]
    entry = w.like(source, numpy.full(shape, lowest, source.dtype.numpy))
    longer = w.joined([source, entry], axis)
    logs = w.sliced(w.emit(op.type, [longer], longer.shape, op.params, kind, encoding), axis, 0, size)
    w.finish(w.convert(logs, result.dtype, result.encoding))
    return True


def _lowered(w: Writer, x: Tensor, encoding: ir.ScaleOffset, below: float) -> Tensor:
    """Return numbers less 1 in 16 bits, whose range begins ``below`` under the least.

    Without the 1, which no result shows, HTP joins in 8 bits and converts afterwards.
    """
    most = UFIXED16.limits[1]
    lowest = encoding.scale * encoding.offset - below - 1
    span = encoding.scale * (x.dtype.limits[1] + encoding.offset) - lowest
    joined = ir.ScaleOffset(span / most, round(lowest / span * most))
    if x.dtype is not UFIXED16:
        x = w.convert(x, UFIXED16, widened(x))
    one = w.like(x, numpy.zeros(1, UFIXED16.numpy))
    one.encoding = ir.ScaleOffset(1 / most, -most)
    return w.binary(ADD, x, one, encoding=joined)


@form("RmsNorm")
def _rms_norm_of_rows(w: Writer, op: Op, source: Tensor) -> bool:
    """Merge all axes but the last, along which rows are normalized."""
    axes, last = [int(axis) for axis in op.param("axes")], source.rank - 1
    if source.rank < 3 or axes != [last]:
        return False
    flat = w.reshape(source, (source.size // source.shape[-1], source.shape[-1]))
    rows = w.again([flat, *op.inputs[1:]], flat.shape, axes=ir.u32s([1]))
    w.finish(w.reshape(rows, source.shape))
    return True
