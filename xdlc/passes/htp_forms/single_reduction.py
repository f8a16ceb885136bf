"""Reductions of single elements."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
def _alone(w: Writer, op: Op, source: Tensor) -> bool:
    """Reshape where each result is one element: HTP outputs other numbers for some."""
    result = op.outputs[0]
    if source.size != result.size or source.dtype is not result.dtype:
        return False
    x = w.reshape(source, result.shape)
    if x.encoding != result.encoding:
        x = w.emit("Convert", [x], result.shape, {}, result.dtype, result.encoding)
    w.finish(x)
    return True
