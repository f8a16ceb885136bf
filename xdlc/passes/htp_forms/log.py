"""Logarithms of 16 bits."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs.elementwise_enums import LOG
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_LEAST_STEP = 2.0**-14


@form("ElementWiseUnary")
def _coarser(w: Writer, op: Op, source: Tensor) -> bool:
    """Compute a Log in steps of 2^-14 where those of its result are smaller: HTP outputs zeros then."""
    result = op.outputs[0]
    encoding = result.encoding
    if (
        op.param("operation") != LOG
        or result.dtype is not UFIXED16
        or not isinstance(encoding, ir.ScaleOffset)
    ):
        return False
    if encoding.scale >= _LEAST_STEP:
        return False
    step = 1.01 * _LEAST_STEP
    coarse = ir.ScaleOffset(step, round(encoding.offset * encoding.scale / step))
    log = w.emit("ElementWiseUnary", [source], result.shape, op.params, result.dtype, coarse)
    w.finish(w.emit("Convert", [log], result.shape, {}, result.dtype, encoding))
    return True
