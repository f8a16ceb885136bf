"""Handlers of element-wise arithmetic of two tensors or numbers, with PyTorch's promotion of types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, term, wide_term
from xdlc.converter.pytorch.ops.elementwise import NUMBERS, as_bits, signed, truncated
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32


def _arithmetic(type: str, logical: str) -> Callable[[Term, Term], Term]:
    """Return an operator of numbers that is a logical one of bools."""
    return lambda x, y: x(logical if x.value.dtype is BOOL8 else type, y)


def _floor_divide(x: Term, y: Term) -> Term:
    """Return the quotient of what the remainder leaves, exact where x / y rounds up to an integer."""
    if not x.value.dtype.is_float:
        return x.via(nhwc.floor_div, y)
    rest = x("Mod", y, fmod=1)
    turned = rest.differs(0) & ((y < 0) ^ (rest < 0))
    share = (x - rest) / y
    return y.same(0).where(x / y, turned.where(share - 1, share)("Round"))


def _hypot(x: Term, y: Term) -> Term:
    x, y = abs(x), abs(y)
    most, least = x.most(y), x.least(y)
    ratio = least / most.same(0).where(1, most)
    root = most * (ratio * ratio + 1)("Sqrt")
    return (x.is_infinite() | y.is_infinite()).where(math.inf, root)


def logaddexp(x: Term, y: Term, base: float = math.e) -> Term:
    """Return the logarithm of the sum of two powers of a base."""
    same = x.same(y)
    gap = same.where(0, abs(x - y)) * -math.log(base)
    return x.most(y) + gap("Exp").log1p() * (1 / math.log(base))


def _either(type: str) -> Callable[[Term, Term], Term]:
    """Return an operator of two elements that yields the other one where one is no number."""
    return lambda x, y: x.is_nan().where(y, y.is_nan().where(x, x(type, y)))


def _nextafter(x: Term, y: Term) -> Term:
    """Step in the bits, which count up with the size of a number."""
    bits = as_bits(x)
    bits = ((y > x) ^ (x < 0)).where(bits + 1, bits - 1)
    least = (y > 0).where(bits.of(1), int(np.iinfo(np.int32).min) + 1)
    near = x.same(0).where(least, bits)("BitCast", to=NUMBERS[FLOAT32])
    near = x.same(y).where(y, near)
    return (x.is_nan() | y.is_nan()).where(math.nan, near)


def _atan2(y: Term, x: Term) -> Term:
    tall, wide = abs(y), abs(x)
    ratio = tall.same(wide).where(tall.same(0).where(tall, 1), tall / wide)
    ratio = (tall.is_infinite() & wide.is_infinite()).where(1, ratio)
    angle = ratio("Atan")
    return signed(x.is_negative().where(math.pi - angle, angle), y)


_BINARY: dict[str, Callable[[Term, Term], Term]] = {
    "arctan2": _atan2, "atan2": _atan2,
    "copysign": lambda x, y: signed(abs(x), y),
    "floor_divide": _floor_divide,
    "fmax": _either("Max"), "fmin": _either("Min"),
    "fmod": lambda x, y: x.via(nhwc.truncate_mod, y),
    "hypot": _hypot,
    "ldexp": lambda x, y: x * 2.0**y,
    "logaddexp": logaddexp,
    "logaddexp2": lambda x, y: logaddexp(x, y, 2.0),
    "maximum": _arithmetic("Max", "Or"),
    "minimum": _arithmetic("Min", "And"),
    "mul": _arithmetic("Mul", "And"), "multiply": _arithmetic("Mul", "And"),
    "nextafter": _nextafter,
    "remainder": lambda x, y: x.via(nhwc.floor_mod, y),
    "true_divide": lambda x, y: x / y,
}  # fmt: skip
"""Operators of two tensors or numbers: what their results are made of."""
_OTHERS = ("max.other", "min.other")
_WIDE = ("arctan2", "atan2", "ldexp", "logaddexp", "logaddexp2")
"""Operators with numbers that 16 bits do not hold."""


@aten(*_BINARY, *_OTHERS, layout=ANY)
def _binary(node: AtenNode, g: Operators, self: Value | float, other: Value | float) -> Value:
    name = {"max.other": "maximum", "min.other": "minimum"}.get(node.type, operator(node))
    form = wide_term if name in _WIDE else term
    return _BINARY[name](form(node, g, self), form(node, g, other)).value


@aten("heaviside", layout=ANY)
def _heaviside(node: AtenNode, g: Operators, self: Value, values: Value) -> Value:
    x = term(node, g, self)
    x = x.to(INT32) if node.dtype is BOOL8 else x
    return x.same(0).where(term(node, g, values), (x > 0).to(node.dtype)).value


@aten("add", "sub", "subtract", "_add_relu", layout=ANY)
def _sum(node: AtenNode, g: Operators, self: Value, other: Value | float, alpha: float) -> Value:
    x, y = term(node, g, self), term(node, g, other)
    if node.dtype is BOOL8:
        return (x | y if alpha else x).value
    y = y if alpha == 1 else y * alpha
    total = x - y if operator(node).startswith("sub") else x + y
    return (total("Relu") if operator(node) == "_add_relu" else total).value


@aten("rsub", layout=ANY)
def _rsub(node: AtenNode, g: Operators, self: Value, other: Value | float, alpha: float) -> Value:
    x, y = term(node, g, self), term(node, g, other)
    return (y - (x if alpha == 1 else x * alpha)).value


@aten("div", "divide", layout=ANY)
def _div(
    node: AtenNode,
    g: Operators,
    self: Value | float,
    other: Value | float,
    rounding_mode: str | None = None,
) -> Value:
    x, y = term(node, g, self), term(node, g, other)
    if rounding_mode is None:
        return (x / y).value
    if rounding_mode == "floor":
        return _floor_divide(x, y).value
    quotient = x / y
    return (truncated(quotient) if node.dtype.is_float else quotient).value


@aten("pow", "float_power", layout=ANY)
def _pow(node: AtenNode, g: Operators, self: Value | float, exponent: Value | float) -> Value:
    x, power = term(node, g, self), exponent
    if isinstance(power, Value) and power.is_static and not power.rank:
        power = power.numpy().item()
    if not isinstance(power, Value) and power in _POWERS and isinstance(self, Value):
        return _POWERS[power](x).value
    if node.dtype.is_float or not node.dtype.is_signed:
        return (x ** term(node, g, power)).value
    if not isinstance(power, Value):
        return _whole_power(x, int(power)).value
    y = term(node, g, power)
    sign = x.same(-1).where(1 - y("Mod", 2) * 2, 0)
    return (y < 0).where(x.same(1).where(1, sign), x ** y.most(0)).value


def _whole_power(x: Term, power: int) -> Term:
    """Return an integer to a known power by squares, which wrap around as in PyTorch."""
    if power < 0:
        raise UnsupportedOp("an integer to a negative power", fix="convert it to a float before")
    found, square = None, x
    while power:
        if power & 1:
            found = square if found is None else found * square
        power >>= 1
        square = square * square if power else square
    return x * 0 + 1 if found is None else found


_POWERS: dict[float, Callable[[Term], Term]] = {
    -2: lambda x: 1.0 / (x * x),
    -1: lambda x: x("Reciprocal"),
    -0.5: lambda x: x.via(nhwc.rsqrt),
    0.5: lambda x: x("Sqrt"),
    1: lambda x: x("Identity"),
    2: lambda x: x * x,
    3: lambda x: x * x * x,
}
"""Powers that are products and roots."""


@aten("addcmul", "addcdiv", layout=ANY)
def _add_product(
    node: AtenNode, g: Operators, self: Value, tensor1: Value, tensor2: Value, value: float
) -> Value:
    x, y, z = (term(node, g, one) for one in (self, tensor1, tensor2))
    more = y / z if operator(node) == "addcdiv" else y * z
    return (x + (more if value == 1 else more * value)).value


@aten("lerp", layout=ANY)
def _lerp(node: AtenNode, g: Operators, self: Value, end: Value, weight: Value | float) -> Value:
    """Count from the nearer end, so that weights of 0 and 1 are exact."""
    x, y, share = (term(node, g, one) for one in (self, end, weight))
    first, last = x + share * (y - x), y - (y - x) * (1 - share)
    if isinstance(weight, Value):
        return (abs(share) < 0.5).where(first, last).value
    return (first if abs(weight) < 0.5 else last).value


@aten("clamp", "clip", "clamp_min", "clamp_max", layout=ANY)
def _clamp(
    node: AtenNode,
    g: Operators,
    self: Value,
    min: Value | float | None = None,
    max: Value | float | None = None,
) -> Value:
    """Map two known limits onto one operation, and one onto Maximum or Minimum, which infinity passes."""
    x = term(node, g, self)
    low = None if min == -math.inf else min
    high = None if max == math.inf else max
    if low == 0 and high is None and not isinstance(low, Value):
        return x("Relu").value
    if low is not None and high is not None and node.dtype.is_float:
        limits = (term(node, g, low), term(node, g, high))
        if all(limit.value.is_static for limit in limits):
            return x("Clip", *limits).value
    if low is not None:
        x = x.most(term(node, g, low))
    return (x if high is None else x.least(term(node, g, high))).value
