"""Handlers of comparisons, logic, bits, selections by masks, and places in sorted sequences."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdlc.converter.nhwc.shapes import vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, constant, operator, term, together
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64

# ---------------------------------------------------------------------------------- comparisons

_COMPARISONS: dict[str, Callable[[Term, Term], Term]] = {
    name: compare
    for names, compare in {
        "eq": Term.same,
        "ge greater_equal": lambda x, y: x >= y,
        "gt greater": lambda x, y: x > y,
        "le less_equal": lambda x, y: x <= y,
        "lt less": lambda x, y: x < y,
        "ne not_equal": Term.differs,
    }.items()
    for name in names.split()
}


@aten(*_COMPARISONS, layout=ANY)
def _compare(node: AtenNode, g: Operators, self: Value, other: Value | float) -> Value:
    x, y = together(g, self, other)
    if x.value.dtype is BOOL8:
        x, y = x.to(INT32), y.to(INT32)
    return _COMPARISONS[operator(node)](x, y).value


def _all(x: Term) -> Term:
    """Return whether all of some conditions hold, as one of rank 0."""
    return x.to(INT32)("ReduceMin", keepdims=0).to(BOOL8) if x.value.rank else x


@aten("equal")
def _equal(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = together(g, self, other)
    if self.dims != other.dims:
        return constant(g, False, BOOL8)
    return _all(x.same(y)).value


@aten("isclose", "allclose", layout=ANY)
def _isclose(
    node: AtenNode, g: Operators, self: Value, other: Value, rtol: float, atol: float, equal_nan: bool
) -> Value:
    """Compare with a tolerance in proportion to the second tensor; infinity is close to itself alone."""
    x, y = together(g, self, other)
    if not x.value.dtype.is_float:
        near = abs(x.to(FLOAT32) - y.to(FLOAT32)) <= (abs(y.to(FLOAT32)) * rtol + atol)
        near = near | x.same(y)
    else:
        gap = abs(x - y)
        near = x.same(y) | ((gap <= abs(y) * rtol + atol) & (gap < math.inf))
        if equal_nan:
            near = near | (x.is_nan() & y.is_nan())
    return (_all(near) if operator(node) == "allclose" else near).value


def _fits(bound: float) -> Callable[[Term], Term]:
    return lambda x: x.same(bound) if x.value.dtype.is_float else x.differs(x)


_PREDICATES: dict[str, Callable[[Term], Term]] = {
    "isfinite": lambda x: abs(x) < math.inf if x.value.dtype.is_float else x.same(x),
    "isinf": Term.is_infinite,
    "isnan": Term.is_nan,
    "isneginf": _fits(-math.inf),
    "isposinf": _fits(math.inf),
    "isreal": lambda x: x.same(x) | x.differs(x),
    "logical_not": lambda x: x.same(0) if x.value.dtype is not BOOL8 else ~x,
    "signbit": Term.is_negative,
}


@aten(*_PREDICATES, layout=ANY)
def _predicate(node: AtenNode, g: Operators, self: Value) -> Value:
    x = Term(g, self)
    if self.dtype is BOOL8 and operator(node) != "logical_not":
        x = x.to(INT32)
    return _PREDICATES[operator(node)](x).value


@aten("is_nonzero")
def _is_nonzero(node: AtenNode, g: Operators, self: Value) -> Value:
    x = Term(g, g("Reshape", [self, vector(g, [])]))
    return x.value if self.dtype is BOOL8 else x.differs(0).value


# ---------------------------------------------------------------------------------- logic and bits

_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


@aten(*_LOGICAL, layout=ANY)
def _logical(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = (Term(g, one) if one.dtype is BOOL8 else Term(g, one).differs(0) for one in (self, other))
    return x(_LOGICAL[operator(node)], y).value


_BITWISE = {
    name: type for type in ("And", "Or", "Xor") for name in (f"bitwise_{type.lower()}", f"__{type.lower()}__")
}


@aten(*_BITWISE, layout=ANY)
def _bitwise(node: AtenNode, g: Operators, self: Value | float, other: Value | float) -> Value:
    type = _BITWISE[operator(node)]
    x, y = term(node, g, self), term(node, g, other)
    return x(type if node.dtype is BOOL8 else f"Bitwise{type}", y).value


@aten("bitwise_not", layout=ANY)
def _bitwise_not(node: AtenNode, g: Operators, self: Value) -> Value:
    x = Term(g, self)
    if self.dtype is BOOL8:
        return (~x).value
    return ((-1 if self.dtype.is_signed else self.dtype.limits[1]) - x).value


@aten("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", layout=ANY)
def _shift(node: AtenNode, g: Operators, self: Value | float, other: Value | float) -> Value:
    """Shift integers, the sign of those to the right; floats are multiplied by powers of two."""
    x, y = term(node, g, self), term(node, g, other)
    is_left = "left" in node.type or "lshift" in node.type
    if node.dtype.is_float:
        factor = 2.0**y
        return (x * factor if is_left else x / factor).value
    return x("BitShift", y, direction="LEFT" if is_left else "RIGHT").value


# ---------------------------------------------------------------------------------- masks


@aten("where.self", "where.Scalar", "where.ScalarOther", "where.ScalarSelf", layout=ANY)
def _where(
    node: AtenNode, g: Operators, condition: Value, self: Value | float, other: Value | float
) -> Value:
    mask = condition if condition.dtype is BOOL8 else Term(g, condition).differs(0).value
    return g("Where", [mask, term(node, g, self).value, term(node, g, other).value])


@aten("masked_fill", layout=ANY)
def _masked_fill(node: AtenNode, g: Operators, self: Value, mask: Value, value: Value | float) -> Value:
    mask = mask if mask.dtype is BOOL8 else Term(g, mask).differs(0).value
    return g("Where", [mask, term(node, g, value).value, term(node, g, self).value])


@aten("_masked_scale", layout=ANY)
def _masked_scale(node: AtenNode, g: Operators, self: Value, mask: Value, scale: float) -> Value:
    return (term(node, g, self) * term(node, g, mask) * scale).value


# ---------------------------------------------------------------------------------- membership and places


def _column(x: Term) -> Term:
    """Return a term with another axis of size 1 at its end."""
    return Term(x.g, x.g("Unsqueeze", [x.value, vector(x.g, [-1])]))


def _row(x: Term) -> Term:
    """Return the elements of a term as one row."""
    return Term(x.g, x.g("Reshape", [x.value, vector(x.g, [-1])]))


def counted(x: Term) -> Term:
    """Return the number of conditions along the last axis that hold, int64."""
    return x.to(INT64)("ReduceSum", vector(x.g, [-1]), keepdims=0)


@aten("isin")
def _isin(
    node: AtenNode,
    g: Operators,
    elements: Value | None = None,
    element: float | None = None,
    test_elements: Value | None = None,
    test_element: float | None = None,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    first = element if elements is None else elements
    second = test_element if test_elements is None else test_elements
    assert first is not None
    assert second is not None
    x, y = together(g, first, second)
    if x.value.dtype is BOOL8:
        x, y = x.to(INT32), y.to(INT32)
    found = counted(_column(x).same(_row(y))) > 0
    return (~found if invert else found).value


@aten("bucketize")
def _bucketize(
    node: AtenNode, g: Operators, self: Value | float, boundaries: Value, out_int32: bool, right: bool
) -> Value:
    x, limits = together(g, self, boundaries)
    return _place(_column(x), limits, right).to(INT32 if out_int32 else INT64).value


def _place(x: Term, limits: Term, right: bool) -> Term:
    """Return the number of limits, along the last axis, below x, or, from the right, not above it."""
    return counted(~(x < limits) if right else ~(x <= limits))


@aten("searchsorted")
def _searchsorted(
    node: AtenNode,
    g: Operators,
    sorted_sequence: Value,
    self: Value | float,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Value | None,
) -> Value:
    """Count the elements of a sequence before each value: sequences are rows, or one for all values."""
    if sorter is not None:
        axis = {"axis": sorted_sequence.rank - 1}
        sorted_sequence = g.apply("GatherElements", [sorted_sequence, sorter], axis)[0]
    x, limits = together(g, self, sorted_sequence)
    if limits.value.rank > 1:
        limits = Term(g, g("Unsqueeze", [limits.value, vector(g, [-2])]))
    return _place(_column(x), limits, right or side == "right").to(INT32 if out_int32 else INT64).value
