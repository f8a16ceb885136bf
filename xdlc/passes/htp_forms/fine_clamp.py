"""Clamps of 16 bits to a far smaller range."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs.elementwise_enums import RELU, RELU_MIN_MAX
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_MOST = 2.0**13
"""Steps of a result that a step of the input may be."""


@form("ElementWiseNeuron")
def _twice(w: Writer, op: Op, source: Tensor) -> bool:
    """Clamp to steps between those of input and result before: HTP overflows below the range."""
    result, wide = op.outputs[0], source.encoding
    fine = result.encoding
    if op.param("operation") not in (RELU, RELU_MIN_MAX) or {source.dtype, result.dtype} != {UFIXED16}:
        return False
    if not isinstance(wide, ir.ScaleOffset) or not isinstance(fine, ir.ScaleOffset):
        return False
    if wide.scale <= _MOST * fine.scale:
        return False
    step = (wide.scale * fine.scale) ** 0.5
    between = ir.ScaleOffset(step, round(fine.offset * fine.scale / step) - 2)
    params = dict(op.params)
    if op.param("operation") == RELU_MIN_MAX:  # the bounds are between two of these steps
        params["min_value"] = ir.f32(op.param("min_value") - step)
        params["max_value"] = ir.f32(op.param("max_value") + step)
    clamped = w.emit(op.type, [source], source.shape, params, source.dtype, between)
    w.finish(w.emit(op.type, [clamped], result.shape, op.params, result.dtype, fine))
    return True
