"""Handlers of element-wise functions of one tensor, and of conversions of types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc import elementwise as nhwc
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, term, wide_term
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32

NUMBERS = {FLOAT32: 1, INT32: 6}
"""Numbers of data types in ONNX's TensorProto.DataType."""

_SAME = """
    alias clone conj conj_physical contiguous detach lift lift_fresh lift_fresh_copy positive real
    resolve_conj resolve_neg pin_memory _conj_physical
"""
"""Operators that change nothing of real tensors."""


@aten(*_SAME.split(), layout=ANY)
def _same(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("Identity", [self])


_TO = """
    _to_copy to type_as _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long
    _cast_Short
"""


@aten(*_TO.split(), layout=ANY, ignores=("dtype", "other", "copy"))
def _to(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("Identity", [self]) if self.dtype is node.dtype else nhwc.converted(g, self, node.dtype)


# ---------------------------------------------------------------------------------- one tensor


def _sinh(x: Term) -> Term:
    half = math.log(2)
    large = (x - half)("Exp") - (-x - half)("Exp")
    return (abs(x) < 1).where((x.expm1() - (-x).expm1()) * 0.5, large)


def _asinh(x: Term) -> Term:
    size = abs(x)
    near = size.least(1e9)
    small = (near + near * near / ((near * near + 1)("Sqrt") + 1)).log1p()
    return signed((size > 1e9).where(size("Log") + math.log(2), small), x)


def _acosh(x: Term) -> Term:
    more = (x < 1).where(math.nan, x.least(1e9) - 1)
    return (x > 1e9).where(x("Log") + math.log(2), (more + (more * (more + 2))("Sqrt")).log1p())


def signed(size: Term, like: Term) -> Term:
    """Return numbers with the sign of others, zeros too: a selection on the host loses theirs."""
    return size * like.is_negative().where(size.of(-1), 1)


def _sign(x: Term) -> Term:
    return x.is_nan().where(0, x("Sign")) if x.value.dtype.is_float else x("Sign")


def truncated(x: Term) -> Term:
    """Return numbers without their fractions."""
    return x if not x.value.dtype.is_float else signed(abs(x)("Floor"), x)


def _whole(type: str) -> Callable[[Term], Term]:
    """Return a rounding, which changes no integers."""
    return lambda x: x(type) if x.value.dtype.is_float else x


def _sinc(x: Term) -> Term:
    angle = (x.same(0)).where(1, x) * math.pi
    return x.same(0).where(1, angle("Sin") / angle)


def _angle(x: Term) -> Term:
    return x.is_nan().where(x, (x < 0).where(x.of(math.pi), 0))


def _canonical(type: str) -> Callable[[Term], Term]:
    return lambda x: x(type)


_CANONICAL = {
    name: type
    for names, type in {
        "abs absolute": "Abs", "acos arccos": "Acos", "asin arcsin": "Asin", "atan arctan": "Atan",
        "cos": "Cos", "cosh": "Cosh", "erf special_erf": "Erf", "exp": "Exp", "log": "Log",
        "neg negative": "Neg", "reciprocal": "Reciprocal", "relu": "Relu",
        "sigmoid special_expit": "Sigmoid", "sin": "Sin", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
    }.items()
    for name in names.split()
}  # fmt: skip
_FORMULAS = ("Acos", "Cosh", "Tan")
"""Operators that are formulas of others on QNN."""
_UNARY: dict[str, Callable[[Term], Term]] = {
    **{name: _canonical(type) for name, type in _CANONICAL.items()},
    "acosh": _acosh, "arccosh": _acosh, "asinh": _asinh, "arcsinh": _asinh,
    "angle": _angle,
    "atanh": lambda x: (x.log1p() - (-x).log1p()) * 0.5,
    "arctanh": lambda x: (x.log1p() - (-x).log1p()) * 0.5,
    "ceil": _whole("Ceil"), "floor": _whole("Floor"), "round": _whole("Round"),
    "deg2rad": lambda x: x * (math.pi / 180),
    "exp2": lambda x: (x * math.log(2))("Exp"), "special_exp2": lambda x: (x * math.log(2))("Exp"),
    "expm1": Term.expm1, "special_expm1": Term.expm1,
    "fix": truncated, "trunc": truncated,
    "frac": lambda x: x - truncated(x),
    "log1p": Term.log1p, "special_log1p": Term.log1p,
    "log10": lambda x: x("Log") * (1 / math.log(10)),
    "log2": lambda x: x("Log") * (1 / math.log(2)),
    "rad2deg": lambda x: x * (180 / math.pi),
    "rsqrt": lambda x: x.via(nhwc.rsqrt),
    "sgn": _sign, "sign": _sign,
    "sinc": _sinc, "special_sinc": _sinc,
    "sinh": _sinh,
    "square": lambda x: x * x,
}  # fmt: skip
"""Operators of one tensor: what their results are made of."""


@aten(*_UNARY, layout=ANY)
def _unary(node: AtenNode, g: Operators, self: Value) -> Value:
    name = operator(node)
    if self.dtype is BOOL8 and name in ("sign", "sgn", "abs"):
        return self
    is_one = name in _CANONICAL and _CANONICAL[name] not in _FORMULAS
    return _UNARY[name]((term if is_one else wide_term)(node, g, self)).value


@aten("round.decimals", "special_round", layout=ANY)
def _round(node: AtenNode, g: Operators, self: Value, decimals: int) -> Value:
    x = term(node, g, self)
    if not self.dtype.is_float or not decimals:
        return _UNARY["round"](x).value
    factor = 10.0 ** abs(decimals)
    return ((x * factor)("Round") / factor if decimals > 0 else (x / factor)("Round") * factor).value


@aten("nan_to_num", layout=ANY)
def _nan_to_num(
    node: AtenNode, g: Operators, self: Value, nan: float | None, posinf: float | None, neginf: float | None
) -> Value:
    x = term(node, g, self)
    if not self.dtype.is_float:
        return self
    most = 3.3895313892515355e38 if self.dtype.name == "bfloat16" else float(np.finfo(self.dtype.numpy).max)
    known = x.is_nan().where(nan or 0.0, x)
    known = known.same(math.inf).where(most if posinf is None else posinf, known)
    return known.same(-math.inf).where(-most if neginf is None else neginf, known).value


_BIAS, _STEP = 126, 1 << 23
"""Exponent of the floats from 0.5 to 1, and the distance of two exponents, in the bits of float32."""


def as_bits(x: Term) -> Term:
    """Return the bits of float32 as int32.

    Raises:
        UnsupportedOp: If it is of another type.
    """
    if x.value.dtype is not FLOAT32:
        raise UnsupportedOp(f"bits of {x.value.dtype}", fix="convert to float32 before")
    return x("BitCast", to=NUMBERS[INT32])


@aten("frexp", layout=ANY)
def _frexp(node: AtenNode, g: Operators, self: Value) -> Sequence[Value]:
    x = Term(g, self)
    is_small = abs(x) < float(np.finfo(np.float32).tiny)  # whose exponents are not in the bits
    bits = as_bits(is_small.where(abs(x) * 2.0**24, abs(x)))
    exponent = bits / _STEP
    mantissa = signed((bits - (exponent - _BIAS) * _STEP)("BitCast", to=NUMBERS[FLOAT32]), x)
    is_odd = x.same(0) | x.is_nan() | x.is_infinite()
    power = is_small.where(exponent - (_BIAS + 24), exponent - _BIAS)
    return [is_odd.where(x, mantissa).value, is_odd.where(0, power).value]
