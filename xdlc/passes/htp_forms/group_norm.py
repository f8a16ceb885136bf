"""Group and instance norms of sequences."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("GroupNorm")
@form("InstanceNorm", reason=MISSING)
def _planes(w: Writer, op: Op, source: Tensor) -> bool:
    """Norm sequences of a batch of several as planes of one row."""
    if source.rank != 3 or source.shape[0] == 1:
        return False
    batch, *rest = source.shape
    result, plane = op.outputs[0], w.reshape(source, (batch, 1, *rest))
    normed = w.emit(op.type, [plane, *op.inputs[1:]], plane.shape, op.params, result.dtype, result.encoding)
    w.finish(w.reshape(normed, result.shape))
    return True
