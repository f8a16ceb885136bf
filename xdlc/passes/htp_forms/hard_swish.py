"""HardSwish of 8 bits after a product."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.opdefs.elementwise_enums import HARD_SWISH, MAXIMUM
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.fused_neuron import is_fused
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseNeuron")
def _unfused(w: Writer, op: Op, source: Tensor) -> bool:
    """Keep it out of a product whose range goes further below 0 than above: HTP overflows there."""
    encoding, (low, high) = source.encoding, UFIXED8.limits
    if op.param("operation") != HARD_SWISH or source.dtype is not UFIXED8 or not is_fused(w, op, source):
        return False
    if not isinstance(encoding, ir.ScaleOffset) or low + high + 2 * encoding.offset >= 0:
        return False
    lowest = w.like(source, numpy.full(1, low, UFIXED8.numpy))
    w.graph.set_inputs(op, [w.binary(MAXIMUM, source, lowest, encoding=encoding)])
    return True
