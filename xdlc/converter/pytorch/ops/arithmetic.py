"""Handlers of element-wise arithmetic, comparisons and logic, with promotion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import (
    Number,
    Term,
    constant,
    formula,
    formulas,
    operator,
    term,
    together,
)
from xdlc.converter.pytorch.ops.elementwise import bits, signed, truncated
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import Computed
from xdlc.converter.session.ordering import ANY, SOURCE
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64


def _arithmetic(type: str, logical: str) -> Callable[[Term, Term], Term]:
    """Return a numeric operator that is a logical operator for bools."""
    return lambda x, y: x(logical if x.value.dtype is BOOL8 else type, y)


def _floor_divide(x: Term, y: Term) -> Term:
    """Return floor(x / y) computed from the remainder, exact where x / y rounds up."""
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
    gap = x.same(y).where(0, abs(x - y)) * -math.log(base)
    return x.most(y) + gap("Exp").log1p() * (1 / math.log(base))


def _either(type: str) -> Callable[[Term, Term], Term]:
    """Return a binary operator that ignores a NaN operand."""
    return lambda x, y: x.is_nan().where(y, y.is_nan().where(x, x(type, y)))


def _nextafter(x: Term, y: Term) -> Term:
    """Step in the bits, which count up with the size of a number."""
    if x.value.dtype is not FLOAT32:
        raise UnsupportedOp(f"nextafter of {x.value.dtype} is not supported", fix="convert to float32 first")
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
    "fmod": lambda x, y: x.via(nhwc.truncate_mod, y),
    "hypot": _hypot,
    "maximum max.other": _arithmetic("Max", "Or"), "minimum min.other": _arithmetic("Min", "And"),
    "mul multiply": _arithmetic("Mul", "And"),
    "nextafter": _nextafter,
    "remainder": lambda x, y: x.via(nhwc.floor_mod, y),
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
        raise UnsupportedOp("negative integer powers are not supported", fix="convert the base to float")
    if power < 2:
        return x if power else x * 0 + 1
    half = _whole_power(x, power // 2)
    return half * half * x if power % 2 else half * half


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
    """Divide a fixed number of times; keep a pair once its remainder is 0."""
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


_COMPARISONS: dict[str, Callable[[Term, Term], Term]] = {
    "eq": Term.same, "ne": Term.differs, "not_equal": Term.differs,
    "ge": Term.__ge__, "greater_equal": Term.__ge__, "gt": Term.__gt__, "greater": Term.__gt__,
    "le": Term.__le__, "less_equal": Term.__le__, "lt": Term.__lt__, "less": Term.__lt__,
}  # fmt: skip


@aten(*_COMPARISONS, layout=ANY)
def _compare(node: AtenNode, g: Operators, self: Value, other: Number) -> Value:
    x, y = together(g, self, other)
    return _COMPARISONS[operator(node)](x.ordered(), y.ordered()).value


def _all(x: Term) -> Term:
    """Return whether all conditions are true, as a scalar."""
    return x.to(INT32)("ReduceMin", keepdims=0).to(BOOL8) if x.value.rank else x


@aten("equal")
def _equal(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = together(g, self, other)
    return _all(x.same(y)).value if self.dims == other.dims else constant(g, False, BOOL8)


@aten("isclose", "allclose", layout=ANY)
def _isclose(
    node: AtenNode, g: Operators, self: Value, other: Value, rtol: float, atol: float, equal_nan: bool
) -> Value:
    """Compare within a tolerance relative to the second tensor.

    Infinity is close to itself alone.
    """
    x, y = together(g, self, other)
    first, second = (x, y) if x.value.dtype.is_float else (x.to(FLOAT32), y.to(FLOAT32))
    gap = abs(first - second)
    near = x.same(y) | ((gap <= abs(second) * rtol + atol) & (gap < math.inf))
    if equal_nan:
        near = near | (first.is_nan() & second.is_nan())
    return (_all(near) if operator(node) == "allclose" else near).value


def _fits(bound: float) -> Callable[[Term], Term]:
    return lambda x: x.same(bound) if x.value.dtype.is_float else x.differs(x)


_PREDICATES: dict[str, Callable[[Term], Term]] = {
    "isfinite": lambda x: abs(x) < math.inf if x.value.dtype.is_float else x.same(x),
    "isinf": Term.is_infinite,
    "isnan": Term.is_nan,
    "isneginf": _fits(-math.inf),
    "isposinf": _fits(math.inf),
    "isreal": lambda x: x.same(x) | x.differs(x),
    "signbit": Term.is_negative,
}


@aten(*_PREDICATES, layout=ANY)
def _predicate(node: AtenNode, g: Operators, self: Value) -> Value:
    return _PREDICATES[operator(node)](Term(g, self).ordered()).value


@aten("is_nonzero")
def _is_nonzero(node: AtenNode, g: Operators, self: Value) -> Value:
    return Term(g, self)("Reshape", vector(g, [])).holds().value


@aten("logical_not", layout=ANY)
def _logical_not(node: AtenNode, g: Operators, self: Value) -> Value:
    x = Term(g, self)
    return (~x if self.dtype is BOOL8 else x.same(0)).value


_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


@aten(*_LOGICAL, layout=ANY)
def _logical(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return Term(g, self).holds()(_LOGICAL[operator(node)], Term(g, other).holds()).value


def _bitwise(type: str) -> Callable[[Term, Term], Term]:
    """Return a bitwise operator that is a logical operator for bools."""
    return lambda x, y: x(type if x.value.dtype is BOOL8 else f"Bitwise{type}", y)


def _bitwise_not(self: Term) -> Term:
    dtype = self.value.dtype
    return ~self if dtype is BOOL8 else (-1 if dtype.is_signed else dtype.limits[1]) - self


def _shifted(x: Term, y: Term, direction: str) -> Term:
    """Return shifted integers; floats are multiplied by powers of two."""
    if not x.value.dtype.is_float:
        return x("BitShift", y, direction=direction)
    return x * 2.0**y if direction == "LEFT" else x / 2.0**y


formulas({"bitwise_not": _bitwise_not})
formulas({
    "bitwise_and __and__": _bitwise("And"),
    "bitwise_or __or__": _bitwise("Or"),
    "bitwise_xor __xor__": _bitwise("Xor"),
    "bitwise_left_shift __lshift__": lambda x, y: _shifted(x, y, "LEFT"),
    "bitwise_right_shift __rshift__": lambda x, y: _shifted(x, y, "RIGHT"),
}, "self", "other")  # fmt: skip


@aten("where.self", "where.Scalar", "where.ScalarOther", "where.ScalarSelf", layout=ANY)
def _where(node: AtenNode, g: Operators, condition: Value, self: Number, other: Number) -> Value:
    mask = Term(g, condition).holds().value
    return g("Where", [mask, term(node, g, self).value, term(node, g, other).value])


@aten("masked_fill", layout=ANY)
def _masked_fill(node: AtenNode, g: Operators, self: Value, mask: Value, value: Number) -> Value:
    return _where(node, g, mask, value, self)


def _counted(x: Term) -> Term:
    """Return the number of true conditions along the last axis, int64."""
    return x.to(INT64)("ReduceSum", vector(x.g, [-1]), keepdims=0)


@aten("isin", ignores=("assume_unique",))
def _isin(
    node: AtenNode,
    g: Operators,
    invert: bool,
    elements: Number = 0,
    element: float = 0,
    test_elements: Number = 0,
    test_element: float = 0,
) -> Value:
    x, y = together(g, elements or element, test_elements or test_element)
    found = _counted(x.ordered().raised(-1).same(y.ordered().flat())) > 0
    return (~found if invert else found).value


def _place(x: Term, limits: Term, right: bool) -> Term:
    """Count the limits, along the last axis, below x, or from the right not above it."""
    x = x.raised(-1)
    return _counted(~(x < limits) if right else ~(x <= limits))


@aten("bucketize", ignores=("out_int32",))
def _bucketize(node: AtenNode, g: Operators, self: Number, boundaries: Value, right: bool) -> Value:
    x, limits = together(g, self, boundaries)
    return _place(x, limits, right).value


@aten("searchsorted", ignores=("out_int32",))
def _searchsorted(
    node: AtenNode,
    g: Operators,
    sorted_sequence: Value,
    self: Number,
    right: bool,
    side: str | None,
    sorter: Value | None,
) -> Value:
    """Count the elements below each value, in rows of sequences or in one for all."""
    if sorter is not None:
        sorted_sequence = g("GatherElements", [sorted_sequence, sorter], axis=sorted_sequence.rank - 1)
    x, limits = together(g, self, sorted_sequence)
    limits = limits.raised(-2) if limits.value.rank > 1 else limits
    return _place(x, limits, right or side == "right").value
