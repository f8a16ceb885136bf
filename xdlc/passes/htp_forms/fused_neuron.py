"""Tanh and Sigmoid after a product or a sum."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT16
from xdlc.opdefs.elementwise_enums import ADD, MAXIMUM, SIGMOID, TANH
from xdlc.opdefs.traits import traits
from xdlc.passes._match import is_binary
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseNeuron")
def _unfused(w: Writer, op: Op, source: Tensor) -> bool:
    """Keep Tanh and Sigmoid out of the product or sum before them, within which HTP rounds them to 9 bits."""
    if op.param("operation") not in (SIGMOID, TANH) or not source.dtype.is_float:
        return False
    if not is_fused(w, op, source):
        return False
    w.graph.set_inputs(op, [apart(w, source)])
    return True


def apart(w: Writer, x: Tensor) -> Tensor:
    """Return the largest of numbers and the lowest one, which is the numbers."""
    return w.binary(MAXIMUM, x, w.number(-FLOAT16.largest, x.dtype))


def is_fused(w: Writer, op: Op, x: Tensor) -> bool:
    """Return whether HTP computes an op together with the product or sum that its input comes from."""
    before = x.producer
    if before is None or w.graph.sole_consumer(x) is not op:
        return False
    first = before.inputs[0]
    if before.type in ("Reshape", "Transpose") and first is not None:
        return is_fused(w, before, first)
    is_sum = is_binary(before, ADD) and all(each is not None and each.data is None for each in before.inputs)
    return is_sum or traits(before).macs != ""
