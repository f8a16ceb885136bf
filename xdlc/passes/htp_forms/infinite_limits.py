"""Comparisons with infinity."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT16
from xdlc.opdefs.elementwise_enums import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL
from xdlc.passes._match import constant_number
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_BY_LARGEST = {
    (EQUAL, math.inf): GREATER_EQUAL,
    (EQUAL, -math.inf): LESS_EQUAL,
    (GREATER, -math.inf): GREATER,
    (GREATER_EQUAL, math.inf): GREATER_EQUAL,
    (LESS, math.inf): LESS,
    (LESS_EQUAL, -math.inf): LESS_EQUAL,
    (NOT_EQUAL, math.inf): LESS,
    (NOT_EQUAL, -math.inf): GREATER,
}
_TURNED = {
    EQUAL: EQUAL,
    GREATER: LESS,
    GREATER_EQUAL: LESS_EQUAL,
    LESS: GREATER,
    LESS_EQUAL: GREATER_EQUAL,
    NOT_EQUAL: NOT_EQUAL,
}


@form("ElementWiseBinary")
def _largest(w: Writer, op: Op, source: Tensor) -> bool:
    """Compare with the largest float16, at which HTP saturates; a limit on the left goes to the right."""
    operation, limit = int(op.param("operation")), constant_number(op.inputs[1])
    if operation in _TURNED and source.data is not None and op.inputs[1] is not None:
        operation, limit, source = _TURNED[operation], constant_number(source), op.inputs[1]
    saturated = _BY_LARGEST.get((operation, 0.0 if limit is None else limit))
    if saturated is None or limit is None or not source.dtype.is_float:
        return False
    w.graph.set_inputs(op, [source, w.number(math.copysign(FLOAT16.largest, limit), source.dtype)])
    op.params["operation"] = ir.u32(saturated)
    return True
