"""Handlers of functions that take as many steps as the data requires: loops that the host runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, constant, operator, term, wide_term
from xdlc.converter.pytorch.ops.special import log_gamma
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import Computed
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64


def repeated(
    count: Value, states: Sequence[Term], step: Callable[[Term, list[Term]], Sequence[Term]]
) -> list[Term]:
    """Return states after a number of steps.

    Args:
        count: Number of steps, int64, of rank 0.
        states: Values before the first step; all that steps read is among them.
        step: Returns the next states, as many, for the number of the step and the states.

    Raises:
        UnsupportedOp: If a shape is open.
    """
    g = states[0].g

    def iteration(values: Sequence[object]) -> list[Value]:
        index, _, *held = values
        assert isinstance(index, Value)
        found = step(Term(g, index), [Term(g, value) for value in held if isinstance(value, Value)])
        return [g.builder.const(np.asarray(True)), *(each.value for each in found)]

    names = [f"state{index}" for index in range(len(states))]
    body = Computed(["index", "flag", *names], ["go_on", *(f"{name}_next" for name in names)], iteration)
    given = [count, None, *(state.value for state in states)]
    return [Term(g, value) for value in g.apply("Loop", given, {"body": body}, len(states))]


def _most(x: Term) -> Value:
    """Return the greatest element as a number of steps."""
    return x("ReduceMax", keepdims=0).to(INT64).value if x.value.rank else x.to(INT64).value


def _spread(*terms: Term) -> list[Term]:
    """Return terms in the shape that they have together."""
    shape = np.broadcast_shapes(*(dims(each.value) for each in terms))
    same = [dims(each.value) == shape for each in terms]
    ends = vector(terms[0].g, shape)
    return [each if fits else each("Expand", ends) for each, fits in zip(terms, same, strict=True)]


# ---------------------------------------------------------------------------------- divisors


_STEPS = {8: 13, 16: 24, 32: 47, 64: 93}
"""Most divisions of Euclid's algorithm by the width of integers: two Fibonacci numbers take them all."""


@aten("gcd", "lcm")
def _gcd(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = _spread(term(node, g, self), term(node, g, other))

    def step(index: Term, held: list[Term]) -> list[Term]:
        a, b = held
        done = b.same(0)
        rest = a("Mod", done.where(1, b), fmod=1)
        return [done.where(a, b), done.where(0, rest)]

    divisor = abs(repeated(constant(g, _STEPS[node.dtype.bits], INT64), [x, y], step)[0])
    if operator(node) == "gcd":
        return divisor.value
    share = x / divisor.same(0).where(1, divisor)
    if node.dtype.bits < 32:  # whose product wraps around when it is stored
        share, y = share.to(INT32), y.to(INT32)
    return abs(share * y).value


# ---------------------------------------------------------------------------------- zeta and gamma


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
_SHIFT = 9


@aten("special_zeta")
def _zeta(node: AtenNode, g: Operators, self: Value | float, other: Value | float) -> Value:
    """Return the sum of (q + k)^-s: the terms below 0 one by one, then by the Euler-Maclaurin formula."""
    s, q = _spread(wide_term(node, g, self), wide_term(node, g, other))
    below = (-q)("Ceil").most(0)

    def step(index: Term, held: list[Term]) -> list[Term]:
        total, s, q, below = held
        place = index.to(q.value.dtype)
        counts = place < below
        return [total + counts.where(counts.where(q + place, 1) ** -s, 0), s, q, below]

    total = repeated(_most(below), [q * 0, s, q, below], step)[0]
    w = q + below
    for index in range(_SHIFT):
        total = total + (w + index) ** -s
    w = w + _SHIFT
    rest = w ** (1 - s) / (s - 1) + w**-s * 0.5
    rising = s
    for index, number in enumerate(_BERNOULLI, 1):
        rest = rest + w ** (1 - s - 2 * index) * rising * (number / math.factorial(2 * index))
        rising = rising * (s + (2 * index - 1)) * (s + 2 * index)
    found = (q <= 0).where(s.differs(s("Floor")).where(math.nan, total + rest), total + rest)
    found = ((q <= 0) & q.same(q("Floor"))).where(math.inf, found)
    found = (s < 1).where(math.nan, s.same(1).where(math.inf, found))
    return found.value


@aten("igamma", "igammac", "special_gammainc", "special_gammaincc")
def _igamma(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    """Return incomplete gamma functions by their series, above a + 1 by their continued fraction.

    The steps follow the root of the arguments (W. Press et al., Numerical Recipes, 6.2).
    """
    a, x = _spread(wide_term(node, g, self), wide_term(node, g, other))
    is_inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    safe_a, safe_x = is_inside.where(a, 1), is_inside.where(x, 1)
    is_low = safe_x < safe_a + 1
    steps = _most(safe_a.most(safe_x)("Sqrt") * 6 + 30)

    def step(index: Term, held: list[Term]) -> list[Term]:
        a, x, low_x, total, share, fraction, c, d = held
        place = index.to(a.value.dtype) + 1
        share = share * low_x / (a + place)
        an, b = place * (a - place), x - a + 1 + place * 2
        d = 1.0 / _off_zero(an * d + b)
        c = _off_zero(b + an / c)
        return [a, x, low_x, total + share, share, fraction * d * c, c, d]

    high_x = is_low.where(safe_a + 1, safe_x)
    first = 1.0 / safe_a
    start = 1.0 / (high_x - safe_a + 1)
    states = [safe_a, high_x, is_low.where(safe_x, 0), first, first, start, safe_a * 0 + 1e30, start]
    _, _, _, total, _, fraction, _, _ = repeated(steps, states, step)
    factor = _density(safe_a, safe_x)
    lower = is_low.where(factor * total, 1 - factor * fraction)
    upper = is_low.where(1 - factor * total, factor * fraction)
    is_upper = operator(node) in ("igammac", "special_gammaincc")
    found = is_inside.where(upper if is_upper else lower, _limit(a, x, is_upper))
    return found.value


def _density(a: Term, x: Term) -> Term:
    """Return x^a exp(-x) / gamma(a), for large a by J. Stirling's series, which cancels less."""
    plain = a * x("Log") - x - log_gamma(a)
    large = a.most(10)
    gap = (x - large) / large
    rest = (
        (large * (1 / (2 * math.pi)))("Log") * 0.5 - 1.0 / (large * 12) + 1.0 / (large * large * large * 360)
    )
    return (a > 10).where(large * (gap.log1p() - gap) + rest, plain)("Exp")


def _off_zero(x: Term) -> Term:
    return (abs(x) < 1e-30).where(1e-30, x)


def _limit(a: Term, x: Term, is_upper: bool) -> Term:
    """Return incomplete gamma functions at the ends of their arguments."""
    nothing, all_ = (1, 0) if is_upper else (0, 1)
    at_end = (x.same(math.inf) | a.same(0)).where(x.of(all_), nothing)
    is_wrong = (a < 0) | (x < 0) | a.is_nan() | x.is_nan() | (a.same(math.inf) & x.same(math.inf))
    return (is_wrong | (a.same(0) & x.same(0))).where(math.nan, at_end)


# ---------------------------------------------------------------------------------- polynomials


_Step = Callable[[Term], tuple[Term | float, Term | float, Term | float]]
_RECURRENCES: dict[str, tuple[float, float, _Step]] = {
    "special_hermite_polynomial_h": (2, 0, lambda k: (2.0, 0.0, k * -2)),
    "special_hermite_polynomial_he": (1, 0, lambda k: (1.0, 0.0, -k)),
    "special_laguerre_polynomial_l": (
        -1, 1, lambda k: (-1.0 / (k + 1), (k * 2 + 1) / (k + 1), -k / (k + 1)),
    ),
    "special_legendre_polynomial_p": (1, 0, lambda k: ((k * 2 + 1) / (k + 1), 0.0, -k / (k + 1))),
}  # fmt: skip
"""The polynomial of degree 1, a x + b, and of degree k + 1, (a x + b) p(k) + c p(k - 1)."""
_MOST_DEGREE = {"special_hermite_polynomial_h": 128, "special_hermite_polynomial_he": 128}
"""Degrees above which PyTorch returns no number."""


@aten(*_RECURRENCES)
def _polynomial(node: AtenNode, g: Operators, x: Value | float, n: Value | float) -> Value:
    name = operator(node)
    at, degree = _spread(wide_term(node, g, x), wide_term(node, g, n))
    degree = (degree < 0).where(-1, degree("Floor"))
    factor, more, of = _RECURRENCES[name]
    steps = (degree - 1).most(0).least(_MOST_DEGREE.get(name, 1 << 20))

    def step(index: Term, held: list[Term]) -> list[Term]:
        at, degree, before, now = held
        place = index.to(at.value.dtype) + 1
        a, b, c = of(place)
        following = (at * a + b) * now + before * c
        goes_on = place < degree
        return [at, degree, goes_on.where(now, before), goes_on.where(following, now)]

    one = at * 0 + 1
    *_, now = repeated(_most(steps), [at, degree, one, at * factor + more], step)
    found = (degree < 0).where(0, degree.same(0).where(1, now))
    if name in _MOST_DEGREE:
        found = (degree > _MOST_DEGREE[name]).where(math.nan, found)
    return found.value
