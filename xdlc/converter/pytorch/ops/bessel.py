"""Handlers of Bessel functions, as polynomials that are fitted to their integrals.

Each function has two ranges.  In the lower one it is an even, smooth function of x, for those of the second
kind beside a logarithm times the function of the first kind; in the upper one an amplitude, smooth in 1 / x,
times an exponential or an oscillation.  The integrals are those of the NIST Digital Library of Mathematical
Functions, 10.9 and 10.32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, wide_term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.data import Array

Function = Callable[[Array], Array]
_LOW, _LOW_K = 8.0, 2.0
"""Ends of the lower ranges; those of modified functions of the second kind fall steeply."""
_DEGREE = 16


# ---------------------------------------------------------------------------------- integrals


@functools.cache
def _nodes() -> tuple[Array, Array]:
    """Return places and weights of Gauss's rule on -1 ... 1."""
    return np.polynomial.legendre.leggauss(400)


def _integral(of: Callable[[Array, Array], Array], x: Array, low: float, high: float) -> Array:
    """Return the integral of a function of a place and of each x over the places."""
    places, weights = _nodes()
    half = (high - low) / 2
    found: Array = of((places + 1) * half + low, np.asarray(x)[..., None]) @ weights * half
    return found


def _first(order: int) -> Function:
    """Return J of an order up to 8."""
    return lambda x: _integral(lambda t, x: np.cos(order * t - x * np.sin(t)), x, 0, math.pi) / math.pi


def _second(order: int) -> Function:
    """Return Y of an order above 0 and up to 8."""

    def of(x: Array) -> Array:
        turning = _integral(lambda t, x: np.sin(x * np.sin(t) - order * t), x, 0, math.pi)
        end = math.log(1600 / x.min())
        falling = _integral(
            lambda t, x: (np.exp(order * t) + (-1) ** order * np.exp(-order * t)) * np.exp(-x * np.sinh(t)),
            x,
            0,
            end,
        )
        return (turning - falling) / math.pi

    return of


def _modified_first(order: int) -> Function:
    """Return exp(-x) I of an order."""

    def of(x: Array) -> Array:
        reach = math.pi if x.min() < _LOW else min(math.pi, 9 / math.sqrt(x.min()) * 2)
        return _integral(lambda t, x: np.exp(x * (np.cos(t) - 1)) * np.cos(order * t), x, 0, reach) / math.pi

    return of


def _modified_second(order: int) -> Function:
    """Return exp(x) K of an order above 0."""

    def of(x: Array) -> Array:
        end = math.acosh(1 + 700 / x.min())
        return _integral(lambda t, x: np.exp(-x * (np.cosh(t) - 1)) * np.cosh(order * t), x, 0, end)

    return of


def _hankel(order: int, part: str) -> Function:
    """Return the real or imaginary part of what follows the oscillation of J + i Y, from 8 on."""

    def of(x: Array) -> Array:
        turned = _integral(
            lambda v, x: np.exp(-v * v) * v ** (2 * order) * (1 + 0.5j * v * v / x) ** (order - 0.5), x, -7, 7
        ) / math.gamma(order + 0.5)
        found: Array = getattr(turned, part)
        return found

    return of


def _each(function: Function) -> Function:
    """Return a function that takes one x at a time, for ranges of integration that depend on it."""
    return lambda x: np.array([function(np.array([one]))[0] for one in np.ravel(x)]).reshape(np.shape(x))


# ---------------------------------------------------------------------------------- fits


Fit = tuple[float, ...]


def fit(function: Function) -> Fit:
    """Return the factors of Chebyshev polynomials of a function on -1 ... 1."""
    factors = np.polynomial.chebyshev.chebinterpolate(function, _DEGREE)
    used = np.nonzero(np.abs(factors) > 1e-9 * np.abs(factors).max())[0][-1]
    return tuple(float(factor) for factor in factors[: used + 1])


def _below(function: Function, end: float) -> Function:
    """Return an even function as one of 2 (x / end)² - 1."""
    return lambda t: function(end * np.sqrt(np.maximum((t + 1) / 2, 1e-12)))


def _above(function: Function, start: float) -> Function:
    """Return a function as one of 2 start / x - 1."""
    return lambda t: function(2 * start / (t + 1))


@functools.cache
def _low(kind: str, order: int) -> Fit:
    """Return the fit of the lower range of a function, divided by x for odd orders."""
    end = _LOW_K if kind == "k" else _LOW
    first, second = _each(_first(order)), _each(_second(order))

    def value(x: Array) -> Array:
        if kind == "j":
            return first(x) / x**order
        if kind == "i":
            return np.exp(x) * _each(_modified_first(order))(x) / x**order
        log = np.log(x / 2)
        if kind == "y":
            return (second(x) - 2 / math.pi * (log * first(x) - order / x)) / x**order
        rising, falling = np.exp(x) * _each(_modified_first(order))(x), _each(_modified_second(order))(x)
        return (np.exp(-x) * falling + (-1) ** order * log * rising - order / x) / x**order

    return fit(_below(value, end))


@functools.cache
def _high(kind: str, order: int) -> Fit:
    """Return the fit of the amplitude of the upper range of a function."""
    if kind in "pq":
        return fit(_above(_hankel(order, "real" if kind == "p" else "imag"), _LOW))
    form = _modified_first(order) if kind == "i" else _modified_second(order)
    return fit(_above(lambda x: np.sqrt(x) * _each(form)(x), _LOW if kind == "i" else _LOW_K))


def summed(t: Term, factors: Fit) -> Term:
    """Return a sum of Chebyshev polynomials (C. Clenshaw's scheme)."""
    last = now = t * 0
    for factor in reversed(factors[1:]):
        now, last = t * 2 * now - last + factor, now
    return t * now - last + factors[0]


# ---------------------------------------------------------------------------------- handlers


def _small(size: Term, kind: str, order: int) -> Term:
    """Return the smooth part of a function in its lower range."""
    end = _LOW_K if kind == "k" else _LOW
    share = size.least(end) * (1 / end)
    found = summed(share * share * 2 - 1, _low(kind, order))
    return found * size if order else found


def _amplitude(size: Term, kind: str, order: int) -> Term:
    """Return the amplitude of a function in its upper range."""
    start = _LOW_K if kind == "k" else _LOW
    return summed(2 * start / size.most(start) - 1, _high(kind, order))


def _wave(size: Term, order: int, phase: float) -> Term:
    """Return J, or with a phase of a quarter turn Y, in the upper range."""
    angle = size - (order / 2 + 0.25) * math.pi - phase
    turned = _amplitude(size, "p", order) * angle("Cos") - _amplitude(size, "q", order) * angle("Sin")
    return turned * ((2 / math.pi) / size.most(_LOW))("Sqrt")


def _of_first(x: Term, order: int) -> Term:
    size = abs(x)
    wave = size.is_infinite().where(0, _wave(size.is_infinite().where(_LOW, size), order, 0))
    found = (size <= _LOW).where(_small(size, "j", order), wave)
    return (x < 0).where(-found, found) if order else found


def _of_second(x: Term, order: int) -> Term:
    size = x.most(1e-30)
    log = (size * 0.5)("Log") * _small(size, "j", order)
    log = log - 1.0 / size if order else log
    low = _small(size, "y", order) + log * (2 / math.pi)
    wave = x.is_infinite().where(0, _wave(x.is_infinite().where(_LOW, size), order, math.pi / 2))
    found = (x <= _LOW).where(low, wave)
    return x.same(0).where(-math.inf, (x < 0).where(math.nan, found))


def _of_modified_first(x: Term, order: int, scaled: bool) -> Term:
    size = abs(x)
    low = _small(size, "i", order)
    low = low * (-size.least(_LOW))("Exp") if scaled else low
    high = _amplitude(size, "i", order) / size.most(_LOW)("Sqrt")
    if not scaled:
        half = (size * 0.5)("Exp")  # the whole exponential overflows before the result does
        high = high * half * half
    found = (size <= _LOW).where(low, high)
    return (x < 0).where(-found, found) if order else found


def _of_modified_second(x: Term, order: int, scaled: bool) -> Term:
    size = x.most(1e-30)
    log = (size * 0.5)("Log") * _small(size, "i", order)
    low = _small(size, "k", order) + (log + 1.0 / size if order else -log)
    low = low * size.least(_LOW_K)("Exp") if scaled else low
    high = _amplitude(size, "k", order) / size.most(_LOW_K)("Sqrt")
    high = high if scaled else high * (-size)("Exp")
    found = (x <= _LOW_K).where(low, high)
    return x.same(0).where(math.inf, (x < 0).where(math.nan, found))


_HANDLED: dict[str, Callable[[Term], Term]] = {
    "i0": lambda x: _of_modified_first(x, 0, scaled=False),
}
for _order in (0, 1):
    _HANDLED |= {
        f"special_bessel_j{_order}": functools.partial(_of_first, order=_order),
        f"special_bessel_y{_order}": functools.partial(_of_second, order=_order),
        f"special_i{_order}": functools.partial(_of_modified_first, order=_order, scaled=False),
        f"special_i{_order}e": functools.partial(_of_modified_first, order=_order, scaled=True),
        f"special_modified_bessel_i{_order}": functools.partial(
            _of_modified_first, order=_order, scaled=False
        ),
        f"special_modified_bessel_k{_order}": functools.partial(
            _of_modified_second, order=_order, scaled=False
        ),
        f"special_scaled_modified_bessel_k{_order}": functools.partial(
            _of_modified_second, order=_order, scaled=True
        ),
    }


@aten(*_HANDLED, layout=ANY)
def _bessel(node: AtenNode, g: Operators, self: Value | None = None, x: Value | None = None) -> Value:
    given = self if x is None else x
    assert given is not None
    return _HANDLED[operator(node)](wide_term(node, g, given)).value
