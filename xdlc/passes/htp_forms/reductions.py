"""Reductions and cumulative sums."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32, UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form


@form("ReduceProd", reason=MISSING)
def _product(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply the halves of each axis until one element is left."""
    result, x = op.outputs[0], source
    if source.dtype.is_fixed or not source.size:
        return False
    for axis in map(int, op.param("axes")):
        while (size := x.shape[axis]) > 1:
            half = size // 2
            product = w.binary(MULTIPLY, w.sliced(x, axis, 0, half), w.sliced(x, axis, half, 2 * half))
            x = w.joined([product, w.sliced(x, axis, size - 1, size)], axis) if size % 2 else product
    w.finish(w.reshape(x, result.shape))
    return True


@form("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def _single_elements(w: Writer, op: Op, source: Tensor) -> bool:
    """Reshape if each result is one element, which HTP does not always return."""
    result = op.outputs[0]
    if source.size != result.size or source.dtype is not result.dtype:
        return False
    x = w.reshape(source, result.shape)
    x = w.convert(x, result.dtype, result.encoding)
    w.finish(x)
    return True


@form("ReduceMax", "ReduceMin", "ReduceSum")
def _axes_of_one(w: Writer, op: Op, source: Tensor) -> bool:
    """Reduce fixed point only along axes with several elements.

    HTP outputs 0 now and then with axes of one.
    """
    axes = [int(axis) for axis in op.param("axes").reshape(-1)]
    longer = [axis for axis in axes if source.shape[axis] > 1]
    if not source.dtype.is_fixed or longer == axes or not longer:
        return False
    shape = [1 if axis in longer else size for axis, size in enumerate(source.shape)]
    x = w.again([source], shape, axes=ir.u32s(longer), keep_dims=ir.b8(True))
    w.finish(w.reshape(x, op.outputs[0].shape))
    return True


_PER_STEP = 256
"""Steps of 16 bits in one of 8 bits."""
_MOST_AXES, _MOST_BEHIND = 4, 32


@form("CumulativeSum", reason=MISSING)
def _three_axes(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold the axes before and after that of the sum."""
    axis = int(op.param("axis"))
    if source.rank <= _MOST_AXES:
        return False
    shape = (math.prod(source.shape[:axis]), source.shape[axis], math.prod(source.shape[axis + 1 :]))
    x = w.again([w.reshape(source, shape)], shape, axis=ir.u32(1))
    w.finish(w.reshape(x, op.outputs[0].shape))
    return True


@form("CumulativeSum")
def _wider(w: Writer, op: Op, source: Tensor) -> bool:
    """Add in 16 bits.

    HTP's sums of 8 bits are rounded at each element, and miss the zero point.
    """
    result = op.outputs[0]
    encoding = result.encoding
    if source.dtype is not UFIXED8 or result.dtype is not UFIXED8 or not isinstance(encoding, ir.ScaleOffset):
        return False
    x = w.convert(source, UFIXED16, source.encoding)
    fine = ir.ScaleOffset(encoding.scale / _PER_STEP, encoding.offset * _PER_STEP)
    total = w.emit("CumulativeSum", [x], result.shape, op.params, UFIXED16, fine)
    w.finish(w.convert(total, UFIXED8, encoding))
    return True


@form("CumulativeSum")
def _last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Sum integers along the last axis if the axis has a stride above 32."""
    axis = int(op.param("axis"))
    if not source.dtype.is_integer or math.prod(source.shape[axis + 1 :]) <= _MOST_BEHIND:
        return False
    axes = [*(at for at in range(source.rank) if at != axis), axis]
    x = w.transposed(source, axes)
    x = w.again([x], x.shape, axis=ir.u32(source.rank - 1))
    w.finish(w.transposed(x, numpy.argsort(axes).tolist()))
    return True


@form("CumulativeSum", reason=MISSING)
def _plain(w: Writer, op: Op, source: Tensor) -> bool:
    """Write exclusive and reverse sums with plain cumulative sums.

    A 0 shifts the elements of an exclusive sum; those of a reverse one are turned around.
    """
    exclusive, reverse = (bool(op.param(name, False)) for name in ("exclusive", "reverse"))
    if not (exclusive or reverse) or w.zero_of(source) is None:
        return False
    axis, result = int(op.param("axis")), op.outputs[0]
    size = source.shape[axis]

    def turned(x: Tensor) -> Tensor:
        if not reverse:
            return x
        backwards = w.constant(numpy.arange(size - 1, -1, -1, dtype=INT32.numpy))
        return w.emit("Gather", [x, backwards], x.shape, {"axis": ir.i32(axis)}, x.dtype, x.encoding)

    x = turned(source)
    if exclusive:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        zero = w.like(x, numpy.full(shape, w.zero_of(x), x.dtype.numpy))
        x = w.joined([zero, w.sliced(x, axis, 0, size - 1)], axis) if size > 1 else zero
    params: dict[str, ir.Param] = {"axis": ir.u32(axis)}
    w.finish(turned(w.emit("CumulativeSum", [x], x.shape, params, result.dtype, result.encoding)))
    return True
