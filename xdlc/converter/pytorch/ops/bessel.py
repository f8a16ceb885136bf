"""Handlers of Bessel and Airy functions, as sums of Chebyshev polynomials.

Each function has two ranges.  In the lower one it is a smooth function, for those of the second kind beside
a logarithm times the function of the first kind; in the upper one an amplitude, smooth in 1 / x, times an
exponential or an oscillation (NIST Digital Library of Mathematical Functions, 9.7, 10.8, 10.17, 10.40).
"""

from __future__ import annotations

import math

from xdlc.converter.pytorch.ops._terms import Term, formulas

_FACTORS: dict[str, tuple[float, ...]] = {
    "j0": (
        0.157727971, -0.0087234424, 0.265178613, -0.370094994, 0.158067102, -0.0348937694, 0.0048191801,
        -0.0004606262, 0.0000324603, -0.0000017619, 0.0000000761, -0.0000000027,
    ),
    "j1": (
        0.0810448463, -0.148975145, 0.160999262, -0.0826804918, 0.0222136397, -0.0036469406, 0.0004050338,
        -0.0000325555, 0.0000019859, -0.0000000952, 0.0000000037,
    ),
    "y0": (
        0.0364546981, -0.278323709, 0.296049999, 0.0982550841, -0.107551553, 0.0317990741, -0.0051613971,
        0.0005498525, -0.000041997, 0.000002429, -0.0000001105, 0.0000000041,
    ),
    "y1": (
        0.0383007699, -0.0818256141, -0.0248677076, 0.0479674528, -0.0185258845, 0.00368060769,
        -0.00046272541, 0.000040694, -0.00000266177, 0.00000013506, -0.00000000548,
    ),
    "p0": (0.999595065, -0.0005380796, -0.0001317968, 0.0000015142, 0.0000001585, -0.0000000086),
    "q0": (
        -0.00776935569, -0.00774803231, 0.000025365412, 0.000003942736, -0.000000107235, -0.000000007214,
        0.000000000738,
    ),
    "p1": (1.00067754, 0.000901007, 0.000221724, -0.000001966, -0.000000209, 0.00000001),
    "q1": (
        0.02337683, 0.0233468012, -0.00003576011, -0.00000560863, 0.00000013274, 0.00000000917,
        -0.00000000087,
    ),
    "i0": (
        0.338397637, -0.304682672, 0.171620902, -0.094901097, 0.0493052842, -0.0237374148, 0.0105464604,
        -0.00432431, 0.0016394756, -0.0005763756, 0.0001885029, -0.000057542, 0.0000164484, -0.0000044167,
        0.0000011174, -0.0000002671, 0.0000000605, -0.000000013, 0.0000000027,
    ),
    "i1": (
        0.126293593, -0.176416518, 0.102643659, -0.0529459812, 0.024726449, -0.0105640849, 0.0041564229,
        -0.0015135725, 0.000512286, -0.0001617608, 0.0000478157, -0.0000132732, 0.0000034703, -0.0000008569,
        0.0000002003, -0.0000000445, 0.0000000094, -0.0000000019,
    ),
    "i0 above": (
        0.402245206, 0.0033691165, 0.0000688976, 0.0000028914, 0.0000002049, 0.0000000227, 0.0000000034,
    ),
    "i1 above": (
        0.389288118, -0.0097610975, -0.0001105889, -0.0000038826, -0.0000002512, -0.0000000263,
        -0.0000000038,
    ),
    "k0": (-0.267663697, 0.3442899, 0.0359799365, 0.0012646154, 0.0000228621, 0.0000002535, 0.0000000019),
    "k1": (-0.0640903452, -0.109169196, -0.0066368784, -0.0001682279, -0.0000023896, -0.0000000219),
    "k0 above": (
        1.22015154, -0.031448101, 0.001569884, -0.000128495, 0.00001395, -0.000001832, 0.000000277,
        -0.000000047, 0.000000009,
    ),
    "k1 above": (
        1.3603131, 0.103923737, -0.002857817, 0.000195216, -0.000019362, 0.000002406, -0.00000035,
        0.000000057, -0.00000001,
    ),
    "airy": (
        0.0607852569, 0.189960309, -0.250924387, -0.0951201401, 0.202363242, -0.0641872831, -0.0268147032,
        0.0240519043, -0.0041325916, -0.0020196818, 0.0011250769, -0.0001169754, -0.000071255, 0.0000281678,
        -0.0000017595, -0.0000014587, 0.0000004389, -0.0000000146, -0.0000000195, 0.0000000047,
    ),
    "airy above": (
        0.27769561, -0.0041729676, 0.0002066959, -0.000017281, 0.0000019281, -0.0000002606, 0.0000000405,
        -0.000000007, 0.0000000013,
    ),
    "airy p": (0.999527695, -0.0006253656, -0.0001499098, 0.000003483, 0.0000002986, -0.0000000342),
    "airy q": (
        -0.00643768441, -0.00640216434, 0.000041881744, 0.000006045832, -0.000000332363, -0.000000012792,
        0.000000003558, -0.000000000204,
    ),
}  # fmt: skip
"""Factors of Chebyshev polynomials T0, T1, ..., interpolated with 40 digits and rounded for float32.

Those of j, y and k are functions of 2 (x / end)² - 1 below the end of their lower range, of i of x / 4 - 1,
of airy of (x + 1) / 3; the others of 2 start / x - 1 from the start of their upper range on.
"""
_END, _END_K, _END_AIRY, _START_AIRY = 8.0, 2.0, 4 * math.sqrt(2) / 3, 16 / 3
_QUARTER = 0.25 * math.pi


def _summed(t: Term, name: str) -> Term:
    """Return a sum of Chebyshev polynomials (C. Clenshaw's scheme)."""
    factors = _FACTORS[name]
    last = now = t * 0
    for factor in reversed(factors[1:]):
        now, last = t * 2 * now - last + factor, now
    return t * now - last + factors[0]


def _below(x: Term, name: str, end: float) -> Term:
    """Return the smooth part of a function in its lower range; those of order 1 are odd."""
    share = x.least(end) * (1 / end)
    found = _summed(share * share * 2 - 1, name)
    return found * x if name.endswith("1") else found


def _above(x: Term, name: str, start: float) -> Term:
    """Return the amplitude of a function in its upper range."""
    return _summed(2 * start / x.most(start) - 1, name)


def _wave(x: Term, order: int, second: bool) -> Term:
    """Return J or Y in the upper range."""
    angle = x - (2 * order + 1) * _QUARTER
    p, q = _above(x, f"p{order}", _END), _above(x, f"q{order}", _END)
    sine, cosine = angle("Sin"), angle("Cos")
    turned = p * sine + q * cosine if second else p * cosine - q * sine
    return turned * ((2 / math.pi) / x.most(_END))("Sqrt")


def _first(self: Term, order: int) -> Term:
    """Return J."""
    size = abs(self)
    found = (size <= _END).where(_below(size, f"j{order}", _END), _wave(size, order, second=False))
    return (self < 0).where(-found, found) if order else found


def _second(self: Term, order: int) -> Term:
    """Return Y."""
    log = (self * 0.5)("Log") * _below(self, f"j{order}", _END)
    low = _below(self, f"y{order}", _END) + (log - 1.0 / self if order else log) * (2 / math.pi)
    found = (self <= _END).where(low, _wave(self, order, second=True))
    return self.same(0).where(-math.inf, found)


def _modified(self: Term, order: int, scaled: bool) -> Term:
    """Return I, or a scaled exp(-|x|) I."""
    size = abs(self)
    low = _summed(size.least(_END) * (2 / _END) - 1, f"i{order}")
    high = _above(size, f"i{order} above", _END) / size("Sqrt")
    found = (size <= _END).where(low * size if order else low, high)
    if not scaled:  # in halves, each of which float16 holds as far as it holds the product
        half = (size * 0.5)("Exp")
        found = found * half * half
    return (self < 0).where(-found, found) if order else found


def _modified_second(self: Term, order: int, scaled: bool) -> Term:
    """Return K, or a scaled exp(x) K."""
    log = (self * 0.5)("Log") * _modified(self.least(_END_K), order, scaled=False)
    low = _below(self, f"k{order}", _END_K) + (log + 1.0 / self if order else -log)
    high = _above(self, f"k{order} above", _END_K) / self("Sqrt")
    low, high = (low * self.least(_END_K)("Exp"), high) if scaled else (low, high * (-self)("Exp"))
    return self.same(0).where(math.inf, (self <= _END_K).where(low, high))


def _airy(x: Term) -> Term:
    size = abs(x)
    root = size.most(1)("Sqrt")
    zeta = size * 2 * root / 3
    high = _above(zeta, "airy above", _END_AIRY) * (-zeta)("Exp")
    angle = zeta + _QUARTER
    p, q = _above(zeta, "airy p", _START_AIRY), _above(zeta, "airy q", _START_AIRY)
    wave = (p * angle("Sin") + q * angle("Cos")) * math.pi**-0.5
    middle = _summed((x.most(-4).least(2) + 1) * (1 / 3), "airy")
    found = (x > 2).where(high, wave) / root("Sqrt")
    return x.is_infinite().where(math.nan, ((x >= -4) & (x <= 2)).where(middle, found))


def _of_order(order: int) -> None:
    """Register the functions of an order."""
    formulas({
        f"special_bessel_j{order}": lambda x: _first(x, order),
        f"special_bessel_y{order}": lambda x: _second(x, order),
        f"special_i{order} special_modified_bessel_i{order}": lambda x: _modified(x, order, scaled=False),
        f"special_i{order}e": lambda x: _modified(x, order, scaled=True),
        f"special_modified_bessel_k{order}": lambda x: _modified_second(x, order, scaled=False),
    }, "self", wide=True)  # fmt: skip
    formulas({
        f"special_scaled_modified_bessel_k{order}": lambda x: _modified_second(x, order, scaled=True),
    }, "x", wide=True)  # fmt: skip


_of_order(0)
_of_order(1)
formulas({"i0": lambda x: _modified(x, 0, scaled=False)}, "self", wide=True)
formulas({"special_airy_ai": _airy}, "x", wide=True)
