"""Softplus."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import ABS, ADD, DIVIDE, EXP, GREATER, MAXIMUM, MULTIPLY, SOFTPLUS
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_FAR = 10.0
"""Softplus of larger numbers is the number in float16."""
_SERIES = (2.0, 0.66667764, 0.39823071, 0.3269395)
"""Factors of s, s^3, s^5, s^7 in log((1 + s) / (1 - s)), within 7e-7 up to 1/3 (at Chebyshev nodes)."""


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
    factor = number(_SERIES[-1] / beta)
    for term in _SERIES[-2::-1]:
        factor = w.binary(ADD, w.binary(MULTIPLY, square, factor), number(term / beta))
    bent = w.binary(ADD, w.binary(MAXIMUM, source, number(0.0)), w.binary(MULTIPLY, s, factor))
    if threshold < _FAR:
        bent = w.select(w.binary(GREATER, source, number(threshold / beta), BOOL8), source, bent)
    w.finish(bent)
    return True
