"""Handlers of element-wise unary functions, activations, casts, error functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.nhwc.shapes import axis_of, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import Term, formula, formulas, of_one
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.opdefs.elementwise_enums import SOFTPLUS

ROOT_2 = math.sqrt(2)


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
    below = (_scaled(x.least(-1) * (-1 / ROOT_2)) * 0.5)("Log") - x * x * 0.5
    return (x < -1).where(below, (erfc(x * (1 / ROOT_2)) * -0.5).log1p())


def _ndtr(x: Term) -> Term:
    return erfc(x * (-1 / ROOT_2)) * 0.5


def _ndtri(x: Term) -> Term:
    """Return the normal distribution's quantile: the smaller tail and a Newton step."""
    tail = x.least(1 - x)
    w = -(tail * (1 - tail) * 4)("Log")
    first = (tail * 2 - 1).via(nhwc.erfinv_by, w) * ROOT_2
    near = first.is_infinite().where(0, first)
    density = (near * near * -0.5)("Exp") * (1 / math.sqrt(2 * math.pi))
    found = first.is_infinite().where(first, near - (_ndtr(near) - tail) / density)
    return (x > 0.5).where(-found, found)


def _digamma(x: Term) -> Term:
    """Return the derivative of log(gamma(x)), which is undefined for integers below 0."""
    found = ((x < 0) & x.same(x("Floor"))).where(math.nan, x.via(nhwc.digamma))
    return x.same(0).where(-1.0 / x, found)


def _log_gamma(x: Term) -> Term:
    return x.is_infinite().where(math.inf, x.is_infinite().where(1, x).via(nhwc.lgamma))


formulas({
    "digamma special_digamma special_psi": _digamma,
    "erfc special_erfc": erfc, "special_erfcx": _erfcx,
    "erfinv special_erfinv": lambda x: x.via(nhwc.erfinv),
    "lgamma special_gammaln": _log_gamma,
    "special_entr": lambda x: (x < 0).where(-math.inf, -x.via(nhwc.x_log_y, x)),
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
        raise UnsupportedOp(f"a derivative of order {n} does not fit single precision", fix="use a lower one")
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
        raise UnsupportedOp(f"a sum of {p} logarithms", fix="use a lower dimension")
    total = _log_gamma(self)
    for index in range(1, p):
        total = total + _log_gamma(self - index / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


_CASTS = [f"_cast_{name}" for name in ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")]


@aten("_to_copy", "to", "type_as", *_CASTS, layout=ANY, ignores=("dtype", "other", "copy"))
def _to(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("Identity", [self]) if self.dtype is node.dtype else nhwc.converted(g, self, node.dtype)


_SAME = """
    alias clone conj conj_physical contiguous detach lift lift_fresh lift_fresh_copy positive real
    resolve_conj resolve_neg pin_memory _conj_physical
"""
"""Operators that change nothing of real tensors."""


@aten(*_SAME.split(), layout=ANY)
def _same(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("Identity", [self])


formulas({
    "abs absolute": lambda x: x if x.value.dtype is BOOL8 else abs(x),
    "asin arcsin": of_one("Asin"), "atan arctan": of_one("Atan"), "cos": of_one("Cos"),
    "erf special_erf": of_one("Erf"), "exp": of_one("Exp"), "hardswish": of_one("HardSwish"),
    "log": of_one("Log"), "mish": of_one("Mish"), "neg negative": of_one("Neg"),
    "reciprocal": of_one("Reciprocal"), "relu": of_one("Relu"), "selu": of_one("Selu"),
    "sigmoid special_expit": of_one("Sigmoid"), "sin": of_one("Sin"), "sqrt": of_one("Sqrt"),
    "tanh": of_one("Tanh"),
}, "self")  # fmt: skip


def signed(size: Term, like: Term) -> Term:
    """Return numbers with the signs of others, including zeros."""
    return size * like.is_negative().where(size.of(-1), 1)


def truncated(x: Term) -> Term:
    """Return numbers without their fractions."""
    return signed(abs(x)("Floor"), x) if x.value.dtype.is_float else x


def _asinh(x: Term) -> Term:
    size = abs(x)
    near = size.least(1e9)
    small = (near + near * near / ((near * near + 1)("Sqrt") + 1)).log1p()
    return signed((size > 1e9).where(size("Log") + math.log(2), small), x)


def _acosh(x: Term) -> Term:
    more = (x < 1).where(math.nan, x.least(1e9) - 1)
    return (x > 1e9).where(x("Log") + math.log(2), (more + (more * (more + 2))("Sqrt")).log1p())


def _sinh(x: Term) -> Term:
    half = math.log(2)
    large = (x - half)("Exp") - (-x - half)("Exp")
    return (abs(x) < 1).where((x.expm1() - (-x).expm1()) * 0.5, large)


def _sign(x: Term) -> Term:
    if x.value.dtype is BOOL8:
        return x
    return x.is_nan().where(0, x("Sign")) if x.value.dtype.is_float else x("Sign")


def _sinc(x: Term) -> Term:
    angle = x.same(0).where(1, x) * math.pi
    return x.same(0).where(1, angle("Sin") / angle)


def _rounded(type: str) -> Callable[[Term], Term]:
    """Return a rounding function that passes integers on unchanged."""
    return lambda x: x(type) if x.value.dtype.is_float else x


formulas({
    "acos arccos": of_one("Acos"), "cosh": of_one("Cosh"), "tan": of_one("Tan"),
    "acosh arccosh": _acosh,
    "angle": lambda x: x.is_nan().where(x, (x < 0).where(x.of(math.pi), 0)),
    "asinh arcsinh": _asinh,
    "atanh arctanh": lambda x: (x.log1p() - (-x).log1p()) * 0.5,
    "ceil": _rounded("Ceil"), "floor": _rounded("Floor"), "round": _rounded("Round"),
    "deg2rad": lambda x: x * (math.pi / 180), "rad2deg": lambda x: x * (180 / math.pi),
    "exp2 special_exp2": lambda x: (x * math.log(2))("Exp"),
    "expm1 special_expm1": Term.expm1,
    "fix trunc": truncated,
    "frac": lambda x: x - truncated(x),
    "log1p special_log1p": Term.log1p,
    "log10": lambda x: x("Log") * (1 / math.log(10)), "log2": lambda x: x("Log") * (1 / math.log(2)),
    "rsqrt": lambda x: x.via(nhwc.rsqrt),
    "sgn sign": _sign,
    "sinc special_sinc": _sinc,
    "sinh": _sinh,
    "square": lambda x: x * x,
}, "self", wide=True)  # fmt: skip


@formula("round.decimals", "special_round")
def _round(self: Term, decimals: int) -> Term:
    factor = 10.0 ** abs(decimals)
    if not self.value.dtype.is_float or not decimals:
        return _rounded("Round")(self)
    return (self * factor)("Round") / factor if decimals > 0 else (self / factor)("Round") * factor


@formula("nan_to_num")
def _nan_to_num(self: Term, nan: float | None, posinf: float | None, neginf: float | None) -> Term:
    dtype = self.value.dtype
    if not dtype.is_float:
        return self
    most = float(dtype.float_info.max)
    known = self.is_nan().where(nan or 0.0, self)
    known = known.same(math.inf).where(most if posinf is None else posinf, known)
    return known.same(-math.inf).where(-most if neginf is None else neginf, known)


_USUAL_ALPHA = 16
_BIAS, _STEP = 126, 1 << 23
"""Exponent of the floats from 0.5 to 1, and the distance of two exponents, in the bits of float32."""


def bits(x: Term, dtype: DType) -> Term:
    """Return the bits of elements as another type of 32 bits."""
    return Term(x.g, nhwc.bits_as(x.g, x.value, dtype))


@formula("frexp", wide=True)
def _frexp(self: Term) -> list[Term]:
    x = self
    is_small = abs(x) < float(np.finfo(np.float32).tiny)  # whose exponents are not in the bits
    held = bits(is_small.where(abs(x) * 2.0**24, abs(x)), INT32)
    exponent = held / _STEP
    mantissa = signed(bits(held - (exponent - _BIAS) * _STEP, FLOAT32), x)
    is_odd = x.same(0) | x.is_nan() | x.is_infinite()
    power = is_small.where(exponent - (_BIAS + 24), exponent - _BIAS)
    return [is_odd.where(x, mantissa), is_odd.where(0, power)]


def _clipped(self: Term, min_val: float = 0, max_val: float = 6) -> Term:
    is_float = self.value.dtype.is_float
    return self("Clip", min_val, max_val) if is_float else self.most(min_val).least(max_val)


def _celu(self: Term, alpha: float) -> Term:
    if 0 < alpha <= _USUAL_ALPHA:
        return self("Celu", alpha=float(alpha))
    return (self > 0).where(self, (self / alpha).expm1() * alpha)  # exp(x) - 1 would lose digits


formulas({
    "celu": _celu,
    "gelu": lambda self, approximate: self("Gelu", approximate=approximate),
    "hardshrink": lambda self, lambd: ((self >= -lambd) & (self <= lambd)).where(0, self),
    "hardsigmoid": lambda self: self("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hardtanh": _clipped,
    "leaky_relu": lambda self, negative_slope: self("LeakyRelu", alpha=float(negative_slope)),
    "relu6": lambda self: _clipped(self),
    "silu": lambda self: self * self("Sigmoid"),
    "softshrink": lambda self, lambd: (
        (self > lambd).where(self - lambd, (self < -lambd).where(self + lambd, self * 0))
    ),
    "threshold": lambda self, threshold, value: (self <= threshold).where(value, self),
})  # fmt: skip


@formula("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", ignores=("noise",))
def _rrelu(self: Term, lower: float, upper: float) -> Term:
    """Map with the slope for inference, which is the mean of the training slopes."""
    return self("LeakyRelu", alpha=(lower + upper) / 2)


@aten("prelu", "_prelu_kernel", layout=ANY)
def _prelu(node: AtenNode, g: Operators, self: Value, weight: Value) -> Value:
    """Map slopes, shared or one per channel of axis 1."""
    if weight.size == 1:
        weight = reshape(g, weight, (1,) if self.rank else ())
    elif weight.rank == 1 and self.rank > 1:
        weight = reshape(g, weight, (weight.size, *[1] * (self.rank - 2)))
    return g("PRelu", [self, weight])


@formula("elu")
def _elu(self: Term, alpha: float, scale: float, input_scale: float) -> Term:
    """Map ``scale`` x above 0, ``scale alpha`` (exp(``input_scale`` x) - 1) below."""
    if input_scale == 1:
        bent = self("Elu", alpha=float(alpha))
        return bent if scale == 1 else bent * scale
    below = (self.least(0) * input_scale).expm1() * (alpha * scale)
    return (self > 0).where(self * scale, below)


@formula("softplus")
def _softplus(self: Term, beta: float, threshold: float) -> Term:
    """Map log(1 + exp(beta x)) / beta, and x where beta x exceeds the threshold."""
    is_usual = (beta, threshold) == (1, 20)  # log(1 + exp(20)) is 20 in single precision
    if is_usual or threshold <= 0 or self.value.is_static:  # QNN's threshold -1 denotes none
        bent = self("Softplus") if beta == 1 else (self * beta)("Softplus") / beta
        return bent if is_usual else (self * beta > threshold).where(self, bent)
    params = {"operation": ir.u32(SOFTPLUS), "beta": ir.f32(beta), "threshold": ir.f32(threshold)}
    return self.via(lambda g, x: g.builder.unary("ElementWiseNeuron", x, params))


@formula("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(self: Term) -> list[Term]:
    """Map -log(1 + exp(-x)); the second result serves the gradient."""
    return [-(-self)("Softplus"), (-abs(self))("Exp")]


@aten("glu")
def _glu(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    if self.dims is not None and (self.dims[axis_of(dim, self.rank)] or 0) % 2:
        raise node.invalid(f"axis {dim} of shape {list(self.dims)} cannot be halved")
    first, second = g.apply("Split", [self], {"axis": axis_of(dim, self.rank), "num_outputs": 2}, 2)
    return g("Mul", [first, g("Sigmoid", [second])])


@formula("logit", "special_logit")
def _logit(self: Term, eps: float | None) -> Term:
    x = self
    if eps is not None and eps >= 0:  # of limits that cross the lower one wins
        x = self.most(eps).least(1 - eps) if eps <= 0.5 else (self < eps).where(eps, self.least(1 - eps))
    return (x / (1.0 - x))("Log")
