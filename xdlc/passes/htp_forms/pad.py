"""Paddings of volumes."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_CONSTANT = 0


@form("Pad", reason=MISSING)
def _axes(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad one axis after the other by the values of five axes or more."""
    if source.rank < 5 or op.param("scheme") == _CONSTANT or source.encoding != op.outputs[0].encoding:
        return False
    x = source
    for axis, pair in enumerate(op.param("pad_amount").astype(int).tolist()):
        if not any(pair):
            continue
        before, size, after = x.shape[:axis], x.shape[axis] + sum(pair), x.shape[axis + 1 :]
        rows, columns = math.prod(before), math.prod(after)
        params: dict[str, ir.Param] = {**op.params, "pad_amount": ir.u32s([[0, 0], pair, [0, 0]])}
        flat = w.reshape(x, (rows, x.shape[axis], columns))
        padded = w.emit("Pad", [flat], (rows, size, columns), params, x.dtype, x.encoding)
        x = w.reshape(padded, (*before, size, *after))
    w.finish(x)
    return True
