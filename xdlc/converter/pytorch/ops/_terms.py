"""Formulas of values in Python's notation, and PyTorch's promotion of data types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc import elementwise
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.registry import AtenNode
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT64

Operand: TypeAlias = "Term | Value | float"


class Term:
    """A value in a formula: Python's operators apply canonical ones, numbers take its data type.

    Args:
        g: The canonical operators.
        value: The value.
    """

    __slots__ = ("g", "value")

    def __init__(self, g: Operators, value: Value) -> None:
        self.g = g
        self.value = value

    def __call__(self, type: str, *more: Operand, **attributes: Any) -> Term:
        """Apply a canonical operator of one result, this term its first operand."""
        return Term(self.g, self.g(type, [self.value, *map(self.of, more)], **attributes))

    def via(self, function: Callable[..., Value], *more: Operand) -> Term:
        """Apply a function of the operators and values, this term the first of these."""
        return Term(self.g, function(self.g, self.value, *map(self.of, more)))

    def of(self, other: Operand) -> Value:
        """Return an operand as a value; a number in the data type of this term."""
        if isinstance(other, Term):
            return other.value
        return other if isinstance(other, Value) else constant(self.g, other, self.value.dtype)

    def to(self, dtype: DType) -> Term:
        """Return the term in another data type."""
        return Term(self.g, self.g.builder.cast(self.value, dtype))

    def where(self, yes: Operand, no: Operand) -> Term:
        """Return ``yes`` where this condition holds, else ``no``; one of both is no number."""
        like = next(Term(self.g, self.of(one)) for one in (yes, no) if isinstance(one, Term | Value))
        return Term(self.g, self.g("Where", [self.value, like.of(yes), like.of(no)]))

    def _from(self, other: Operand) -> Term:
        return Term(self.g, self.of(other))

    def __add__(self, other: Operand) -> Term:
        return self("Add", other)

    def __radd__(self, other: float) -> Term:
        return self._from(other)("Add", self)

    def __sub__(self, other: Operand) -> Term:
        return self("Sub", other)

    def __rsub__(self, other: float) -> Term:
        return self._from(other)("Sub", self)

    def __mul__(self, other: Operand) -> Term:
        return self("Mul", other)

    def __rmul__(self, other: float) -> Term:
        return self("Mul", other)

    def __truediv__(self, other: Operand) -> Term:
        return self("Div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self._from(other)("Div", self)

    def __pow__(self, other: Operand) -> Term:
        return self("Pow", other)

    def __rpow__(self, other: float) -> Term:
        return self._from(other)("Pow", self)

    def __neg__(self) -> Term:
        return self("Neg")

    def __abs__(self) -> Term:
        return self("Abs")

    def __lt__(self, other: Operand) -> Term:
        return self("Less", other)

    def __le__(self, other: Operand) -> Term:
        return self("LessOrEqual", other)

    def __gt__(self, other: Operand) -> Term:
        return self("Greater", other)

    def __ge__(self, other: Operand) -> Term:
        return self("GreaterOrEqual", other)

    def same(self, other: Operand) -> Term:
        """Return where the elements are equal."""
        return self("Equal", other)

    def differs(self, other: Operand) -> Term:
        """Return where the elements are not equal."""
        return self.via(elementwise.not_equal, other)

    def __and__(self, other: Term) -> Term:
        return self("And", other)

    def __or__(self, other: Term) -> Term:
        return self("Or", other)

    def __xor__(self, other: Term) -> Term:
        return self("Xor", other)

    def __invert__(self) -> Term:
        return self("Not")

    def most(self, other: Operand) -> Term:
        """Return the greater of two elements."""
        return self("Max", other)

    def least(self, other: Operand) -> Term:
        """Return the lesser of two elements."""
        return self("Min", other)

    def is_nan(self) -> Term:
        """Return where floats are no numbers."""
        return self("IsNaN") if self.value.dtype.is_float else self.differs(self)

    def is_infinite(self) -> Term:
        """Return where elements are infinite."""
        return abs(self).same(math.inf) if self.value.dtype.is_float else self.differs(self)

    def log1p(self) -> Term:
        """Return log(1 + x), exact for small x: log(u) * x / (u - 1) with u = 1 + x as rounded (W. Kahan)."""
        whole = self + 1
        gap = whole - 1
        is_large = abs(self) > 0.5
        rounded_off = gap.same(0)
        small = whole("Log") * (self / rounded_off.where(1, gap))
        return is_large.where(whole("Log"), rounded_off.where(self, small))

    def expm1(self) -> Term:
        """Return exp(x) - 1, exact for small x."""
        return self.via(elementwise.expm1)

    def is_negative(self) -> Term:
        """Return where the sign bit is set, -0.0 included."""
        if not self.value.dtype.is_float:
            return self < 0
        return (self < 0) | (self.same(0) & ((1.0 / self) < 0))


def constant(g: Operators, value: float, dtype: DType) -> Value:
    """Return a number as a constant of rank 0; integers wrap around as in PyTorch."""
    with np.errstate(all="ignore"):
        return g.builder.const(np.asarray(value).astype(dtype.numpy))


def term(node: AtenNode, g: Operators, value: Value | float) -> Term:
    """Return a tensor or a number as a term in the data type of the node's result."""
    if isinstance(value, Value):
        return Term(g, g.builder.cast(value, node.dtype))
    return Term(g, constant(g, value, node.dtype))


def wide_term(node: AtenNode, g: Operators, value: Value | float) -> Term:
    """Return a term like ``term``, but floats of 16 bits as float32, in which PyTorch computes formulas."""
    found = term(node, g, value)
    return found.to(FLOAT32) if node.dtype.is_float and node.dtype.bits == 16 else found


def operator(node: AtenNode) -> str:
    """Return the name of a node's operator without its overload."""
    return node.type.partition(".")[0]


def promoted(operands: Sequence[Value | float]) -> DType:
    """Return the data type in which PyTorch combines operands.

    Tensors with axes decide; those of rank 0, and then Python's numbers, count only where they are of a
    higher kind: floats above integers above bools (PyTorch, "Type promotion" of its tensor attributes).
    """
    tensors = [one for one in operands if isinstance(one, Value)]
    groups = [
        [one.dtype for one in tensors if one.rank],
        [one.dtype for one in tensors if not one.rank],
        [_of_number(one) for one in operands if not isinstance(one, Value)],
    ]
    found: DType | None = None
    for group in groups:
        for dtype in [_common(group)] if group else []:
            if found is None or _level(dtype) > _level(found):
                found = dtype
    assert found is not None
    return found


def _of_number(value: float) -> DType:
    return BOOL8 if isinstance(value, bool) else INT64 if isinstance(value, int) else FLOAT32


def _level(dtype: DType) -> int:
    return 2 if dtype.is_float else 1 if dtype.is_integer else 0


def _common(dtypes: Sequence[DType]) -> DType:
    """Return the data type of elements of several types of one rank."""
    top = max(map(_level, dtypes))
    kept = {dtype.name: dtype for dtype in dtypes if _level(dtype) == top}
    if len(kept) == 1:
        return next(iter(kept.values()))
    if top == 2:
        return FLOAT32  # the two of 16 bits have it in common
    return ir.dtype.from_numpy(np.result_type(*(dtype.numpy for dtype in kept.values())))


def together(g: Operators, *operands: Value | float) -> tuple[Term, ...]:
    """Return operands as terms of the data type in which PyTorch combines them."""
    dtype = promoted(operands)
    return tuple(
        Term(g, g.builder.cast(one, dtype) if isinstance(one, Value) else constant(g, one, dtype))
        for one in operands
    )
