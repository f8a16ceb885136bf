"""Whether HTP would rather have an operation in fixed point or on reals."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.ir.dtype import SFIXED8
from xdlc.opdefs import verify_op
from xdlc.opdefs.traits import traits


def suits_fixed_point(fixed: Op, real: Op) -> bool:
    """Return whether HTP takes an op on fixed-point tensors at least as well as the one on reals.

    Args:
        fixed: The op with fixed-point operands and results; need not be part of a graph.
        real: The same op on reals.
    """
    held = (tensor.dtype for tensor in fixed.inputs if tensor is not None)
    if traits(fixed).unsigned and SFIXED8 in held:
        return False
    return len(verify_op(fixed, backend="htp")) <= len(verify_op(real, backend="htp"))
