"""Element-wise functions of TensorFlow that are not canonical operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc.shapes import cast, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, INT32, INT64, UINT8
from xdlc.opdefs.elementwise_enums import FLOOR_DIV, MOD, NOT_EQUAL, RSQRT, SQUARED_DIFFERENCE


def _binary(g: Operators, operation: int, x: Value, y: Value, formula: Callable[[], Value]) -> Value:
    """Append an operation that only QNN has; known operands are folded by a formula."""
    if x.is_static and y.is_static:
        return formula()
    dtype = BOOL8 if operation == NOT_EQUAL else None
    return g.builder.binary(operation, x, y, dtype=dtype)


def not_equal(g: Operators, x: Value, y: Value) -> Value:
    """Return x != y."""
    return _binary(g, NOT_EQUAL, x, y, lambda: g("Not", [g("Equal", [x, y])]))


def squared_difference(g: Operators, x: Value, y: Value) -> Value:
    """Return (x - y)²."""
    if not x.dtype.is_float:  # HTP has the operation of floats only
        return square(g, g("Sub", [x, y]))
    return _binary(g, SQUARED_DIFFERENCE, x, y, lambda: square(g, g("Sub", [x, y])))


def floor_div(g: Operators, x: Value, y: Value) -> Value:
    """Return x / y rounded down."""
    if x.dtype.is_float:
        return _binary(g, FLOOR_DIV, x, y, lambda: g("Floor", [g("Div", [x, y])]))
    return g("Div", [g("Sub", [x, g("Mod", [x, y])]), y])  # HTP has the operation of floats only


def floor_mod(g: Operators, x: Value, y: Value) -> Value:
    """Return the remainder of ``floor_div``, which has the sign of y."""
    if not x.dtype.is_float:
        return g("Mod", [x, y])
    return _binary(g, MOD, x, y, lambda: g("Sub", [x, g("Mul", [floor_div(g, x, y), y])]))


def truncate_div(g: Operators, x: Value, y: Value) -> Value:
    """Return x / y rounded towards 0."""
    quotient = g("Div", [x, y])
    if not x.dtype.is_float:
        return quotient
    return g("Mul", [g("Sign", [quotient]), g("Floor", [g("Abs", [quotient])])])


def truncate_mod(g: Operators, x: Value, y: Value) -> Value:
    """Return the remainder of ``truncate_div``, which has the sign of x."""
    return g("Mod", [x, y], fmod=1)


def square(g: Operators, x: Value) -> Value:
    """Return x²."""
    return g("Mul", [x, x])


def rsqrt(g: Operators, x: Value) -> Value:
    """Return 1 / sqrt(x)."""
    if x.is_static:
        return g("Reciprocal", [g("Sqrt", [x])])
    return g.builder.unary("ElementWiseUnary", x, {"operation": ir.u32(RSQRT)})


def is_zero(g: Operators, x: Value) -> Value:
    """Return x = 0."""
    return g("Equal", [x, number(g, x, 0)])


def where(g: Operators, condition: Value, x: Value, y: Value) -> Value:
    """Return ``x`` where the condition is true, else ``y``; all three broadcast."""
    return g("Where", [condition, x, y])


def select_rows(g: Operators, condition: Value, x: Value, y: Value) -> Value:
    """Return ``x`` where the condition is true, else ``y``; rank 1 selects rows."""
    if condition.rank == 1 and x.rank > 1:
        condition = g("Unsqueeze", [condition, vector(g, range(1, x.rank))])
    return where(g, condition, x, y)


def div_no_nan(g: Operators, x: Value, y: Value) -> Value:
    """Return x / y, and 0 where y = 0."""
    empty = is_zero(g, y)
    quotient = g("Div", [x, where(g, empty, number(g, y, 1), y)])
    return where(g, empty, number(g, x, 0), quotient)


def mul_no_nan(g: Operators, x: Value, y: Value) -> Value:
    """Return x * y, and 0 where y = 0."""
    return where(g, is_zero(g, y), number(g, x, 0), g("Mul", [x, y]))


def x_div_y(g: Operators, x: Value, y: Value) -> Value:
    """Return x / y, and 0 where x = 0."""
    return where(g, is_zero(g, x), number(g, x, 0), g("Div", [x, y]))


def x_log_y(g: Operators, x: Value, y: Value) -> Value:
    """Return x * log(y), and 0 where x = 0."""
    return where(g, is_zero(g, x), number(g, x, 0), g("Mul", [x, g("Log", [y])]))


def x_log1p_y(g: Operators, x: Value, y: Value) -> Value:
    """Return x * log(1 + y), and 0 where x = 0."""
    return x_log_y(g, x, g("Add", [y, number(g, y, 1)]))


def atan2(g: Operators, y: Value, x: Value) -> Value:
    """Return the angle of the point (x, y), between -pi and pi.

    The smaller side over the larger one, since HTP has no infinite quotients.
    """
    tall, wide = g("Abs", [y]), g("Abs", [x])
    is_steep = g("Greater", [tall, wide])
    least, most = where(g, is_steep, wide, tall), where(g, is_steep, tall, wide)
    angle = g("Atan", [g("Div", [least, where(g, is_zero(g, most), number(g, x, 1), most)])])
    angle = where(g, is_steep, g("Sub", [number(g, x, math.pi / 2), angle]), angle)
    turned = where(g, g("Less", [x, number(g, x, 0)]), g("Sub", [number(g, x, math.pi), angle]), angle)
    return where(g, g("Less", [y, number(g, y, 0)]), g("Neg", [turned]), turned)


def expm1(g: Operators, x: Value) -> Value:
    """Return exp(x) - 1; for |x| < 0.5 as 2 t / (1 - t) with t = tanh(x / 2)."""
    one = number(g, x, 1)
    small = g("Less", [g("Abs", [x]), number(g, x, 0.5)])
    t = g("Tanh", [g("Mul", [x, number(g, x, 0.5)])])
    close = g("Div", [g("Add", [t, t]), g("Sub", [one, where(g, small, t, number(g, x, 0))])])
    return where(g, small, close, g("Sub", [g("Exp", [x]), one]))


def log1p(g: Operators, x: Value) -> Value:
    """Return log(1 + x)."""
    return g("Log", [g("Add", [x, number(g, x, 1)])])


def erfc(g: Operators, x: Value) -> Value:
    """Return 1 - erf(x)."""
    return g("Sub", [number(g, x, 1), g("Erf", [x])])


_GILES = (
    (2.5, (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)),
    (3.0, (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
           0.00943887047, 1.00167406, 2.83297682)),
)  # fmt: skip
"""Polynomials of w - 2.5 and sqrt(w) - 3 with w = -log(1 - x²), the first for w < 5 (M. Giles,
Approximating the erfinv function, GPU Computing Gems 2, 2010)."""


def erfinv(g: Operators, x: Value) -> Value:
    """Return the inverse error function in single precision."""
    one = number(g, x, 1)
    return erfinv_by(g, x, g("Neg", [g("Log", [g("Mul", [g("Sub", [one, x]), g("Add", [one, x])])])]))


def erfinv_by(g: Operators, x: Value, w: Value) -> Value:
    """Return erfinv(x), with w = -log(1 - x²)."""
    sums = []
    for argument, (shift, factors) in zip((w, g("Sqrt", [w])), _GILES, strict=True):
        moved = g("Sub", [argument, number(g, x, shift)])
        total = number(g, x, factors[0])
        for factor in factors[1:]:
            total = g("Add", [g("Mul", [total, moved]), number(g, x, factor)])
        sums.append(total)
    found = where(g, g("Less", [w, number(g, x, 5.0)]), *sums)
    is_inside = g("LessOrEqual", [w, number(g, x, float(np.finfo(np.float32).max))])
    return g("Mul", [x, where(g, is_inside, found, w)])  # infinite at -1 and 1


_LANCZOS = (
    676.520368121885, -1259.1392167224, 771.323428777653, -176.61502916214,
    12.5073432786869, -0.138571095265720, 9.98436957801957e-6, 1.50563273514931e-7,
)  # fmt: skip
"""Numerators of the partial fractions with g = 7 (C. Lanczos, SIAM J. Numer. Anal. B 1, 1964)."""


def lgamma(g: Operators, x: Value) -> Value:
    """Return log |gamma(x)|, by reflection below 0.5, and exactly 0 at 1 and 2."""
    low = g("Less", [x, number(g, x, 0.5)])
    z = g("Sub", [where(g, low, g("Sub", [number(g, x, 1), x]), x), number(g, x, 1)])
    total = number(g, x, 0.99999999999981)
    for index, factor in enumerate(_LANCZOS, 1):
        total = g("Add", [total, g("Div", [number(g, x, factor), g("Add", [z, number(g, x, index)])])])
    t = g("Add", [z, number(g, x, 7.5)])
    power = g("Mul", [g("Add", [z, number(g, x, 0.5)]), g("Sub", [g("Log", [t]), number(g, x, 1)])])
    rest = number(g, x, math.log(math.sqrt(2 * math.pi)) - 7)
    above = g("Add", [g("Add", [power, rest]), g("Log", [total])])
    part = g("Sub", [x, g("Round", [x])])
    sine = g("Abs", [g("Sin", [g("Mul", [part, number(g, x, math.pi)])])])
    below = g("Sub", [g("Sub", [number(g, x, math.log(math.pi)), g("Log", [sine])]), above])
    is_root = g("Equal", [g("Abs", [g("Sub", [x, number(g, x, 1.5)])]), number(g, x, 0.5)])
    return where(g, is_root, number(g, x, 0), where(g, low, below, above))


_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240)


def digamma(g: Operators, x: Value) -> Value:
    """Return digamma by Stirling's series from x + 6 on, by reflection below 0.5."""
    unit, low = number(g, x, 1), g("Less", [x, number(g, x, 0.5)])
    z = where(g, low, g("Sub", [unit, x]), x)
    total: Value | None = None
    for index in range(6):
        share = g("Div", [unit, g("Add", [z, number(g, x, index)])])
        total = share if total is None else g("Add", [total, share])
    moved = g("Add", [z, number(g, x, 6)])
    inverse = g("Div", [unit, moved])
    squared = square(g, inverse)
    series = number(g, x, 0)
    for factor in reversed(_STIRLING):
        series = g("Mul", [g("Add", [series, number(g, x, factor)]), squared])
    half = g("Mul", [inverse, number(g, x, 0.5)])
    above = g("Sub", [g("Sub", [g("Sub", [g("Log", [moved]), half]), series]), total])
    angle = g("Mul", [g("Sub", [x, g("Round", [x])]), number(g, x, math.pi)])
    tangent = where(g, low, g("Tan", [angle]), unit)
    below = g("Sub", [above, g("Div", [number(g, x, math.pi), tangent])])
    return where(g, low, below, above)


def clipped(g: Operators, x: Value, low: float | None, high: float | None) -> Value:
    """Return ``x`` limited to a range; None denotes no limit."""
    limits = [None if limit is None else number(g, x, limit) for limit in (low, high)]
    return g("Clip", [x, *limits])


def is_finite(g: Operators, x: Value) -> Value:
    """Return whether elements are neither infinite nor NaN."""
    return g("Not", [g("Or", [g("IsInf", [x]), g("IsNaN", [x])])])


def approximately_equal(g: Operators, x: Value, y: Value, tolerance: float) -> Value:
    """Return |x - y| < tolerance."""
    return g("Less", [g("Abs", [g("Sub", [x, y])]), number(g, x, tolerance)])


def bucketize(g: Operators, x: Value, boundaries: Sequence[float]) -> Value:
    """Return the number of boundaries at or below each element, int32."""
    if not boundaries:
        return g("Mul", [cast(g, x, INT32), g.builder.const(np.asarray(0, np.int32))])
    limits = g.builder.const(np.asarray(boundaries, np.float32))
    column = g("Unsqueeze", [x if x.dtype.is_float else cast(g, x, limits.dtype), vector(g, [-1])])
    passed = cast(g, g("GreaterOrEqual", [column, limits]), INT32)
    return g("ReduceSum", [passed, vector(g, [-1])], keepdims=0)


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
    column = g("Unsqueeze", [indices, vector(g, [place])])
    on, off = (value if not value.rank else reshape(g, value, ()) for value in (on, off))
    return where(g, g("Equal", [column, g.builder.const(row)]), on, off)


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
        column = g("Unsqueeze", [plain, vector(g, [-1])])
        parts = g("BitShift", [column, g.builder.const(shifts)], direction="RIGHT")
        return bits_as(g, cast(g, parts, kinds[few]), dtype)
    if not x.rank or x.shape[-1] != len(shifts):
        raise ModelError(
            f"an input {x.dtype} {list(x.shape)} cannot be read as {dtype}", fix="correct the model"
        )
    parts = g("BitShift", [cast(g, plain, kinds[many]), g.builder.const(shifts)], direction="LEFT")
    pieces = [
        g("Gather", [parts, g.builder.const(np.asarray(index, np.int64))], axis=x.rank - 1)
        for index in range(len(shifts))
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
