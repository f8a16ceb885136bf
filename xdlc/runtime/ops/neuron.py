"""Activation functions: ElementWiseNeuron, Prelu and others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import NEURON as OPERATIONS
from xdlc.runtime import htp_fusion
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

Function = Callable[[Op, Builder, Tensor, str], str]

_ONE = (1 << 15) - 1
"""The largest number without integer bits."""
_INTEGER_BITS = {"Sigmoid": range(3, 4), "Tanh": range(7)}
"""Integer bits of the operands that LiteRT has kernels for."""


def _plain(type: str) -> Function:
    return lambda op, b, source, x: b.node(type, [x])


def _relu(op: Op, b: Builder, source: Tensor, x: str) -> str:
    if source.dtype.is_integer:  # onnxruntime's Relu knows few integers
        return b.node("Max", [x, b.like(source, 0)])
    return b.node("Relu", [x])


def _elu(op: Op, b: Builder, source: Tensor, x: str) -> str:
    return b.node("Elu", [x], alpha=float(op.param("alpha", 1.0)))


def _hard_sigmoid(op: Op, b: Builder, source: Tensor, x: str) -> str:
    return b.node("HardSigmoid", [x], alpha=float(op.param("alpha", 0.2)), beta=float(op.param("beta", 0.5)))


def _relu_min_max(op: Op, b: Builder, source: Tensor, x: str) -> str:
    low, high = op.param("min_value"), op.param("max_value")
    return _clip(b, source, x, low, high)


def _clip(b: Builder, source: Tensor, x: str, low: float | None, high: float | None) -> str:
    inputs = [x, "" if low is None else b.like(source, low), "" if high is None else b.like(source, high)]
    return b.node("Clip", inputs)


def _softplus(op: Op, b: Builder, source: Tensor, x: str) -> str:
    beta, threshold = float(op.param("beta", 1.0)), float(op.param("threshold", -1.0))
    factor = b.like(source, beta)
    scaled = x if beta == 1.0 else b.node("Mul", [x, factor])
    value = b.node("Softplus", [scaled])
    if beta != 1.0:
        value = b.node("Div", [value, factor])
    if threshold > 0:  # the identity above it
        value = b.node("Where", [b.node("Greater", [scaled, b.like(source, threshold)]), x, value])
    return value


FUNCTIONS: dict[str, Function] = {
    "Elu": _elu,
    "Gelu": _plain("Gelu"),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain("HardSwish"),
    "Relu": _relu,
    "Relu1": lambda op, b, source, x: _clip(b, source, x, -1, 1),
    "Relu6": lambda op, b, source, x: _clip(b, source, x, 0, 6),
    "ReluMinMax": _relu_min_max,
    "Sigmoid": _plain("Sigmoid"),
    "Softplus": _softplus,
    "Tanh": _plain("Tanh"),
}


def _lower(op: Op, b: Builder, function: str) -> None:
    source = args.operand(op, 0)
    target = args.result(op)
    if _lower_fixed_point(b, source, target, function):
        return
    order = b.orders(source)[0] if b.orders(source) else None
    alike = source.encoding == target.encoding
    rounded = alike or not htp_fusion.with_producer(source, function)
    # Of two roundings to one encoding only the last is in the way of an integer kernel.
    rounded = rounded and not (alike and b.adjusted is not None)
    value = b.read(source, order, rounded=rounded)
    b.write(target, FUNCTIONS[function](op, b, source, value), order)


@lowering("ElementWiseNeuron")
def neuron(op: Op, b: Builder) -> None:
    """Lower the function that parameter ``operation`` names."""
    _lower(op, b, args.operation(op, OPERATIONS))


@lowering(*(name for name in FUNCTIONS if name != "Softplus"), "ElementWiseSoftplus")
def named(op: Op, b: Builder) -> None:
    """Lower a function that has an op type of its own."""
    _lower(op, b, op.type.removeprefix("ElementWise"))


@lowering("Prelu")
def prelu(op: Op, b: Builder) -> None:
    """Lower to PRelu; the slope broadcasts against the input's last axes."""
    source, slope = args.operand(op, 0), args.operand(op, 1)
    orders = b.orders(source)
    rounded = not htp_fusion.with_producer(source, "Prelu")
    if (
        orders
        and slope.is_static
        and slope.size in (1, source.shape[-1])
        and slope.shape[-1:] == (slope.size,)
    ):
        order = orders[0]
        along = [slope.size if axis == source.rank - 1 else 1 for axis in order]
        value = b.node("PRelu", [b.read(source, order, rounded=rounded), b.reshape(b.read(slope), along)])
        b.write(args.result(op), value, order)
        return
    b.write(args.result(op), b.node("PRelu", [b.read(source, rounded=rounded), b.read(slope)]))


def _lower_fixed_point(b: Builder, source: Tensor, target: Tensor, function: str) -> bool:
    """Lower a function in fixed point if possible; return whether it was."""
    bits = _integer_bits(source, target, function) if b.stated and not b.native else None
    if bits is None:
        return False
    value, order = b.read_stored(source)
    index = b.cast(value, "int32")
    b.write_stored(target, b.node("Gather", [b.constant(table(function, bits)), index]), order)
    return True


def _integer_bits(source: Tensor, target: Tensor, function: str) -> int | None:
    kinds = [source.encoding, target.encoding]
    if function not in _INTEGER_BITS or source.dtype is not UFIXED16 or target.dtype is not UFIXED16:
        return None
    if not all(isinstance(kind, ScaleOffset) and kind.offset == -(1 << 15) for kind in kinds):
        return None
    scale, result = (kind.scale for kind in kinds if isinstance(kind, ScaleOffset))
    mantissa, exponent = math.frexp(scale)
    bits = exponent - 1 + 15
    return bits if mantissa == 0.5 and bits in _INTEGER_BITS[function] and result == 2.0**-15 else None


@functools.cache
def table(function: str, bits: int) -> Array:
    """Return the results for all unsigned 16-bit integers, whose zero is 32768.

    They are 16-bit Sigmoid and Tanh in the fixed-point arithmetic of gemmlowp.  LiteRT's integer LSTM uses
    it, and so do its LOGISTIC from steps of 2^-12 and its TANH from 2^-12 and 2^-11.  The results are up to
    12 steps of 2^-15 off the functions, which a cell with a memory adds up.

    Numbers of m integer bits are steps of 2^(m - 15):

        exp(x), x in [-1/4, 0):  e^(-1/8) (1 + t + t^2/2 + t^3/6 + t^4/24),  t = x + 1/8
        exp(x), x below:         that of the last quarter, times e^(-2^k) for each bit k of the rest, k >= -2
        1 / d, d in [1/2, 1]:    three steps of Newton from 48/17 - 32/17 d, with 2 integer bits
        sigmoid(x)               = 1 / (1 + exp(-|x|)), for x < 0 its complement
        tanh(x)                  = (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)), with the sign of x
    """
    x = np.arange(-(1 << 15), 1 << 15)
    if function == "Sigmoid":
        half = _sum_half(_exp(-abs(x), bits))
        upper = _shifted(_reciprocal(half), 1)
        entries = np.where(x == 0, 1 << 14, np.where(x > 0, upper, _ONE - upper))
    else:
        half = _sum_half(_exp(-abs(x), bits + 1))
        entries = np.sign(x) * _shifted(_reciprocal(half) - (1 << 13), 2)
    return (entries + (1 << 15)).astype(np.uint16)


def _product(x: Array, y: Array) -> Array:
    """Return x * y, halves rounded up."""
    return (x * y + (1 << 14)) >> 15


def _shifted(x: Array, bits: int) -> Array:
    """Return x * 2^bits, saturated to 16 bits, halves rounded away from zero."""
    if bits < 0:
        return np.sign(x) * ((abs(x) + (1 << (-bits - 1))) >> -bits)
    return np.clip(x << bits, -_ONE - 1, _ONE)


def _exp(x: Array, bits: int) -> Array:
    """Return e^x without integer bits for numbers of ``bits`` integer bits up to 0."""
    quarter = 1 << (13 - bits)
    last = (x & (quarter - 1)) - quarter
    t = (last << bits) + (1 << 12)
    square = _product(t, t)
    fourth = _shifted(_product(square, square), -2)
    rest = _shifted(_product(fourth + _product(square, t), np.int64(round(2**15 / 3))) + square, -1)
    start = np.int64(round(2**15 * math.exp(-1 / 8)))
    powers = start + _product(start, t + rest)
    below = last - x
    for power in range(-2, bits):
        factor = np.int64(round(2**15 * math.exp(-(2.0**power))))
        powers = np.where(below >> (15 - bits + power) & 1, _product(powers, factor), powers)
    if bits > 5:
        powers = np.where(x < -(32 << (15 - bits)), 0, powers)
    return np.where(x == 0, _ONE, powers)


def _sum_half(x: Array) -> Array:
    """Return (1 + x) / 2."""
    return (x + _ONE + 1) >> 1


def _reciprocal(x: Array) -> Array:
    """Return 1 / x with 2 integer bits."""
    estimate = np.int64(round(48 / 17 * 2**13)) + _product(x, np.int64(-round(32 / 17 * 2**13)))
    for _ in range(3):
        estimate = estimate + _shifted(_product(estimate, (1 << 13) - _product(x, estimate)), 2)
    return estimate
