"""RmsNorm of several axes of rows."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("RmsNorm")
def _rows(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold all axes but the last into one where rows are normed along the last."""
    axes, last = [int(axis) for axis in op.param("axes")], source.rank - 1
    if source.rank < 3 or axes != [last]:
        return False
    result = op.outputs[0]
    flat = w.reshape(source, (source.size // source.shape[-1], source.shape[-1]))
    params = {**op.params, "axes": ir.u32s([1])}
    rows = w.emit("RmsNorm", [flat, *op.inputs[1:]], flat.shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(rows, source.shape))
    return True
