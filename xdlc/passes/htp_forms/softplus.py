"""Softplus."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import ABS, ADD, DIVIDE, EXP, GREATER, MAXIMUM, MULTIPLY, SOFTPLUS
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_FAR = 10.0
"""Softplus of larger numbers is the number in float16."""
_CUBIC, _QUINTIC = 0.66618, 0.43435
"""Factors of s^3 and s^5 in the series of log((1 + s) / (1 - s)), within 3e-5 up to 1/3."""


@form("ElementWiseNeuron")
def _softplus(w: Writer, op: Op, source: Tensor) -> bool:
    """Write max(x, 0) + log(1 + e) with e = exp(-|x|) out, the logarithm as a polynomial of e / (2 + e).

    HTP is up to 0.013 off, and outputs anything below -30.
    """
    beta, threshold = op.param("beta", 1.0), op.param("threshold", 20.0)
    if op.param("operation") != SOFTPLUS or not source.dtype.is_float or not beta > 0:
        return False

    def number(value: float) -> Tensor:
        return w.number(value, source.dtype)

    size = w.unary(ABS, source)
    e = w.unary(EXP, w.binary(MULTIPLY, size, number(-beta)))
    s = w.binary(DIVIDE, e, w.binary(ADD, e, number(2.0)))
    square = w.binary(MULTIPLY, s, s)
    factor = w.binary(ADD, w.binary(MULTIPLY, square, number(_QUINTIC / beta)), number(_CUBIC / beta))
    factor = w.binary(ADD, w.binary(MULTIPLY, square, factor), number(2.0 / beta))
    bent = w.binary(ADD, w.binary(MAXIMUM, source, number(0.0)), w.binary(MULTIPLY, s, factor))
    if threshold < _FAR:
        bent = w.select(w.binary(GREATER, source, number(threshold / beta), BOOL8), source, bent)
    w.finish(bent)
    return True
