"""Values with Python operators, for functions of several canonical operators."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, overload

from xdlc import ir
from xdlc.converter import builder
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import NOT_EQUAL

Number: TypeAlias = Value | float
Operand: TypeAlias = "Term | builder.Operand"


def of_one(type: str) -> Callable[[Term], Term]:
    """Return a canonical operator of one operand."""
    return lambda self: self(type)


def of_two(type: str) -> Callable[[Term, Operand], Term]:
    """Return a canonical operator of two operands."""
    return lambda self, other: self(type, other)


def _reflected(type: str) -> Callable[[Term, float], Term]:
    return lambda self, other: Term(self.g, self.of(other))(type, self)


class Term:
    """A value with Python operators, which apply canonical operators.

    Numbers get its data type.
    """

    __slots__ = ("g", "value")

    def __init__(self, g: Operators, value: Value) -> None:
        self.g = g
        self.value = value

    def __call__(self, type: str, *more: Operand, **attributes: Any) -> Term:
        """Apply a canonical operator with one result; this term is the first operand."""
        operands = [item.value if isinstance(item, Term) else item for item in more]
        return Term(self.g, self.g(type, [self.value, *operands], **attributes))

    def via(self, function: Callable[..., Value], *more: Operand) -> Term:
        """Apply a function of operators and values; this term is the first value."""
        return Term(self.g, function(self.g, self.value, *map(self.of, more)))

    def native(
        self, operation: int, other: Operand, formula: Callable[[], Term], dtype: DType | None = None
    ) -> Term:
        """Append an operation that only QNN has; a formula folds known operands."""
        operand = self.of(other)
        if self.value.is_static and operand.is_static:
            return formula()
        return Term(self.g, self.g.builder.binary(operation, self.value, operand, dtype=dtype))

    def of(self, other: Operand) -> Value:
        """Return an operand as a value; a number has the data type of this term."""
        if isinstance(other, Term):
            return other.value
        return self.g.builder.operand(other, self.value.dtype)

    def to(self, dtype: DType) -> Term:
        """Return the term in another data type."""
        return Term(self.g, self.g.builder.cast(self.value, dtype))

    def where(self, yes: Operand, no: Operand) -> Term:
        """Return ``yes`` where the condition is true, else ``no``; one must be a tensor."""
        like = next(Term(self.g, self.of(one)) for one in (yes, no) if isinstance(one, Term | Value))
        return Term(self.g, self.g("Where", [self.value, like.of(yes), like.of(no)]))

    __add__, __radd__ = of_two("Add"), of_two("Add")
    __sub__, __rsub__ = of_two("Sub"), _reflected("Sub")
    __mul__, __rmul__ = of_two("Mul"), of_two("Mul")
    __truediv__, __rtruediv__ = of_two("Div"), _reflected("Div")
    __pow__, __rpow__ = of_two("Pow"), _reflected("Pow")
    __neg__, __abs__, __invert__ = of_one("Neg"), of_one("Abs"), of_one("Not")
    __and__, __or__, __xor__ = of_two("And"), of_two("Or"), of_two("Xor")
    __lt__, __le__ = of_two("Less"), of_two("LessOrEqual")
    __gt__, __ge__ = of_two("Greater"), of_two("GreaterOrEqual")
    same, most, least = of_two("Equal"), of_two("Max"), of_two("Min")

    def differs(self, other: Operand) -> Term:
        """Return where the elements are not equal."""
        return self.native(NOT_EQUAL, other, lambda: ~self.same(other), dtype=BOOL8)

    def is_nan(self) -> Term:
        """Return where floats are NaN."""
        return self("IsNaN") if self.value.dtype.is_float else self.differs(self)

    def is_infinite(self) -> Term:
        """Return where elements are infinite."""
        return abs(self).same(math.inf) if self.value.dtype.is_float else self.differs(self)

    def is_negative(self) -> Term:
        """Return where the sign bit is set, -0.0 included."""
        if not self.value.dtype.is_float:
            return self < 0
        return (self < 0) | (self.same(0) & ((1.0 / self) < 0))

    def holds(self) -> Term:
        """Return where elements are true: bools that are, and numbers that are not 0."""
        return self if self.value.dtype is BOOL8 else self.differs(0)

    def ordered(self) -> Term:
        """Return bools as integers, which have an order."""
        return self.to(ir.dtype.INT32) if self.value.dtype is BOOL8 else self

    def log1p(self) -> Term:
        """Return log(1 + x), exact for small x.

        W. Kahan: log(u) * x / (u - 1) with u = 1 + x as rounded.
        """
        whole = self + 1
        gap = whole - 1
        rounded_off = gap.same(0)
        small = whole("Log") * (self / rounded_off.where(1, gap))
        return (abs(self) > 0.5).where(whole("Log"), rounded_off.where(self, small))

    def expm1(self) -> Term:
        """Return exp(x) - 1, as 2 t / (1 - t) with t = tanh(x / 2) for small x."""
        one, is_small = self.of(1), abs(self) < 0.5
        t = (self * 0.5)("Tanh")
        close = (t + t) / (Term(self.g, one) - is_small.where(t, 0))
        return is_small.where(close, self("Exp") - one)

    def flat(self) -> Term:
        """Return all elements as one row."""
        return self("Reshape", [-1])

    def raised(self, axis: int) -> Term:
        """Return the term with another axis of size 1."""
        return self("Unsqueeze", [axis])


class Function(Protocol):
    """A function of terms that also applies to values."""

    @overload
    def __call__(self, x: Term, /, *more: Any, **options: Any) -> Term: ...

    @overload
    def __call__(self, g: Operators, /, *values: Any, **options: Any) -> Value: ...


def of_terms(function: Callable[..., Term]) -> Function:
    """Let a function of terms also be called with the operators and values."""

    @functools.wraps(function)
    def apply(first: Any, /, *operands: Any, **options: Any) -> Any:
        if isinstance(first, Term):
            return function(first, *operands, **options)
        terms = (Term(first, item) if isinstance(item, Value) else item for item in operands)
        return function(*terms, **options).value

    return apply


def constant(g: Operators, value: float, dtype: DType) -> Value:
    """Return a number as a constant of rank 0; integers wrap around as in PyTorch."""
    return g.builder.operand(value, dtype)
