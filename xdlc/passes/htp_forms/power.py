"""Powers of 0, and odd ones of numbers below 0."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, UFIXED16
from xdlc.opdefs.elementwise_enums import EQUAL, MULTIPLY, POWER
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_NEAR = 1e-4
"""By how much a quantized exponent may miss its integer."""


@form("ElementWiseBinary")
def _to_zero(w: Writer, op: Op, source: Tensor) -> bool:
    """Select 1 where the exponent is 0: HTP computes 0 of a base of 0."""
    exponent = op.inputs[1]
    if op.param("operation") != POWER or exponent is None or not source.dtype.is_float:
        return False
    result = op.outputs[0]
    if w.made(result) or (exponent.data is not None and exponent.numpy().all()):
        return False
    power = w.emit("ElementWiseBinary", [source, exponent], result.shape, op.params, result.dtype)
    is_zero = w.binary(EQUAL, exponent, w.number(0.0, exponent.dtype), BOOL8)
    w.finish(w.select(is_zero, w.number(1.0, result.dtype), power))
    return True


@form("ElementWiseBinary")
def _odd(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply 16 bits by their even power where they reach further below 0 than above: HTP cuts that off."""
    exponent, result, encoding = op.inputs[1], op.outputs[0], source.encoding
    if op.param("operation") != POWER or {source.dtype, result.dtype} != {UFIXED16} or exponent is None:
        return False
    steps = exponent.encoding
    if exponent.data is None or exponent.size != 1 or not isinstance(steps, ir.ScaleOffset):
        return False
    stated = float((int(exponent.numpy().item()) + steps.offset) * steps.scale)
    even, most = round(stated) - 1, UFIXED16.limits[1]
    if abs(stated - even - 1) > _NEAR or even % 2 or even < 2 or not isinstance(encoding, ir.ScaleOffset):
        return False
    if most + 2 * encoding.offset >= 0 or result.shape != source.shape:
        return False
    name = w.graph.unique_name(f"{op.name}_even")
    code = numpy.full(exponent.shape, most, UFIXED16.numpy)
    by = w.graph.add_tensor(ir.static(name, code, UFIXED16, ir.ScaleOffset(even / most, 0)))
    whole = ir.ScaleOffset((-encoding.offset * encoding.scale) ** even / most, 0)
    power = w.emit(op.type, [source, by], source.shape, op.params, UFIXED16, whole)
    w.finish(w.binary(MULTIPLY, source, power, encoding=result.encoding))
    return True
