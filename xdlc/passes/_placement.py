"""Whether HTP would rather have an operation in fixed point or on reals."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.ir.dtype import SFIXED8
from xdlc.opdefs import verify_op

# By the number of parameter ``operation``.  HTP's table of types lists signed ones for them, its
# library (SDK 2.51, SM8650) refuses them.
_UNSIGNED_ONLY = {
    "ElementWiseBinary": frozenset((16,)),  # Power
    "ElementWiseNeuron": frozenset((2,)),  # HardSigmoid
    "ElementWiseUnary": frozenset(
        (2, 3, 4, 5, 6, 8, 11, 13, 14)
    ),  # Atan Ceil Cos Exp Floor Neg Round Sign Sin
}


def suits_fixed_point(fixed: Op, real: Op) -> bool:
    """Return whether HTP takes an op on fixed-point tensors at least as well as the one on reals.

    Args:
        fixed: The op with fixed-point operands and results; need not be part of a graph.
        real: The same op on reals.
    """
    if fixed.param("operation") in _UNSIGNED_ONLY.get(fixed.type, ()) and any(
        tensor is not None and tensor.dtype is SFIXED8 for tensor in fixed.inputs
    ):
        return False
    return len(verify_op(fixed, backend="htp")) <= len(verify_op(real, backend="htp"))
