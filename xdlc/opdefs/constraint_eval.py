"""Values of constraint expressions for an op, as far as they are known.

Numbers are exact: ``/`` results in a fraction.
Evaluation is charged to a budget, against untrusted definitions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, Protocol

from xdlc.opdefs.constraint_parser import Node
from xdlc.opdefs.op_view import TensorSpec
from xdlc.records import record

MAX_STEPS = 1 << 24
"""Most numbers that the constraints of one op may read: half a minute at worst."""


class TooManyStepsError(Exception):
    """Constraints need more steps than the limit."""


class EvalBudget:
    """Remaining steps of evaluation.

    Args:
        steps: Most numbers to read.

    Example:
        >>> budget = EvalBudget(2)
        >>> with budget.charged():
        ...     spend(3)
        Traceback (most recent call last):
            ...
        xdlc.opdefs.constraint_eval.TooManyStepsError
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Charge the evaluation inside the context to the budget.

        Raises:
            TooManyStepsError: If the budget is exceeded.
        """
        token = _BUDGET.set(self)
        try:
            yield
        finally:
            _BUDGET.reset(token)


_BUDGET: ContextVar[EvalBudget | None] = ContextVar("budget", default=None)


def spend(steps: int = 1) -> None:
    """Subtract steps from the budget; outside ``EvalBudget.charged`` they are free.

    Raises:
        TooManyStepsError: If the budget is exceeded.
    """
    budget = _BUDGET.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise TooManyStepsError


Value = Any
"""int, float, Fraction, str, DType, Place, or a list of values, None for an element that is not known."""
MAX_NUMBER = 1 << 63
MAX_ELEMENTS = 1 << 20
"""Most elements of a static tensor that a constraint reads."""
_FUNCTIONS: dict[str, Callable[..., Value]] = {"abs": abs, "floor": math.floor, "ceil": math.ceil}


class UnknownError(Exception):
    """A value that is not known, or that the op does not have."""


class Enumerator(str):
    """Name of an enumeration value, which also compares equal to its number."""

    number: int

    def __new__(cls, name: str, number: int) -> Enumerator:
        made = super().__new__(cls, name)
        made.number = number
        return made


@record(frozen=True)
class Place:
    """An input or output, or all tensors of a Repeated one.

    Attributes:
        tensors: The tensors; None for one that is missing.
        dim: Size of the dimension of the same name, None if it is dynamic; empty if missing.
    """

    tensors: tuple[TensorSpec | None, ...]
    repeated: bool = False
    dim: tuple[int | None, ...] = ()

    @property
    def number(self) -> Value:
        """Value as a number: the dimension of this name, else the elements."""
        return self.dim[0] if self.dim else about("value", self)


class Scope(Protocol):
    """Bindings of names."""

    @property
    def dims(self) -> Mapping[str, Value]:
        """Sizes of named dimensions."""

    def lookup(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            UnknownError: If it is not known.
        """

    def place(self, name: str, index: int) -> Place | None:
        """Return the tensor ``name[index]``, or None if that names no tensor."""


def evaluate(node: Node, scope: Scope) -> Value:
    """Return the value of an expression.

    Raises:
        UnknownError: If it is not known.
    """
    kind = node.kind
    if kind in ("number", "text"):
        return node.value
    if kind == "name":
        return scope.lookup(str(node.value))
    if kind == "index":
        return _index(node, scope)
    if kind == "call":
        return _call(node, scope)
    if kind in ("list", "set", "range"):
        values = (evaluate(part, scope) for part in node.parts)
        return [value.number if isinstance(value, Place) and value.dim else value for value in values]
    if kind == "sign":
        return _spread(operator.neg, _number(node.parts[0], scope))
    if kind == "sum":
        one, other = (_number(part, scope) for part in node.parts)
        return _spread(lambda a, b: _arithmetic(str(node.value), a, b), one, other)
    raise UnknownError


def _number(node: Node, scope: Scope) -> Value:
    value = evaluate(node, scope)
    return value.number if isinstance(value, Place) else value


def _spread(function: Callable[..., Value], *values: Value) -> Value:
    """Apply a function to numbers, or to lists of them element by element."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    if len(lengths) > 1:
        raise UnknownError
    if lengths:
        (length,) = lengths
        rows = [value if isinstance(value, list) else [value] * length for value in values]
        return [_spread(function, *items) for items in zip(*rows, strict=True)]
    spend()
    if any(value is None for value in values):
        return None
    if not all(isinstance(value, int | float | Fraction) and math.isfinite(value) for value in values):
        raise UnknownError
    result = function(*values)
    if not -MAX_NUMBER < result < MAX_NUMBER or (
        isinstance(result, Fraction) and result.denominator > MAX_NUMBER
    ):
        raise UnknownError
    return int(result) if isinstance(result, Fraction) and result.denominator == 1 else result


def _arithmetic(sign: str, left: Any, right: Any) -> Value:
    if sign in ("/", "//", "%") and right == 0:
        raise UnknownError
    if sign == "/":
        exact = not isinstance(left, float) and not isinstance(right, float)
        return Fraction(left) / Fraction(right) if exact else left / right
    functions = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}
    return functions.get(sign, operator.mod)(left, right)


def _index(node: Node, scope: Scope) -> Value:
    base, key = node.parts
    index = evaluate(key, scope)
    if not isinstance(index, int):
        raise UnknownError
    if base.kind == "name":
        place = scope.place(str(base.value), index)
        if place is not None:
            return place
    container = evaluate(base, scope)
    if isinstance(container, Place):
        if container.repeated:
            if not 0 <= index < len(container.tensors):
                raise UnknownError
            return Place((container.tensors[index],))
        container = about("value", container)
    if not isinstance(container, list) or not -len(container) <= index < len(container):
        raise UnknownError
    return container[index]


def _call(node: Node, scope: Scope) -> Value:
    name = str(node.value)
    if name == "broadcast":
        return _broadcast([_listed(evaluate(part, scope)) for part in node.parts])
    if name in ("min", "max"):
        values = [_number(part, scope) for part in node.parts]
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if None in items:
            return None
        if not items or not all(isinstance(item, int | float | Fraction) for item in items):
            raise UnknownError
        return min(items) if name == "min" else max(items)
    if name in ("sum", "prod", "len"):
        return _over(name, node.parts, scope)
    if name in _FUNCTIONS:
        return _spread(_FUNCTIONS[name], *(_number(part, scope) for part in node.parts[:1]))
    if name in ("extent", "dim") and len(node.parts) < 3:
        return _dim(node.parts, scope)
    if len(node.parts) != 1:
        raise UnknownError
    return _about(name, node.parts[0], scope)


def _dim(operands: Sequence[Node], scope: Scope) -> Value:
    """Return a dimension of a tensor, or a list for a Repeated one."""
    subject = scope.lookup("shape") if len(operands) == 1 else _about("shape", operands[0], scope)
    index = evaluate(operands[-1], scope)
    if not isinstance(index, int) or not isinstance(subject, list):
        raise UnknownError
    if subject and isinstance(subject[0], list):
        return [shape[index] for shape in subject if -len(shape) <= index < len(shape)]
    if not -len(subject) <= index < len(subject):
        raise UnknownError
    return subject[index]


def _over(name: str, operands: Sequence[Node], scope: Scope) -> Value:
    """Return sum, product or length of a list or a Repeated place."""
    (value, *others) = [evaluate(part, scope) for part in operands] or [None]
    if name == "len" and isinstance(value, Place) and value.repeated and not others:
        return about("number", value)
    if (
        not isinstance(value, list)
        or others
        or (name != "len" and any(isinstance(one, list) for one in value))
    ):
        raise UnknownError
    if name == "len":
        return len(value)
    total: Value = 0 if name == "sum" else 1
    for item in value:
        total = _spread(operator.add if name == "sum" else operator.mul, total, item)
    return total


def _about(what: str, operand: Node, scope: Scope) -> Value:
    value = evaluate(operand, scope)
    if isinstance(value, Place):
        return about(what, value)
    if not isinstance(value, list):
        raise UnknownError
    if what == "number":
        return len(value)
    dims = dims_of(value)
    return {"rank": len(dims), "shape": dims, "size": math.prod(dims)}.get(what)


def about(what: str, place: Place) -> Value:
    """Return rank, shape, size, data type, number or value of the tensors of a place."""
    values: list[Value]
    if what == "number":
        return sum(tensor is not None for tensor in place.tensors)
    functions = {"shape": _shape, "datatype": _datatype, "value": _elements}
    if what in functions:
        return functions[what](place)
    shape = _shape(place)
    shapes = shape if place.repeated else [shape]
    if what == "rank":
        values = [len(one) for one in shapes]
    else:
        values = [None if None in one else math.prod(one) for one in shapes]
    return values if place.repeated else values[0]


def dims_of(value: Value) -> list[int]:
    """Return the dimensions of nested lists whose rows are alike."""
    found = []
    while isinstance(value, list):
        found.append(len(value))
        value = value[0] if value else None
    return found


def _present(place: Place) -> list[TensorSpec]:
    present = [tensor for tensor in place.tensors if tensor is not None]
    if not present:
        raise UnknownError
    return present


def _shape(place: Place) -> Value:
    shapes = [list(tensor.shape) for tensor in _present(place)]
    return shapes if place.repeated else shapes[0]


def _datatype(place: Place) -> Value:
    types = [tensor.dtype for tensor in _present(place)]
    return types if place.repeated else types[0]


def _elements(place: Place) -> Value:
    (tensor, *others) = _present(place)
    count = math.prod(size or 0 for size in tensor.shape)
    if tensor.data is None or others or count > MAX_ELEMENTS or not tensor.dtype.bits:
        raise UnknownError
    if tensor.dtype.is_fixed:
        raise UnknownError  # float values of quantized elements are not known here
    return plain(tensor.data)


def plain(array: Any) -> Value:
    """Return an array, or data, as numbers in nested lists; a float is exact."""
    size = math.prod(array.shape)
    if size > MAX_ELEMENTS:
        raise UnknownError
    spend(size)
    return array.tolist()


def _listed(value: Value) -> list[Value]:
    if isinstance(value, Place):
        value = _shape(value)
    if not isinstance(value, list) or any(isinstance(item, list) for item in value):
        raise UnknownError
    return value


def _broadcast(shapes: Sequence[list[Value]]) -> Value:
    """Return the broadcast shape, or a text if the shapes do not broadcast."""
    if not shapes:
        raise UnknownError
    result: list[Value] = []
    for axis in range(-max(map(len, shapes)), 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        known = sizes - {None}
        if len(known) > 1:
            return f"no shape, as {' and '.join(map(str, shapes))} do not broadcast"
        result.append(known.pop() if known else (None if sizes else 1))
    return result
