"""Handlers of functions by recurrences and series, as loops where the number of steps depends on data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.pytorch.ops._terms import Term, formula, operator
from xdlc.converter.pytorch.ops.special import erfc, polynomial
from xdlc.converter.pytorch.registry import AtenNode
from xdlc.converter.session.node import Computed
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64

Step = Callable[[Term, list[Term]], Sequence[Term]]


def _repeated(count: int | Term, states: Sequence[Term], step: Step) -> list[Term]:
    """Return states after a number of steps, which is the greatest one of a term.

    Each step returns the next states, as many, for its number and the states; it reads nothing else.
    """
    g = states[0].g

    def iteration(values: Sequence[object]) -> list[Value]:
        index, _, *held = values
        assert isinstance(index, Value)
        found = step(Term(g, index), [Term(g, value) for value in held if isinstance(value, Value)])
        return [g.builder.const(np.asarray(True)), *(each.value for each in found)]

    names = [f"state{index}" for index in range(len(states))]
    body = Computed(["index", "flag", *names], ["go_on", *(f"{name}_next" for name in names)], iteration)
    if isinstance(count, Term):
        times = (count("ReduceMax", keepdims=0) if count.value.rank else count).to(INT64).value
    else:
        times = g.builder.const(np.asarray(count, np.int64))
    given = [times, None, *(state.value for state in states)]
    return [Term(g, value) for value in g.apply("Loop", given, {"body": body}, len(states))]


def _spread(*terms: Term) -> list[Term]:
    """Return terms in the shape that they have together."""
    shape = np.broadcast_shapes(*(dims(each.value) for each in terms))
    ends = vector(terms[0].g, shape)
    return [each if dims(each.value) == shape else each("Expand", ends) for each in terms]


_STEPS = {8: 13, 16: 24, 32: 47, 64: 93}
"""Most divisions of Euclid's algorithm by the width of integers: two Fibonacci numbers take them all."""


@formula("gcd", "lcm", layout=SOURCE)
def _gcd(node: AtenNode, self: Term, other: Term) -> Term:
    x, y = _spread(self, other)

    def step(index: Term, held: list[Term]) -> list[Term]:
        a, b = held
        done = b.same(0)
        return [done.where(a, b), done.where(0, a("Mod", done.where(1, b), fmod=1))]

    divisor = abs(_repeated(_STEPS[node.dtype.bits], [x, y], step)[0])
    if operator(node) == "gcd":
        return divisor
    share = x / divisor.same(0).where(1, divisor)
    if node.dtype.bits < 32:  # whose product wraps around when it is stored
        share, y = share.to(INT32), y.to(INT32)
    return abs(share * y)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
_SHIFT = 9


@formula("special_zeta", layout=SOURCE, wide=True)
def _zeta(self: Term, other: Term) -> Term:
    """Return the sum of (q + k)^-s: the terms below 0 one by one, then by the Euler-Maclaurin formula."""
    s, q = _spread(self, other)
    is_whole, is_low = q.same(q("Floor")), q <= 0
    below = (is_low & ~is_whole & s.same(s("Floor"))).where((-q)("Ceil"), 0)

    def step(index: Term, held: list[Term]) -> list[Term]:
        total, s, q, below = held
        place = index.to(q.value.dtype)
        counts = place < below
        return [total + counts.where(counts.where(q + place, 1) ** -s, 0), s, q, below]

    total = _repeated(below, [q * 0, s, q, below], step)[0]
    w = q + below
    for index in range(_SHIFT):
        total = total + (w + index) ** -s
    w = w + _SHIFT
    rest = w ** (1 - s) / (s - 1) + w**-s * 0.5
    rising = s
    for index, number in enumerate(_BERNOULLI, 1):
        rest = rest + w ** (1 - s - 2 * index) * rising * (number / math.factorial(2 * index))
        rising = rising * (s + (2 * index - 1)) * (s + 2 * index)
    zeta = total + ((w**-s).same(0) & ((total > 0) | rest.is_nan())).where(0, rest)
    zeta = is_low.where(is_whole.where(math.inf, s.differs(s("Floor")).where(math.nan, zeta)), zeta)
    return (s < 1).where(math.nan, s.same(1).where(math.inf, zeta))


_LARGE = 200.0


@formula("igamma", "special_gammainc", "igammac", "special_gammaincc", layout=SOURCE, wide=True)
def _igamma(node: AtenNode, self: Term, other: Term) -> Term:
    """Return incomplete gamma functions by their series, above a + 1 by their continued fraction.

    The steps follow the root of a (W. Press et al., Numerical Recipes, 6.2).  For large a, N. Temme's
    expansion takes their place (NIST Digital Library of Mathematical Functions, 8.12).
    """
    given_a, given_x = a, x = _spread(self, other)
    is_far, is_end = a.same(math.inf), x.same(0) | x.same(math.inf)
    is_wrong = (a < 0) | (x < 0) | (a.same(0) & x.same(0)) | (is_far & x.same(math.inf))
    is_wrong = is_wrong | (a.is_nan() & ~is_end) | (x.is_nan() & ~is_far)
    is_inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    a, x = is_inside.where(a, 1), is_inside.where(x, 1)
    is_large = a > _LARGE
    few, near = is_large.where(1, a), is_large.where(1, x)
    is_low = near < few + 1

    def step(index: Term, held: list[Term]) -> list[Term]:
        a, x, low_x, total, share, fraction, c, d = held
        place = index.to(a.value.dtype) + 1
        share = share * low_x / (a + place)
        an, b = place * (a - place), x - a + 1 + place * 2
        d = 1.0 / _off_zero(an * d + b)
        c = _off_zero(b + an / c)
        return [a, x, low_x, total + share, share, fraction * d * c, c, d]

    high_x = is_low.where(few + 1, near)
    first, start = 1.0 / few, 1.0 / (high_x - few + 1)
    states = [few, high_x, is_low.where(near, 0), first, first, start, few * 0 + 1e30, start]
    _, _, _, total, _, fraction, _, _ = _repeated(int(6 * math.sqrt(_LARGE) + 30), states, step)
    gap = _gap((near - few) / few)
    plain = few * near("Log") - near - few.via(nhwc.lgamma)
    density = (few > 10).where(_stirling(few) - few * gap, plain)("Exp")
    lower, upper = density * total, density * fraction
    lower, upper = is_low.where(lower, 1 - upper), is_low.where(1 - lower, upper)
    many = is_large.where(a, _LARGE)
    share = is_large.where((x - many) / many, 0)
    gap = _gap(share)
    root = (share < 0).where(-1.0, share.of(1)) * (gap * 2)("Sqrt")
    side, moved = root * (many * 0.5)("Sqrt"), root.least(2).most(-2)
    sums = polynomial(moved, _TEMME[0]) + polynomial(moved, _TEMME[1]) / many
    sums = sums * (-many * gap)("Exp") / (many * (2 * math.pi))("Sqrt")
    is_upper = operator(node) in ("igammac", "special_gammaincc")
    far = erfc(side) * 0.5 + sums if is_upper else erfc(-side) * 0.5 - sums
    found = is_large.where(far, upper if is_upper else lower)
    nothing, all_ = (1, 0) if is_upper else (0, 1)
    end = (given_x.same(math.inf) | given_a.same(0)).where(x.of(all_), nothing)
    return is_inside.where(found, is_wrong.where(math.nan, end))


_TEMME = (
    (
        -1.76659527e-7, 8.29671134e-7, -1.85406221e-6, -2.18544851e-6, 3.91926318e-5, -1.78755144e-4,
        3.52733686e-4, 1.15740741e-3, -0.0148148148, 0.0833333333, -0.333333333,
    ),
    (2.05761e-4, -9.90226e-4, 0.0026455, -0.00347222, -0.00185185),
)  # fmt: skip


def _gap(x: Term) -> Term:
    """Return x - log(1 + x), near 0 by the series of atanh."""
    share = x / (x + 2)
    square = share * share
    series = polynomial(square, [2 / power for power in range(19, 1, -2)])
    return (abs(x) < 0.7).where(x * share - share * square * series, x - x.log1p())


def _stirling(a: Term) -> Term:
    """Return log(a^a exp(-a) / gamma(a)) for large a."""
    cube = a * a * a
    return (a * (1 / (2 * math.pi)))("Log") * 0.5 - 1.0 / (a * 12) + 1.0 / (cube * 360)


def _off_zero(x: Term) -> Term:
    return (abs(x) < 1e-30).where(1e-30, x)


def _fused(x: Term, q: Term, share: Term) -> Term:
    """Return x q - share, whose product overflows only with its difference."""
    return (share.is_infinite() & ~(x * 0 * q).is_nan()).where(-share, x * q - share)


_Next = Callable[[Term, Term, Term, Term], Term]
_Closed = Callable[[Term, Term], Term]
_POLYNOMIALS: dict[str, tuple[float, float, _Next]] = {
    "hermite_polynomial_h": (2, 0, lambda k, x, p, q: _fused(x * 2, q, k * 2 * p)),
    "hermite_polynomial_he": (1, 0, lambda k, x, p, q: _fused(x, q, k * p)),
    "laguerre_polynomial_l": (-1, 1, lambda k, x, p, q: ((1 - x + k * 2) * q - k * p) / (k + 1)),
    "legendre_polynomial_p": (1, 0, lambda k, x, p, q: ((k * 2 + 1) * x * q - k * p) / (k + 1)),
} | {
    f"{shift}chebyshev_polynomial_{kind}": (factor, more, lambda k, x, p, q: x * 2 * q - p)
    for shift in ("", "shifted_")
    for kind, factor, more in (("t", 1, 0), ("u", 2, 0), ("v", 2, -1), ("w", 2, 1))
}
"""The polynomial of degree 1, a x + b, and that of degree k + 1 by those of k - 1 and k."""
_CLOSED: dict[str, _Closed] = {
    "t": lambda n, t: (t * n)("Cos"),
    "u": lambda n, t: (t * (n + 1))("Sin") / t("Sin"),
    "v": lambda n, t: (t * (n + 0.5))("Cos") / (t * 0.5)("Cos"),
    "w": lambda n, t: (t * (n + 0.5))("Sin") / (t * 0.5)("Sin"),
}
"""Chebyshev polynomials of the cosine of an angle."""
_MOST_HERMITE = 128
_MOST_STEPS = 10_000


@formula(*(f"special_{name}" for name in _POLYNOMIALS), layout=SOURCE, wide=True)
def _polynomial(node: AtenNode, x: Term, n: Term) -> Term:
    name = operator(node).removeprefix("special_")
    if n.value.is_static and (n.value.numpy() > _MOST_STEPS).any():
        raise node.problem(f"a degree above {_MOST_STEPS}", "use a lower one")
    at, degree = _spread(x * 2 - 1 if "shifted" in name else x, n)
    degree = ((degree > -1) & (degree < 2.0**63)).where(degree.most(0)("Floor"), -1)
    factor, more, following = _POLYNOMIALS[name]
    closed = _CLOSED.get(name[-1]) if "chebyshev" in name else None
    steps = (degree - 1).most(0)
    if closed is not None:
        is_angle = (abs(at) < 1) & (degree > 6)
        steps = is_angle.where(0, steps)
    elif "hermite" in name:
        steps = (degree > _MOST_HERMITE).where(0, steps)

    def step(index: Term, held: list[Term]) -> list[Term]:
        at, steps, before, now = held
        place = index.to(at.value.dtype)
        goes_on = place < steps
        found = following(place + 1, at, before, now)
        return [at, steps, goes_on.where(now, before), goes_on.where(found, now)]

    *_, now = _repeated(steps, [at, steps, degree * 0 + 1, at * factor + more], step)
    if closed is not None:
        now = is_angle.where(closed(degree, is_angle.where(at, 0)("Acos")), now)
    elif "hermite" in name:
        now = (degree > _MOST_HERMITE).where(math.nan, now)
    return (degree < 0).where(0, degree.same(0).where(1, now))
