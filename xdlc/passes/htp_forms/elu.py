"""Elu of 16 bits."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs.elementwise_enums import ADD, ELU, MAXIMUM, MINIMUM, MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_LEAST, _MOST = 3e-6, 0.66
"""Steps of inputs between which no result overflows."""


@form("ElementWiseNeuron")
def _steps(w: Writer, op: Op, source: Tensor) -> bool:
    """Compute small steps by a polynomial, and of large steps the greater of x and -alpha.

    The polynomial is ``max(x, 0) + alpha * (t + t^2 / 2)``, t = min(x, 0).  Numbers of small steps are
    below 0.2, so that it is right to 0.005 of them.
    """
    result, encoding, alpha = op.outputs[0], source.encoding, float(op.param("alpha", 1.0))
    if op.param("operation") != ELU or source.dtype is not UFIXED16 or result.dtype is not UFIXED16:
        return False
    if not isinstance(encoding, ir.ScaleOffset) or _LEAST <= encoding.scale <= _MOST or not alpha > 0:
        return False

    def number(value: float, code: int, offset: int = 0) -> Tensor:
        tensor = w.like(source, numpy.full(1, code, UFIXED16.numpy))
        tensor.encoding = ir.ScaleOffset(value / (code + offset), offset)
        return tensor

    most = UFIXED16.limits[1]
    if encoding.scale > _MOST:
        w.finish(w.binary(MAXIMUM, source, number(-alpha, 0, -most), encoding=result.encoding))
        return True
    zero = w.like(source, numpy.full(1, w.zero_of(source), UFIXED16.numpy))
    low = w.binary(MINIMUM, source, zero, encoding=encoding)
    half = w.binary(MULTIPLY, low, number(alpha / 2, most), encoding=_times(encoding, alpha / 2))
    slope = w.binary(ADD, half, number(alpha, most), encoding=ir.ScaleOffset(2 * alpha / most, 0))
    bent = w.binary(MULTIPLY, low, slope, encoding=_times(encoding, alpha))
    positive = w.binary(MAXIMUM, source, zero, encoding=encoding)
    w.finish(w.binary(ADD, positive, bent, encoding=result.encoding))
    return True


def _times(encoding: ir.ScaleOffset, factor: float) -> ir.ScaleOffset:
    return ir.ScaleOffset(encoding.scale * factor, encoding.offset)
