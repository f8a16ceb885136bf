"""Element-wise functions of TensorFlow that are not canonical operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.functions.shapes import cast, number, reshape
from xdlc.converter.functions.terms import Operand, Term, of_terms
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.dtype import INT32, INT64, UINT8
from xdlc.opdefs.elementwise_enums import FLOOR_DIV, MOD, RSQRT, SQUARED_DIFFERENCE


@of_terms
def not_equal(x: Term, y: Operand) -> Term:
    """Return x != y."""
    return x.differs(y)


@of_terms
def squared_difference(x: Term, y: Term) -> Term:
    """Return (x - y)²."""
    if not x.value.dtype.is_float:  # HTP has the operation of floats only
        return square(x - y)
    return x.native(SQUARED_DIFFERENCE, y, lambda: square(x - y))


@of_terms
def floor_div(x: Term, y: Term) -> Term:
    """Return x / y rounded down."""
    if x.value.dtype.is_float:
        return x.native(FLOOR_DIV, y, lambda: (x / y)("Floor"))
    return (x - x("Mod", y)) / y  # HTP has the operation of floats only


@of_terms
def floor_mod(x: Term, y: Term) -> Term:
    """Return the remainder of ``floor_div``, which has the sign of y."""
    if not x.value.dtype.is_float:
        return x("Mod", y)
    return x.native(MOD, y, lambda: x - floor_div(x, y) * y)


@of_terms
def truncate_div(x: Term, y: Term) -> Term:
    """Return x / y rounded towards 0."""
    quotient = x / y
    return quotient("Sign") * abs(quotient)("Floor") if x.value.dtype.is_float else quotient


@of_terms
def truncate_mod(x: Term, y: Term) -> Term:
    """Return the remainder of ``truncate_div``, which has the sign of x."""
    return x("Mod", y, fmod=1)


@of_terms
def square(x: Term) -> Term:
    """Return x²."""
    return x * x


@of_terms
def rsqrt(x: Term) -> Term:
    """Return 1 / sqrt(x)."""
    if x.value.is_static:
        return x("Sqrt")("Reciprocal")
    return Term(x.g, x.g.builder.unary("ElementWiseUnary", x.value, {"operation": ir.u32(RSQRT)}))


def where(g: Operators, condition: Value, x: Value, y: Value) -> Value:
    """Return ``x`` where the condition is true, else ``y``; all three broadcast."""
    return g("Where", [condition, x, y])


def select_rows(g: Operators, condition: Value, x: Value, y: Value) -> Value:
    """Return ``x`` where the condition is true, else ``y``; rank 1 selects rows."""
    if condition.rank == 1 and x.rank > 1:
        condition = g("Unsqueeze", [condition, range(1, x.rank)])
    return where(g, condition, x, y)


@of_terms
def div_no_nan(x: Term, y: Term) -> Term:
    """Return x / y, and 0 where y = 0."""
    is_empty = y.same(0)
    quotient = x / is_empty.where(1, y)
    return is_empty.where(0, quotient)


@of_terms
def mul_no_nan(x: Term, y: Term) -> Term:
    """Return x * y, and 0 where y = 0."""
    return y.same(0).where(0, x * y)


@of_terms
def x_div_y(x: Term, y: Term) -> Term:
    """Return x / y, and 0 where x = 0."""
    return x.same(0).where(0, x / y)


@of_terms
def x_log_y(x: Term, y: Term) -> Term:
    """Return x * log(y), and 0 where x = 0."""
    return x.same(0).where(0, x * y("Log"))


@of_terms
def x_log1p_y(x: Term, y: Term) -> Term:
    """Return x * log(1 + y), and 0 where x = 0."""
    return x_log_y(x, y + 1)


@of_terms
def atan2(y: Term, x: Term) -> Term:
    """Return the angle of the point (x, y), between -pi and pi.

    The smaller side over the larger one, since HTP has no infinite quotients.
    """
    tall, wide = abs(y), abs(x)
    is_steep = tall > wide
    least, most = is_steep.where(wide, tall), is_steep.where(tall, wide)
    angle = (least / most.same(0).where(1, most))("Atan")
    angle = is_steep.where(math.pi / 2 - angle, angle)
    turned = (x < 0).where(math.pi - angle, angle)
    return (y < 0).where(-turned, turned)


@of_terms
def expm1(x: Term) -> Term:
    """Return exp(x) - 1, exact for small x."""
    return x.expm1()


@of_terms
def log1p(x: Term) -> Term:
    """Return log(1 + x)."""
    return (x + 1)("Log")


@of_terms
def erfc(x: Term) -> Term:
    """Return 1 - erf(x)."""
    return 1.0 - x("Erf")


_GILES = (
    (2.5, (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)),
    (3.0, (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
           0.00943887047, 1.00167406, 2.83297682)),
)  # fmt: skip
"""Polynomials of w - 2.5 and sqrt(w) - 3 with w = -log(1 - x²), the first for w < 5 (M. Giles,
Approximating the erfinv function, GPU Computing Gems 2, 2010)."""


@of_terms
def erfinv(x: Term) -> Term:
    """Return the inverse error function in single precision."""
    one = Term(x.g, x.of(1))
    return erfinv_by(x, -((one - x) * (one + x))("Log"))


@of_terms
def erfinv_by(x: Term, w: Term) -> Term:
    """Return erfinv(x), with w = -log(1 - x²)."""
    sums = []
    for argument, (shift, factors) in zip((w, w("Sqrt")), _GILES, strict=True):
        moved = argument - shift
        total = Term(x.g, x.of(factors[0]))
        for factor in factors[1:]:
            total = total * moved + factor
        sums.append(total)
    inverse = (w < 5.0).where(*sums)
    is_inside = w <= float(np.finfo(np.float32).max)
    return x * is_inside.where(inverse, w)  # infinite at -1 and 1


_LANCZOS = (
    676.520368121885, -1259.1392167224, 771.323428777653, -176.61502916214,
    12.5073432786869, -0.138571095265720, 9.98436957801957e-6, 1.50563273514931e-7,
)  # fmt: skip
"""Numerators of the partial fractions with g = 7 (C. Lanczos, SIAM J. Numer. Anal. B 1, 1964)."""


@of_terms
def lgamma(x: Term) -> Term:
    """Return log |gamma(x)|, by reflection below 0.5, and exactly 0 at 1 and 2."""
    is_low = x < 0.5
    z = is_low.where(1.0 - x, x) - 1
    total = Term(x.g, x.of(0.99999999999981))
    for index, factor in enumerate(_LANCZOS, 1):
        total = total + factor / (z + index)
    t = z + 7.5
    power = (z + 0.5) * (t("Log") - 1)
    above = power + (math.log(math.sqrt(2 * math.pi)) - 7) + total("Log")
    sine = abs(((x - x("Round")) * math.pi)("Sin"))
    below = math.log(math.pi) - sine("Log") - above
    is_root = abs(x - 1.5).same(0.5)
    return is_root.where(0, is_low.where(below, above))


_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240)


@of_terms
def digamma(x: Term) -> Term:
    """Return digamma by Stirling's series from x + 6 on, by reflection below 0.5."""
    unit, is_low = Term(x.g, x.of(1)), x < 0.5
    z = is_low.where(unit - x, x)
    total = sum((unit / (z + index) for index in range(1, 6)), unit / (z + 0))
    moved = z + 6
    inverse = unit / moved
    squared = square(inverse)
    series = Term(x.g, x.of(0))
    for factor in reversed(_STIRLING):
        series = (series + factor) * squared
    above = moved("Log") - inverse * 0.5 - series - total
    angle = (x - x("Round")) * math.pi
    below = above - math.pi / is_low.where(angle("Tan"), unit)
    return is_low.where(below, above)


_USUAL_ALPHA = 16
"""Scale of Celu up to which exp(x) - 1 loses no digits."""


@of_terms
def celu(x: Term, alpha: float = 1.0) -> Term:
    """Return ``x`` above 0, else alpha * (exp(x / alpha) - 1)."""
    if 0 < alpha <= _USUAL_ALPHA:
        return x("Celu", alpha=float(alpha))
    return (x > 0).where(x, (x / alpha).expm1() * alpha)


@of_terms
def silu(x: Term, beta: float = 1.0) -> Term:
    """Return x * sigmoid(beta * x)."""
    return x * (x if beta == 1 else x * beta)("Sigmoid")


def clipped(g: Operators, x: Value, low: float | None, high: float | None) -> Value:
    """Return ``x`` limited to a range; None denotes no limit."""
    limits = [None if limit is None else number(g, x, limit) for limit in (low, high)]
    return g("Clip", [x, *limits])


@of_terms
def is_finite(x: Term) -> Term:
    """Return whether elements are neither infinite nor NaN."""
    return ~(x("IsInf") | x("IsNaN"))


@of_terms
def approximately_equal(x: Term, y: Term, tolerance: float) -> Term:
    """Return |x - y| < tolerance."""
    return abs(x - y) < tolerance


def bucketize(g: Operators, x: Value, boundaries: Sequence[float]) -> Value:
    """Return the number of boundaries at or below each element, int32."""
    if not boundaries:
        return g("Mul", [cast(g, x, INT32), np.asarray(0, np.int32)])
    limits = g.builder.const(np.asarray(boundaries, np.float32))
    column = g("Unsqueeze", [x if x.dtype.is_float else cast(g, x, limits.dtype), [-1]])
    passed = cast(g, g("GreaterOrEqual", [column, limits]), INT32)
    return g("ReduceSum", [passed, [-1]], keepdims=0)


def one_hot(g: Operators, indices: Value, depth: int, on: Value, off: Value, axis: int) -> Value:
    """Return vectors along a new axis, ``on`` at the index and ``off`` elsewhere.

    Args:
        indices: Integers; outside of 0 ... depth - 1 all elements are ``off``.
        depth: Dimension of the new axis.
        on: One element.
        off: One element.
        axis: The new axis; -1 is the last.

    Raises:
        UnsupportedOp: If the depth is too large.
    """
    check_table(depth)
    place = axis % (indices.rank + 1)
    indices = cast(g, indices, INT32) if indices.dtype.bits < 32 else indices  # which hold the depth
    row = np.arange(depth, dtype=indices.dtype.numpy).reshape((depth, *[1] * (indices.rank - place)))
    column = g("Unsqueeze", [indices, [place]])
    on, off = (value if not value.rank else reshape(g, value, ()) for value in (on, off))
    return where(g, g("Equal", [column, row]), on, off)


def converted(g: Operators, x: Value, dtype: DType) -> Value:
    """Return ``x`` cast as in C; floats wrap around in integers below 32 bits."""
    if x.dtype.is_float and dtype.is_integer and (not dtype.is_signed or dtype.bits < 32):
        x = cast(g, x, INT32 if dtype.bits < 32 else INT64)
    return cast(g, x, dtype)


def bits_as(g: Operators, x: Value, dtype: DType) -> Value:
    """Return the bits of ``x`` as another type; another width changes the last axis.

    Raises:
        ModelError: If the last axis does not hold the parts of wider elements.
    """
    from onnx.helper import np_dtype_to_tensor_dtype

    if dtype is x.dtype:
        return x
    if dtype.bits == x.dtype.bits:
        return g("BitCast", [x], to=np_dtype_to_tensor_dtype(dtype.numpy))
    few, many = sorted((dtype.bits, x.dtype.bits))
    kinds = {8: UINT8, 16: ir.dtype.UINT16, 32: ir.dtype.UINT32, 64: ir.dtype.UINT64}
    plain = bits_as(g, x, kinds[x.dtype.bits])
    shifts = np.arange(0, many, few, dtype=kinds[many].numpy)
    if dtype.bits < x.dtype.bits:
        column = g("Unsqueeze", [plain, [-1]])
        parts = g("BitShift", [column, shifts], direction="RIGHT")
        return bits_as(g, cast(g, parts, kinds[few]), dtype)
    if not x.rank or x.shape[-1] != len(shifts):
        raise ModelError(
            f"an input {x.dtype} {list(x.shape)} cannot be read as {dtype}", fix="correct the model"
        )
    parts = g("BitShift", [cast(g, plain, kinds[many]), shifts], direction="LEFT")
    pieces = [
        g("Gather", [parts, np.asarray(index, np.int64)], axis=x.rank - 1) for index in range(len(shifts))
    ]
    whole = pieces[0]
    for part in pieces[1:]:
        whole = g("BitwiseOr", [whole, part])
    return bits_as(g, whole, dtype)


def filled_like(g: Operators, x: Value, value: float) -> Value:
    """Return a value of the shape and type of ``x`` whose elements are all one number."""
    element = ir.ArrayData(number(g, x, value).numpy().reshape(1))
    return g("ConstantOfShape", [g("Shape", [x])], value=element)


def total(g: Operators, values: Sequence[Value]) -> Value:
    """Return the sum of values of one shape."""
    return values[0] if len(values) == 1 else g("Sum", list(values))
