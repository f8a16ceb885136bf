"""Activations: Elu, clamps, HardSwish, Tanh and Sigmoid."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT16, UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import (
    ADD,
    ELU,
    HARD_SWISH,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    SIGMOID,
    SUBTRACT,
    TANH,
)
from xdlc.opdefs.traits import traits
from xdlc.passes._match import is_binary
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import form

_ELU_LEAST, _ELU_MOST = 3e-6, 0.66
"""Steps of inputs between which no result overflows."""
_CLAMP_MOST = 2.0**13
"""Steps of a result that a step of the input may be."""


@form("ElementWiseNeuron")
def _elu(w: Writer, op: Op, source: Tensor) -> bool:
    """Write Elu as a polynomial for small steps, as a maximum for large steps.

    The polynomial is ``max(x, 0) + alpha * (t + t^2 / 2)``, t = min(x, 0).  Numbers of small steps are
    below 0.2, so that it is right to 0.005 of them.
    """
    result, encoding, alpha = op.outputs[0], source.encoding, float(op.param("alpha", 1.0))
    if op.param("operation") != ELU or source.dtype is not UFIXED16 or result.dtype is not UFIXED16:
        return False
    if not isinstance(encoding, ir.ScaleOffset) or _ELU_LEAST <= encoding.scale <= _ELU_MOST or not alpha > 0:
        return False

    def number(value: float, code: int, offset: int = 0) -> Tensor:
        tensor = w.like(source, numpy.full(1, code, UFIXED16.numpy))
        tensor.encoding = ir.ScaleOffset(value / (code + offset), offset)
        return tensor

    most = UFIXED16.limits[1]
    if encoding.scale > _ELU_MOST:
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


@form("ElementWiseNeuron")
def _fine_clamp(w: Writer, op: Op, source: Tensor) -> bool:
    """Clamp in two stages, as HTP overflows below a far smaller range.

    The first clamp has steps between those of input and result.
    """
    result, wide = op.outputs[0], source.encoding
    fine = result.encoding
    if op.param("operation") not in (RELU, RELU_MIN_MAX) or {source.dtype, result.dtype} != {UFIXED16}:
        return False
    if not isinstance(wide, ir.ScaleOffset) or not isinstance(fine, ir.ScaleOffset):
        return False
    if wide.scale <= _CLAMP_MOST * fine.scale:
        return False
    step = (wide.scale * fine.scale) ** 0.5
    between = ir.ScaleOffset(step, round(fine.offset * fine.scale / step) - 2)
    params = dict(op.params)
    if op.param("operation") == RELU_MIN_MAX:  # the bounds are between two of these steps
        params["min_value"] = ir.f32(op.param("min_value") - step)
        params["max_value"] = ir.f32(op.param("max_value") + step)
    clamped = w.emit(op.type, [source], source.shape, params, source.dtype, between)
    w.finish(w.again([clamped]))
    return True


@form("ElementWiseNeuron")
def _clamp_after_binary(w: Writer, op: Op, source: Tensor) -> bool:
    """Convert a sum, difference or product of 16 bits to the range of its clamp.

    HTP joins the clamp with the op before it and applies the range of the result alone (v68 to v81).
    """
    result, before = op.outputs[0], source.producer
    if op.param("operation") != RELU_MIN_MAX or {source.dtype, result.dtype} != {UFIXED16}:
        return False
    if before is None or not any(is_binary(before, operation) for operation in (ADD, SUBTRACT, MULTIPLY)):
        return False
    low, high = min(float(op.param("min_value")), 0.0), max(float(op.param("max_value")), 0.0)
    step = (high - low) / UFIXED16.limits[1]
    if not step > 0 or not all(_exceeds(tensor, low - step, high + step) for tensor in (source, result)):
        return False
    within = ir.ScaleOffset(step, round(low / step))
    w.graph.set_inputs(op, [w.convert(source, source.dtype, within)])
    return True


def _exceeds(x: Tensor, low: float, high: float) -> bool:
    """Return whether a fixed-point tensor has values outside of two bounds."""
    encoding, codes = x.encoding, x.dtype.limits
    if not isinstance(encoding, ir.ScaleOffset):
        return False
    least, most = ((code + encoding.offset) * encoding.scale for code in codes)
    return least < low or high < most


@form("ElementWiseNeuron")
def _fused_neuron(w: Writer, op: Op, source: Tensor) -> bool:
    """Separate Tanh and Sigmoid from the product or sum before them.

    HTP rounds them to 9 bits within it.
    """
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
    """Return whether HTP fuses an op into the product or sum of its input."""
    before = x.producer
    if before is None or w.graph.sole_consumer(x) is not op:
        return False
    first = before.inputs[0]
    if before.type in ("Reshape", "Transpose") and first is not None:
        return is_fused(w, before, first)
    is_sum = is_binary(before, ADD) and all(each is not None and each.data is None for each in before.inputs)
    return is_sum or traits(before).macs != ""


@form("ElementWiseNeuron")
def _fused_hard_swish(w: Writer, op: Op, source: Tensor) -> bool:
    """Separate an 8-bit HardSwish from a product of mostly negative range.

    HTP overflows there.
    """
    encoding, (low, high) = source.encoding, UFIXED8.limits
    if op.param("operation") != HARD_SWISH or source.dtype is not UFIXED8 or not is_fused(w, op, source):
        return False
    if not isinstance(encoding, ir.ScaleOffset) or low + high + 2 * encoding.offset >= 0:
        return False
    lowest = w.like(source, numpy.full(1, low, UFIXED8.numpy))
    w.graph.set_inputs(op, [w.binary(MAXIMUM, source, lowest, encoding=encoding)])
    return True
