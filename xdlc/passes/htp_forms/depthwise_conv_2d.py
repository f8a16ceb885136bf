"""Depthwise convolutions."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("DepthWiseConv2d")
def _one_channel(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve one channel as a whole, which for each is the same."""
    if source.shape[-1] != 1 or not source.dtype.is_float:
        return False
    params = {**op.params, "group": ir.u32(1)}
    w.graph.replace_op(op, Op("Conv2d", op.inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True
