"""Softplus of values far below 0."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import MAXIMUM, SOFTPLUS
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseNeuron")
def _softplus(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip inputs of Softplus where it is 0 in float16: HTP outputs anything a little below."""
    beta = op.param("beta", 1.0)
    if op.param("operation") != SOFTPLUS or not source.dtype.is_float or w.made(source) or not beta > 0:
        return False
    lowest = w.number(max(-20.0 / beta, -65504.0), source.dtype)
    w.graph.set_inputs(op, [w.binary(MAXIMUM, source, lowest)])
    return True
