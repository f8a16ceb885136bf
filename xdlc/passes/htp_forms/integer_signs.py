"""Negatives and signs of integers."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, NEG, SIGN, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("ElementWiseUnary", reason=MISSING)
def _integers(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract from 0, or clip at -1 and 1."""
    operation = op.param("operation")
    if operation not in (NEG, SIGN) or not source.dtype.is_integer:
        return False
    if operation == NEG:
        w.finish(w.binary(SUBTRACT, w.number(0, source.dtype), source))
    else:
        least = w.binary(MINIMUM, source, w.number(1, source.dtype))
        signed = source.dtype.is_signed
        w.finish(w.binary(MAXIMUM, least, w.number(-1, source.dtype)) if signed else least)
    return True
