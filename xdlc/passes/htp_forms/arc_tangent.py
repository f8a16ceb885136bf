"""Arc tangents of large numbers."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import ATAN
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_MOST = 16384.0
"""A number whose arc tangent is that of all greater ones in float16."""


@form("ElementWiseUnary")
def _clipped(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip numbers from about 32000 on."""
    if op.param("operation") != ATAN or not source.dtype.is_float or w.is_clipped(source):
        return False
    w.graph.set_inputs(op, [w.clip(source, -_MOST, _MOST)])
    return True
