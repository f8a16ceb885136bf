"""Formulas of values in Python's notation, and PyTorch's promotion of data types."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc import elementwise
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT64

Number: TypeAlias = Value | float
Operand: TypeAlias = "Term | Number"
F = TypeVar("F", bound=Callable[..., Any])


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
        return Term(self.g, self.g(type, [self.value, *map(self.of, more)], **attributes))

    def via(self, function: Callable[..., Value], *more: Operand) -> Term:
        """Apply a function of operators and values; this term is the first value."""
        return Term(self.g, function(self.g, self.value, *map(self.of, more)))

    def of(self, other: Operand) -> Value:
        """Return an operand as a value; a number has the data type of this term."""
        if isinstance(other, Term):
            return other.value
        return other if isinstance(other, Value) else constant(self.g, other, self.value.dtype)

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
        return self.via(elementwise.not_equal, other)

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
        """Return exp(x) - 1, exact for small x."""
        return self.via(elementwise.expm1)

    def flat(self) -> Term:
        """Return all elements as one row."""
        return self("Reshape", self.g.builder.const(np.array([-1])))

    def raised(self, axis: int) -> Term:
        """Return the term with another axis of size 1."""
        return self("Unsqueeze", self.g.builder.const(np.array([axis])))


def constant(g: Operators, value: float, dtype: DType) -> Value:
    """Return a number as a constant of rank 0; integers wrap around as in PyTorch."""
    with np.errstate(all="ignore"):
        return g.builder.const(np.asarray(value).astype(dtype.numpy))


def term(node: AtenNode, g: Operators, value: Number, *, wide: bool = False) -> Term:
    """Return a tensor or number as a term in the data type of the node's result.

    A wide one is float32 in the place of floats of 16 bits, which lack range or precision for a formula.
    """
    given = Term(g, value if isinstance(value, Value) else constant(g, value, node.dtype)).to(node.dtype)
    return given.to(FLOAT32) if wide and node.dtype.is_float else given


def formula(
    *types: str, layout: str = ANY, wide: bool = False, ignores: Sequence[str] = (), takes: Sequence[str] = ()
) -> Callable[[F], F]:
    """Register a function of terms as the handler of operators.

    Tensors become terms in the data type of the node's result, unless the function takes values, and so do
    numbers where it takes terms, and operands; wide ones are float32 in the place of floats of 16 bits.  A
    function may take the node, too, and have other names for the arguments that it ``takes``.
    """

    def register(function: F) -> F:
        own = inspect.signature(function).parameters
        taken = [slot.replace(name=name) for name, slot in zip(takes or own, own.values(), strict=True)]
        others = [slot for slot in taken if slot.name != "node"]
        forms = {slot.name: str(slot.annotation) for slot in others}

        def handle(node: AtenNode, g: Operators, **arguments: Any) -> list[Value]:
            for name, value in arguments.items():
                is_term = isinstance(value, Value) and "Value" not in forms[name]
                if is_term or (value is not None and ("Term" in forms[name] or name in ("self", "other"))):
                    arguments[name] = term(node, g, value, wide=wide)
            if len(others) < len(taken):
                arguments["node"] = node
            result = function(*(arguments[name] for name in takes)) if takes else function(**arguments)
            results = [result] if isinstance(result, Term) else result
            return [slot.value for slot in results][: len(node.outputs)]

        handle.__module__ = function.__module__
        first = list(inspect.signature(handle).parameters.values())[:2]
        setattr(handle, "__signature__", inspect.Signature([*first, *others]))  # noqa: B010
        aten(*types, layout=layout, ignores=("dtype", *ignores))(handle)
        return function

    return register


def formulas(table: Mapping[str, Callable[..., Term]], *takes: str, wide: bool = False) -> None:
    """Register functions like ``formula``; each key lists its operators."""
    for names, function in table.items():
        formula(*names.split(), wide=wide, takes=takes)(function)


def operator(node: AtenNode) -> str:
    """Return the name of a node's operator without its overload."""
    return node.type.partition(".")[0]


def promoted(operands: Sequence[Number]) -> DType:
    """Return the data type in which PyTorch combines operands.

    Tensors with axes decide; those of rank 0, and then Python's numbers, count only where they are of a
    higher kind: floats above integers above bools (PyTorch, "Type promotion" of its tensor attributes).
    """
    tensors = [x for x in operands if isinstance(x, Value)]
    numbers = [x for x in operands if not isinstance(x, Value)]
    dtypes: list[DType] = []
    for group in (
        [x.dtype for x in tensors if x.rank],
        [x.dtype for x in tensors if not x.rank],
        [BOOL8 if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32 for x in numbers],
    ):
        top = max(map(_level, group), default=-1)
        if top > max(map(_level, dtypes), default=-1):
            dtypes = [dtype for dtype in group if _level(dtype) == top]
    return ir.dtype.from_numpy(np.result_type(*(dtype.numpy for dtype in dtypes)))


def _level(dtype: DType) -> int:
    return 2 if dtype.is_float else 1 if dtype.is_integer else 0


def together(g: Operators, *operands: Number) -> tuple[Term, ...]:
    """Return operands as terms of the data type in which PyTorch combines them."""
    dtype = promoted(operands)
    return tuple(
        Term(g, one if isinstance(one, Value) else constant(g, one, dtype)).to(dtype) for one in operands
    )
