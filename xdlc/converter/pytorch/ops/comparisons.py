"""Handlers of comparisons, logic, bits, masked selection and sorted search."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdlc.converter.functions.terms import Number, Term, constant
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import formulas, operator, term, together
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64

_COMPARISONS: dict[str, Callable[[Term, Term], Term]] = {
    "eq": Term.same, "ne": Term.differs, "not_equal": Term.differs,
    "ge": Term.__ge__, "greater_equal": Term.__ge__, "gt": Term.__gt__, "greater": Term.__gt__,
    "le": Term.__le__, "less_equal": Term.__le__, "lt": Term.__lt__, "less": Term.__lt__,
}  # fmt: skip


@aten(*_COMPARISONS, layout=ANY)
def _compare(node: AtenNode, g: Operators, self: Value, other: Number) -> Value:
    x, y = together(g, self, other)
    return _COMPARISONS[operator(node)](x.ordered(), y.ordered()).value


def _all(x: Term) -> Term:
    """Return whether all conditions are true, as a scalar."""
    return x.to(INT32)("ReduceMin", keepdims=0).to(BOOL8) if x.value.rank else x


@aten("equal")
def _equal(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    x, y = together(g, self, other)
    return _all(x.same(y)).value if self.dims == other.dims else constant(g, False, BOOL8)


@aten("isclose", "allclose", layout=ANY)
def _isclose(
    node: AtenNode, g: Operators, self: Value, other: Value, rtol: float, atol: float, equal_nan: bool
) -> Value:
    """Compare within a tolerance relative to the second tensor.

    Infinity is close to itself alone.
    """
    x, y = together(g, self, other)
    first, second = (x, y) if x.value.dtype.is_float else (x.to(FLOAT32), y.to(FLOAT32))
    gap = abs(first - second)
    near = x.same(y) | ((gap <= abs(second) * rtol + atol) & (gap < math.inf))
    if equal_nan:
        near = near | (first.is_nan() & second.is_nan())
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
    "signbit": Term.is_negative,
}


@aten(*_PREDICATES, layout=ANY)
def _predicate(node: AtenNode, g: Operators, self: Value) -> Value:
    return _PREDICATES[operator(node)](Term(g, self).ordered()).value


@aten("is_nonzero")
def _is_nonzero(node: AtenNode, g: Operators, self: Value) -> Value:
    return Term(g, self)("Reshape", []).holds().value


@aten("logical_not", layout=ANY)
def _logical_not(node: AtenNode, g: Operators, self: Value) -> Value:
    x = Term(g, self)
    return (~x if self.dtype is BOOL8 else x.same(0)).value


_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


@aten(*_LOGICAL, layout=ANY)
def _logical(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return Term(g, self).holds()(_LOGICAL[operator(node)], Term(g, other).holds()).value


def _bitwise(type: str) -> Callable[[Term, Term], Term]:
    """Return a bitwise operator that is a logical operator for bools."""
    return lambda x, y: x(type if x.value.dtype is BOOL8 else f"Bitwise{type}", y)


def _bitwise_not(self: Term) -> Term:
    dtype = self.value.dtype
    return ~self if dtype is BOOL8 else (-1 if dtype.is_signed else dtype.limits[1]) - self


def _shifted(x: Term, y: Term, direction: str) -> Term:
    """Return shifted integers; floats are multiplied by powers of two."""
    if not x.value.dtype.is_float:
        return x("BitShift", y, direction=direction)
    return x * 2.0**y if direction == "LEFT" else x / 2.0**y


formulas({"bitwise_not": _bitwise_not})
formulas({
    "bitwise_and __and__": _bitwise("And"),
    "bitwise_or __or__": _bitwise("Or"),
    "bitwise_xor __xor__": _bitwise("Xor"),
    "bitwise_left_shift __lshift__": lambda x, y: _shifted(x, y, "LEFT"),
    "bitwise_right_shift __rshift__": lambda x, y: _shifted(x, y, "RIGHT"),
}, "self", "other")  # fmt: skip


@aten("where.self", "where.Scalar", "where.ScalarOther", "where.ScalarSelf", layout=ANY)
def _where(node: AtenNode, g: Operators, condition: Value, self: Number, other: Number) -> Value:
    mask = Term(g, condition).holds().value
    return g("Where", [mask, term(node, g, self).value, term(node, g, other).value])


@aten("masked_fill", layout=ANY)
def _masked_fill(node: AtenNode, g: Operators, self: Value, mask: Value, value: Number) -> Value:
    return _where(node, g, mask, value, self)


def _counted(x: Term) -> Term:
    """Return the number of true conditions along the last axis, int64."""
    return x.to(INT64)("ReduceSum", [-1], keepdims=0)


@aten("isin", ignores=("assume_unique",))
def _isin(
    node: AtenNode,
    g: Operators,
    invert: bool,
    elements: Number = 0,
    element: float = 0,
    test_elements: Number = 0,
    test_element: float = 0,
) -> Value:
    x, y = together(g, elements or element, test_elements or test_element)
    found = _counted(x.ordered().raised(-1).same(y.ordered().flat())) > 0
    return (~found if invert else found).value


def _place(x: Term, limits: Term, right: bool) -> Term:
    """Count the limits, along the last axis, below x, or from the right not above it."""
    x = x.raised(-1)
    return _counted(~(x < limits) if right else ~(x <= limits))


@aten("bucketize", ignores=("out_int32",))
def _bucketize(node: AtenNode, g: Operators, self: Number, boundaries: Value, right: bool) -> Value:
    x, limits = together(g, self, boundaries)
    return _place(x, limits, right).value


@aten("searchsorted", ignores=("out_int32",))
def _searchsorted(
    node: AtenNode,
    g: Operators,
    sorted_sequence: Value,
    self: Number,
    right: bool,
    side: str | None,
    sorter: Value | None,
) -> Value:
    """Count the elements below each value, in rows of sequences or in one for all."""
    if sorter is not None:
        sorted_sequence = g("GatherElements", [sorted_sequence, sorter], axis=sorted_sequence.rank - 1)
    x, limits = together(g, self, sorted_sequence)
    limits = limits.raised(-2) if limits.value.rank > 1 else limits
    return _place(x, limits, right or side == "right").value
