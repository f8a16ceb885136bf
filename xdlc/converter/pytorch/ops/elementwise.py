"""Handlers of element-wise unary functions and casts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xdlc.converter.functions import elementwise
from xdlc.converter.functions.terms import Term, of_one
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import formula, formulas
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32

_CASTS = [f"_cast_{name}" for name in ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")]


@aten("_to_copy", "to", "type_as", *_CASTS, layout=ANY, ignores=("dtype", "other", "copy"))
def _to(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("Identity", [self]) if self.dtype is node.dtype else elementwise.converted(g, self, node.dtype)


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
    """Multiply numbers by the signs of others; a host selection loses signs of 0."""
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
    "rsqrt": lambda x: x.via(elementwise.rsqrt),
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


_BIAS, _STEP = 126, 1 << 23
"""Exponent of the floats from 0.5 to 1, and the distance of two exponents, in the bits of float32."""


def bits(x: Term, dtype: DType) -> Term:
    """Return the bits of elements as another type of 32 bits."""
    return Term(x.g, elementwise.bits_as(x.g, x.value, dtype))


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


@formula("logit", "special_logit")
def _logit(self: Term, eps: float | None) -> Term:
    x = self
    if eps is not None and eps >= 0:  # of limits that cross the lower one wins
        x = self.most(eps).least(1 - eps) if eps <= 0.5 else (self < eps).where(eps, self.least(1 - eps))
    return (x / (1.0 - x))("Log")
