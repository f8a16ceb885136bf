"""Handlers of element-wise arithmetic with promotion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.functions import elementwise
from xdlc.converter.functions.shapes import dims, vector
from xdlc.converter.functions.terms import Number, Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import formula, formulas, operator, term
from xdlc.converter.pytorch.ops.elementwise import bits, signed, truncated
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import Computed
from xdlc.converter.session.ordering import ANY, SOURCE
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32


def _arithmetic(type: str, logical: str) -> Callable[[Term, Term], Term]:
    """Return a numeric operator that is a logical operator for bools."""
    return lambda x, y: x(logical if x.value.dtype is BOOL8 else type, y)


def _floor_divide(x: Term, y: Term) -> Term:
    """Return floor(x / y) computed from the remainder, exact where x / y rounds up."""
    if not x.value.dtype.is_float:
        return x.via(elementwise.floor_div, y)
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
    gap = x.same(y).where(0, abs(x - y)) * -math.log(base)
    return x.most(y) + gap("Exp").log1p() * (1 / math.log(base))


def _either(type: str) -> Callable[[Term, Term], Term]:
    """Return a binary operator that ignores a NaN operand."""
    return lambda x, y: x.is_nan().where(y, y.is_nan().where(x, x(type, y)))


def _nextafter(x: Term, y: Term) -> Term:
    """Step in the bits, which count up with the size of a number."""
    if x.value.dtype is not FLOAT32:
        raise UnsupportedOp(
            f"xdlc does not support nextafter of {x.value.dtype}", fix="convert to float32 first"
        )
    held = bits(x, INT32)
    held = ((y > x) ^ (x < 0)).where(held + 1, held - 1)
    least = (y > 0).where(held.of(1), int(np.iinfo(np.int32).min) + 1)
    near = x.same(y).where(y, bits(x.same(0).where(least, held), FLOAT32))
    return (x.is_nan() | y.is_nan()).where(math.nan, near)


def _atan2(y: Term, x: Term) -> Term:
    """Map to a quotient of the smaller by the larger side, because HTP lacks infinity."""
    tall, wide = abs(y), abs(x)
    is_steep = tall > wide
    least, most = is_steep.where(wide, tall), is_steep.where(tall, wide)
    ratio = least / most.same(0).where(1, most)
    angle = (tall.is_infinite() & wide.is_infinite()).where(1, ratio)("Atan")
    angle = is_steep.where(math.pi / 2 - angle, angle)
    return signed(x.is_negative().where(math.pi - angle, angle), y)


def _times_log(x: Term, y: Term, log: Term) -> Term:
    """Return x * log, and 0 where x is 0 unless the other operand is NaN."""
    return y.is_nan().where(y, x.same(0).where(0, x * log))


formulas({
    "copysign": lambda x, y: signed(abs(x), y),
    "floor_divide": _floor_divide,
    "fmax": _either("Max"), "fmin": _either("Min"),
    "fmod": lambda x, y: x.via(elementwise.truncate_mod, y),
    "hypot": _hypot,
    "maximum max.other": _arithmetic("Max", "Or"), "minimum min.other": _arithmetic("Min", "And"),
    "mul multiply": _arithmetic("Mul", "And"),
    "nextafter": _nextafter,
    "remainder": lambda x, y: x.via(elementwise.floor_mod, y),
    "true_divide": lambda x, y: x / y,
}, "self", "other")  # fmt: skip
formulas({
    "arctan2 atan2": _atan2,
    "ldexp": lambda x, y: x * 2.0**y,
    "logaddexp": lambda x, y: logaddexp(x, y),
    "logaddexp2": lambda x, y: logaddexp(x, y, 2.0),
    "xlogy special_xlogy": lambda x, y: _times_log(x, y, y("Log")),
    "special_xlog1py": lambda x, y: _times_log(x, y, y.log1p()),
}, "self", "other", wide=True)  # fmt: skip


def _scaled(other: Term, alpha: float) -> Term:
    return other if alpha == 1 else other * alpha


def _add(self: Term, other: Term, alpha: float) -> Term:
    if self.value.dtype is BOOL8:
        return self | other if alpha else self
    return self + _scaled(other, alpha)


def _sub(self: Term, other: Term, alpha: float) -> Term:
    return self - _scaled(other, alpha)


def _lerp(self: Term, end: Term, weight: Term | float) -> Term:
    """Interpolate from the nearer end, so that weights 0 and 1 are exact."""
    first, last = self + (end - self) * weight, end - (end - self) * (1 - weight)
    if isinstance(weight, Term):
        return (abs(weight) < 0.5).where(first, last)
    return first if abs(weight) < 0.5 else last


formulas({
    "add": _add,
    "_add_relu": lambda self, other, alpha: (self + other * alpha)("Relu"),
    "addcdiv": lambda self, tensor1, tensor2, value: self + _scaled(tensor1 / tensor2, value),
    "addcmul": lambda self, tensor1, tensor2, value: self + _scaled(tensor1 * tensor2, value),
    "heaviside": lambda self, values: (
        self.same(0).where(values, (self.ordered() > 0).to(self.value.dtype))
    ),
    "lerp": lambda self, end, weight: _lerp(self, end, weight),
    "rsub": lambda self, other, alpha: other - _scaled(self, alpha),
    "sub subtract": _sub,
})  # fmt: skip


@formula("div", "divide")
def _div(self: Term, other: Term, rounding_mode: str | None = None) -> Term:
    if rounding_mode == "floor":
        return _floor_divide(self, other)
    return self / other if rounding_mode is None else truncated(self / other)


@aten("pow", "float_power", layout=ANY)
def _pow(node: AtenNode, g: Operators, self: Number, exponent: Number) -> Value:
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
        raise UnsupportedOp(
            "xdlc does not support negative powers of integers", fix="convert the base to float"
        )
    if power < 2:
        return x if power else x * 0 + 1
    half = _whole_power(x, power // 2)
    return half * half * x if power % 2 else half * half


_POWERS: dict[float, Callable[[Term], Term]] = {
    -2: lambda x: 1.0 / (x * x),
    -1: lambda x: x("Reciprocal"),
    -0.5: lambda x: x.via(elementwise.rsqrt),
    0.5: lambda x: x("Sqrt"),
    1: lambda x: x("Identity"),
    2: lambda x: x * x,
    3: lambda x: x * x * x,
}
"""Powers that are products and roots."""


@formula("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(self: Term, min: Term | None = None, max: Term | None = None) -> Term:
    """Map two static limits onto one op, a single one onto Maximum or Minimum.

    These pass infinity.
    """
    low, high = (
        None if _known(limit) == none else limit for limit, none in ((min, -math.inf), (max, math.inf))
    )
    if low is not None and high is None and _known(low) == 0:
        return self("Relu")
    is_known = all(
        limit is not None and limit.value.is_static and limit.value.size == 1 for limit in (low, high)
    )
    if low is not None and high is not None and is_known and self.value.dtype.is_float:
        return self("Clip", low, high)
    x = self if low is None else self.most(low)
    return x if high is None else x.least(high)


def _known(limit: Term | None) -> float | None:
    """Return a limit that is a constant number, else None."""
    is_one = limit is not None and limit.value.is_static and not limit.value.rank
    return limit.value.numpy().item() if limit is not None and is_one else None


_MOST_DIVISIONS = {8: 13, 16: 24, 32: 47, 64: 93}
"""Most divisions of Euclid's algorithm by the width of integers: two Fibonacci numbers take them all."""


@formula("gcd", "lcm", layout=SOURCE)
def _gcd(node: AtenNode, self: Term, other: Term) -> Term:
    """Return gcd or lcm by a fixed number of divisions; a remainder of 0 keeps a pair."""
    g, shape = self.g, np.broadcast_shapes(dims(self.value), dims(other.value))
    ends = vector(g, shape)
    x, y = (each if dims(each.value) == shape else each("Expand", ends) for each in (self, other))

    def divide(values: Sequence[object]) -> list[Value]:
        _, _, dividend, divisor = values
        assert isinstance(dividend, Value)
        assert isinstance(divisor, Value)
        a, b = Term(g, dividend), Term(g, divisor)
        is_done = b.same(0)
        results = [is_done.where(a, b), is_done.where(0, a("Mod", is_done.where(1, b), fmod=1))]
        return [g.builder.const(np.asarray(True)), *(result.value for result in results)]

    body = Computed(["index", "flag", "state0", "state1"], ["go_on", "state0_next", "state1_next"], divide)
    count = g.builder.const(np.asarray(_MOST_DIVISIONS[node.dtype.bits], np.int64))
    divisor = abs(Term(g, g.apply("Loop", [count, None, x.value, y.value], {"body": body}, 2)[0]))
    if operator(node) == "gcd":
        return divisor
    share = x / divisor.same(0).where(1, divisor)
    if node.dtype.bits < 32:  # whose product wraps around when it is stored
        share, y = share.to(INT32), y.to(INT32)
    return abs(share * y)
