"""Arc tangents and exponentials of large numbers."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import ATAN, EXP
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_LIMITS = {ATAN: (-16384.0, 16384.0), EXP: (-80.0, 88.0)}
"""Numbers whose results are in float16 those of all beyond them."""


@form("ElementWiseUnary")
def _clipped(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip numbers from about 32000 on, of exponentials from about 88 on."""
    limits = _LIMITS.get(op.param("operation"))
    if limits is None or not source.dtype.is_float or w.is_clipped(source):
        return False
    w.graph.set_inputs(op, [w.clip(source, *limits)])
    return True
