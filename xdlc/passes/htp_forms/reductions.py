"""Reductions."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
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
    if x.encoding != result.encoding:
        x = w.emit("Convert", [x], result.shape, {}, result.dtype, result.encoding)
    w.finish(x)
    return True


@form("ReduceMax", "ReduceMin", "ReduceSum")
def _axes_of_one(w: Writer, op: Op, source: Tensor) -> bool:
    """Reduce fixed point only along axes with several elements.

    HTP outputs 0 now and then with axes of one.
    """
    axes, result = [int(axis) for axis in op.param("axes").reshape(-1)], op.outputs[0]
    longer = [axis for axis in axes if source.shape[axis] > 1]
    if not source.dtype.is_fixed or longer == axes or not longer:
        return False
    shape = [1 if axis in longer else size for axis, size in enumerate(source.shape)]
    params = {**op.params, "axes": ir.u32s(longer), "keep_dims": ir.b8(True)}
    w.finish(w.reshape(w.emit(op.type, [source], shape, params, result.dtype, result.encoding), result.shape))
    return True
