"""Operands that are broadcast."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import POWER
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseBinary")
def _base(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast the base of a power of fixed point first."""
    shape = op.outputs[0].shape
    if op.param("operation") != POWER or not source.dtype.is_fixed or source.shape == shape:
        return False
    w.graph.set_inputs(op, [w.expand(source, shape), *op.inputs[1:]])
    return True


@form("ElementWiseSelect")
def _operands(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast conditions and operands of rank 5 first; a single number stays one for a whole condition."""
    shape = op.outputs[0].shape
    if len(shape) < 5:
        return False
    is_whole = source.shape == shape
    inputs = [x if x is None or (is_whole and x.size == 1) else w.expand(x, shape) for x in op.inputs]
    if inputs == list(op.inputs):
        return False
    w.graph.set_inputs(op, inputs)
    return True
