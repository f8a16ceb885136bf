"""Handlers of error functions and gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, wide_term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value

ROOT_2 = math.sqrt(2)


def polynomial(x: Term, factors: Sequence[float]) -> Term:
    """Return a polynomial, the factor of the highest power first (W. Horner's scheme)."""
    total = x * factors[0]
    for factor in factors[1:-1]:
        total = (total + factor) * x if factor else total * x
    return total + factors[-1]


# ---------------------------------------------------------------------------------- error functions

_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
    1.00002368, -1.26551223,
)  # fmt: skip
"""Polynomial of t = 1 / (1 + x / 2), of a fractional error of 1.2e-7 (Numerical Recipes, 6.2)."""


def _scaled(x: Term) -> Term:
    """Return exp(x²) erfc(x) for x from 0 on."""
    share = 1.0 / (x * 0.5 + 1)
    return share * polynomial(share, _ERFC)("Exp")


def _erfc(x: Term) -> Term:
    size = abs(x)
    tail = _scaled(size) * (-(x * x))("Exp")
    return x.is_infinite().where((x < 0).where(x.of(2), 0), (x < 0).where(2 - tail, tail))


def _erfcx(x: Term) -> Term:
    above = _scaled(x.most(0))
    below = (x.least(0) * x)("Exp") * 2 - _scaled(abs(x))
    return x.is_infinite().where((x < 0).where(x.of(math.inf), 0), (x < 0).where(below, above))


def _log_ndtr(x: Term) -> Term:
    low = (x.least(-1) * (-1 / ROOT_2)).via(lambda g, v: _scaled(Term(g, v)).value)
    below = (low * 0.5)("Log") - x * x * 0.5
    return (x < -1).where(below, (_erfc(x * (1 / ROOT_2)) * -0.5).log1p())


def _ndtr(x: Term) -> Term:
    return _erfc(x * (-1 / ROOT_2)) * 0.5


def _ndtri(x: Term) -> Term:
    """Return the quantile of the normal distribution: the smaller tail, with a step of Newton."""
    tail = x.least(1 - x)
    w = -(tail * (1 - tail) * 4)("Log")
    first = (tail * 2 - 1).via(nhwc.erfinv_by, w) * ROOT_2
    near = first.is_infinite().where(0, first)
    density = (near * near * -0.5)("Exp") * (1 / math.sqrt(2 * math.pi))
    found = first.is_infinite().where(first, near - (_ndtr(near) - tail) / density)
    return (x > 0.5).where(-found, found)


# ---------------------------------------------------------------------------------- gamma functions


def _digamma(x: Term) -> Term:
    """Return the derivative of log(gamma(x)), which integers below 0 do not have."""
    found = ((x < 0) & x.same(x("Floor"))).where(math.nan, x.via(nhwc.digamma))
    return x.same(0).where(-1.0 / x, found)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30)
_SHIFT = 8


def _polygamma(x: Term, order: int) -> Term:
    """Return a derivative of digamma: by the Euler-Maclaurin formula, below 0.5 by reflection.

    The reflection adds the derivative of pi cot(pi x), a polynomial of the cotangent.
    """
    low = x < 0.5
    z = low.where(1 - x, x)
    total = None
    for index in range(_SHIFT):
        share = (z + index) ** -(order + 1.0)
        total = share if total is None else total + share
    assert total is not None
    moved = z + _SHIFT
    rest = moved ** -float(order) * (1 / order) + moved ** -(order + 1.0) * 0.5
    rising = float(order + 1)
    for index, number in enumerate(_BERNOULLI, 1):
        rest = rest + moved ** -(order + 2.0 * index) * (number * rising / math.factorial(2 * index))
        rising *= (order + 2 * index) * (order + 2 * index + 1)
    above = (total + rest) * ((-1) ** (order + 1) * math.factorial(order))
    if order == 1:  # pi² / sin²(pi x), which PyTorch does not reduce: large where it is infinite
        sine = low.where((x * math.pi)("Sin"), 1)
        return low.where(math.pi**2 / (sine * sine) - above, above)
    derivative = np.polynomial.Polynomial([0, 1])
    for _ in range(order):
        derivative = -derivative.deriv() * np.polynomial.Polynomial([1, 0, 1])
    part = (x - x("Round")) * math.pi
    cotangent = 1.0 / low.where(part("Tan"), 1)
    slope = polynomial(cotangent, [float(factor) for factor in derivative.coef[::-1]])
    return low.where(above * (-1) ** order - slope * math.pi ** (order + 1), above)


def _log_gamma(x: Term) -> Term:
    return x.is_infinite().where(math.inf, x.is_infinite().where(1, x).via(nhwc.lgamma))


_UNARY: dict[str, Callable[[Term], Term]] = {
    "digamma": _digamma, "special_digamma": _digamma, "special_psi": _digamma,
    "erfc": _erfc, "special_erfc": _erfc, "special_erfcx": _erfcx,
    "erfinv": lambda x: x.via(nhwc.erfinv), "special_erfinv": lambda x: x.via(nhwc.erfinv),
    "lgamma": _log_gamma, "special_gammaln": _log_gamma,
    "special_entr": lambda x: (x < 0).where(-math.inf, -x.via(nhwc.x_log_y, x)),
    "special_log_ndtr": _log_ndtr,
    "special_ndtr": _ndtr,
    "special_ndtri": _ndtri,
    "special_spherical_bessel_j0": lambda x: (
        x.is_infinite().where(0, x.same(0).where(1, x("Sin") / x.same(0).where(1, x)))
    ),
}  # fmt: skip


@aten(*_UNARY, layout=ANY)
def _unary(node: AtenNode, g: Operators, self: Value | None = None, x: Value | None = None) -> Value:
    given = self if x is None else x
    assert given is not None
    return _UNARY[operator(node)](wide_term(node, g, given)).value


@aten("polygamma", "special_polygamma", layout=ANY)
def _polygamma_of(node: AtenNode, g: Operators, n: int, self: Value) -> Value:
    x = wide_term(node, g, self)
    if not 0 <= n <= _MOST_ORDER:
        raise node.problem(f"a derivative of order {n} does not fit single precision", "use a lower one")
    return (_polygamma(x, n) if n else _digamma(x)).value


_MOST_ORDER = 20


@aten("mvlgamma", "special_multigammaln", layout=ANY)
def _mvlgamma(node: AtenNode, g: Operators, self: Value, p: int) -> Value:
    x = wide_term(node, g, self)
    g.builder.check_table(p)
    total = _log_gamma(x)
    for index in range(1, p):
        total = total + _log_gamma(x - index / 2)
    return (total + p * (p - 1) / 4 * math.log(math.pi)).value


@aten("xlogy", "special_xlogy", "special_xlog1py", layout=ANY)
def _xlogy(node: AtenNode, g: Operators, self: Value | float, other: Value | float) -> Value:
    """Return 0 where the factor is 0, unless the other one is no number."""
    x, y = wide_term(node, g, self), wide_term(node, g, other)
    log = y.log1p() if operator(node) == "special_xlog1py" else y("Log")
    return y.is_nan().where(y, x.same(0).where(0, x * log)).value
