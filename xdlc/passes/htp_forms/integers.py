"""Casts to integers of 64 bits; negatives and signs of integers."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32, INT64
from xdlc.opdefs.elementwise_enums import ADD, MAXIMUM, MINIMUM, NEG, SIGN, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("Cast")
def _cast_to_64_bits(w: Writer, op: Op, source: Tensor) -> bool:
    """Cast to 32 bits first, then add 0.

    HTP merges both Casts into one that rounds without the sum.
    """
    if op.outputs[0].dtype is not INT64 or not _is_from_floats(source):
        return False
    short = w.cast(source, INT32)
    w.finish(w.cast(w.binary(ADD, short, w.number(0, INT32)), INT64))
    return True


def _is_from_floats(x: Tensor) -> bool:
    """Return whether floats become a tensor by casts and Reshapes."""
    while not x.dtype.is_float:
        before = x.producer
        if before is None or before.type not in ("Cast", "Reshape") or before.inputs[0] is None:
            return False
        x = before.inputs[0]
    return True


@form("ElementWiseUnary", reason=MISSING)
def _negatives_and_signs(w: Writer, op: Op, source: Tensor) -> bool:
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
