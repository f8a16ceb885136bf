"""Comparisons with infinity."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL
from xdlc.passes._match import constant_number
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_LARGEST = 65504.0
_BY_LARGEST = {
    (EQUAL, math.inf): GREATER_EQUAL,
    (EQUAL, -math.inf): LESS_EQUAL,
    (LESS, math.inf): LESS,
    (NOT_EQUAL, math.inf): LESS,
    (NOT_EQUAL, -math.inf): GREATER,
}


@form("ElementWiseBinary")
def _largest(w: Writer, op: Op, source: Tensor) -> bool:
    """Compare with the largest float16, at which HTP saturates."""
    limit = constant_number(op.inputs[1])
    operation = _BY_LARGEST.get((op.param("operation"), 0.0 if limit is None else limit))
    if operation is None or limit is None or not source.dtype.is_float:
        return False
    w.graph.set_inputs(op, [source, w.number(math.copysign(_LARGEST, limit), source.dtype)])
    op.params["operation"] = ir.u32(operation)
    return True
