"""Powers of 0."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import EQUAL, POWER
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseBinary")
def _to_zero(w: Writer, op: Op, source: Tensor) -> bool:
    """Select 1 where the exponent is 0: HTP computes 0 of a base of 0."""
    exponent = op.inputs[1]
    if op.param("operation") != POWER or exponent is None or not source.dtype.is_float:
        return False
    result = op.outputs[0]
    if w.made(result) or (exponent.data is not None and exponent.numpy().all()):
        return False
    power = w.emit("ElementWiseBinary", [source, exponent], result.shape, op.params, result.dtype)
    is_zero = w.binary(EQUAL, exponent, w.number(0.0, exponent.dtype), BOOL8)
    w.finish(w.select(is_zero, w.number(1.0, result.dtype), power))
    return True
