"""Handlers of error functions and gamma functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions import elementwise
from xdlc.converter.functions.terms import Term
from xdlc.converter.pytorch.ops._terms import formula, formulas
from xdlc.errors import UnsupportedOp

_ROOT_2 = math.sqrt(2)


def polynomial(x: Term, factors: Sequence[float]) -> Term:
    """Return a polynomial, the factor of the highest power first (W. Horner's scheme)."""
    total = x * factors[0]
    for factor in factors[1:-1]:
        total = (total + factor) * x if factor else total * x
    return total + factors[-1]


_ERFC = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
    1.00002368, -1.26551223,
)  # fmt: skip
"""Polynomial of t = 1 / (1 + x / 2), of a fractional error of 1.2e-7 (Numerical Recipes, 6.2)."""


def _scaled(x: Term) -> Term:
    """Return exp(x²) erfc(x) for x from 0 on."""
    share = 1.0 / (x * 0.5 + 1)
    return share * polynomial(share, _ERFC)("Exp")


def erfc(x: Term) -> Term:
    """Return 1 - erf(x), exact for large x."""
    tail = _scaled(abs(x)) * (-(x * x))("Exp")
    return x.is_infinite().where((x < 0).where(x.of(2), 0), (x < 0).where(2 - tail, tail))


def _erfcx(x: Term) -> Term:
    below = (x.least(0) * x)("Exp") * 2 - _scaled(abs(x))
    found = (x < 0).where(below, _scaled(x.most(0)))
    return x.is_infinite().where((x < 0).where(x.of(math.inf), 0), found)


def _log_ndtr(x: Term) -> Term:
    below = (_scaled(x.least(-1) * (-1 / _ROOT_2)) * 0.5)("Log") - x * x * 0.5
    return (x < -1).where(below, (erfc(x * (1 / _ROOT_2)) * -0.5).log1p())


def _ndtr(x: Term) -> Term:
    return erfc(x * (-1 / _ROOT_2)) * 0.5


def _ndtri(x: Term) -> Term:
    """Return the normal distribution's quantile: the smaller tail and a Newton step."""
    tail = x.least(1 - x)
    w = -(tail * (1 - tail) * 4)("Log")
    first = (tail * 2 - 1).via(elementwise.erfinv_by, w) * _ROOT_2
    near = first.is_infinite().where(0, first)
    density = (near * near * -0.5)("Exp") * (1 / math.sqrt(2 * math.pi))
    found = first.is_infinite().where(first, near - (_ndtr(near) - tail) / density)
    return (x > 0.5).where(-found, found)


def _digamma(x: Term) -> Term:
    """Return the derivative of log(gamma(x)), which is undefined for integers below 0."""
    found = ((x < 0) & x.same(x("Floor"))).where(math.nan, x.via(elementwise.digamma))
    return x.same(0).where(-1.0 / x, found)


def _log_gamma(x: Term) -> Term:
    return x.is_infinite().where(math.inf, x.is_infinite().where(1, x).via(elementwise.lgamma))


formulas({
    "digamma special_digamma special_psi": _digamma,
    "erfc special_erfc": erfc, "special_erfcx": _erfcx,
    "erfinv special_erfinv": lambda x: x.via(elementwise.erfinv),
    "lgamma special_gammaln": _log_gamma,
    "special_entr": lambda x: (x < 0).where(-math.inf, -x.via(elementwise.x_log_y, x)),
    "special_log_ndtr": _log_ndtr, "special_ndtr": _ndtr, "special_ndtri": _ndtri,
}, "self", wide=True)  # fmt: skip


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30)
_SHIFT, _MOST_ORDER = 8, 20


@formula("polygamma", "special_polygamma", wide=True)
def _polygamma(n: int, self: Term) -> Term:
    """Return a derivative of digamma, by Euler-Maclaurin or, below 0.5, by reflection.

    The reflection adds the derivative of pi cot(pi x), a polynomial of the cotangent.
    """
    if not 0 <= n <= _MOST_ORDER:
        raise UnsupportedOp(
            f"a derivative of order {n} does not fit single precision", fix="use a lower order"
        )
    if not n:
        return _digamma(self)
    x, low = self, self < 0.5
    z = low.where(1 - x, x)
    moved = z + _SHIFT
    total = moved ** -float(n) * (1 / n) + moved ** -(n + 1.0) * 0.5
    for index in range(_SHIFT):
        total = total + (z + index) ** -(n + 1.0)
    rising = float(n + 1)
    for index, number in enumerate(_BERNOULLI, 1):
        total = total + moved ** -(n + 2.0 * index) * (number * rising / math.factorial(2 * index))
        rising *= (n + 2 * index) * (n + 2 * index + 1)
    above = total * ((-1) ** (n + 1) * math.factorial(n))
    if n == 1:  # pi² / sin²(pi x), which PyTorch does not reduce: large where it is infinite
        sine = low.where((x * math.pi)("Sin"), 1)
        return low.where(math.pi**2 / (sine * sine) - above, above)
    derivative = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        derivative = -derivative.deriv() * np.polynomial.Polynomial([1, 0, 1])
    part = (x - x("Round")) * math.pi
    slope = polynomial(1.0 / low.where(part("Tan"), 1), [float(factor) for factor in derivative.coef[::-1]])
    return low.where(above * (-1) ** n - slope * math.pi ** (n + 1), above)


_MOST_TERMS = 100


@formula("mvlgamma", "special_multigammaln", wide=True)
def _mvlgamma(self: Term, p: int) -> Term:
    if not 0 < p <= _MOST_TERMS:
        raise UnsupportedOp(f"xdlc does not support a sum of {p} logarithms", fix="use a lower dimension")
    total = _log_gamma(self)
    for index in range(1, p):
        total = total + _log_gamma(self - index / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)
