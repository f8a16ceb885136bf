"""Values of expressions for one op: shapes, types, parameters, as far as they are known.

Numbers are exact: ``/`` gives a fraction.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from xdlc.opdefs.constraint_parser import Node
from xdlc.opdefs.eval_budget import spend
from xdlc.opdefs.op_view import TensorSpec

Value = Any
"""int, float, Fraction, str, DType, Place, or a list of values, None for an element that is not known."""
LARGEST = 1 << 63
MOST_ELEMENTS = 1 << 20
"""Most elements of a static tensor that a rule looks at."""


class UnknownError(Exception):
    """A value that is not known, or that makes no sense for what there is."""


class Enumerator(str):
    """Name of an enumeration's value, which also compares as its number."""

    number: int

    def __new__(cls, name: str, number: int) -> Enumerator:
        made = super().__new__(cls, name)
        made.number = number
        return made


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output, or all tensors of a Repeated one.

    Attributes:
        tensors: What is there; None for one that is left out.
        repeated: Whether it is a Repeated one.
    """

    tensors: tuple[TensorSpec | None, ...]
    repeated: bool = False


class Scope(Protocol):
    """Where names find their values."""

    @property
    def extents(self) -> Mapping[str, Value]:
        """Named extents that are known."""

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
    if node.kind in ("number", "text"):
        return node.value
    if node.kind == "name":
        return scope.lookup(str(node.value))
    if node.kind == "extent":
        if node.value not in scope.extents:
            raise UnknownError
        return scope.extents[str(node.value)]
    if node.kind in ("list", "set", "range"):
        return [evaluate(part, scope) for part in node.parts]
    if node.kind == "index":
        return _index(node, scope)
    if node.kind == "call":
        return _call(node, scope)
    if node.kind == "sign":
        return _spread(operator.neg, evaluate(node.parts[0], scope))
    if node.kind == "sum":
        one, other = (evaluate(part, scope) for part in node.parts)
        if isinstance(one, Place) or isinstance(other, Place):
            one, other = (_elements(value) if isinstance(value, Place) else value for value in (one, other))
        return _spread(lambda a, b: _arithmetic(str(node.value), a, b), one, other)
    raise UnknownError


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
    if not -LARGEST < result < LARGEST or (isinstance(result, Fraction) and result.denominator > LARGEST):
        raise UnknownError
    return int(result) if isinstance(result, Fraction) and result.denominator == 1 else result


def _arithmetic(sign: str, one: Any, other: Any) -> Value:
    if sign in ("/", "//", "%") and other == 0:
        raise UnknownError
    if sign == "/":
        exact = not isinstance(one, float) and not isinstance(other, float)
        return Fraction(one) / Fraction(other) if exact else one / other
    functions = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}
    return functions.get(sign, operator.mod)(one, other)


def _index(node: Node, scope: Scope) -> Value:
    base, key = node.parts
    index = evaluate(key, scope)
    if not isinstance(index, int):
        raise UnknownError
    if base.kind == "name":
        place = scope.place(str(base.value), index)
        if place is not None:
            return place
    held = evaluate(base, scope)
    if isinstance(held, Place):
        if held.repeated:
            if not 0 <= index < len(held.tensors):
                raise UnknownError
            return Place((held.tensors[index],))
        held = _elements(held)
    if not isinstance(held, list) or not -len(held) <= index < len(held):
        raise UnknownError
    return held[index]


def _call(node: Node, scope: Scope) -> Value:
    name = str(node.value)
    if name == "broadcast":
        return _broadcast([_listed(evaluate(part, scope)) for part in node.parts])
    if name in ("min", "max"):
        values = [evaluate(part, scope) for part in node.parts]
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if None in items:
            return None
        if not items or not all(isinstance(item, int | float | Fraction) for item in items):
            raise UnknownError
        return min(items) if name == "min" else max(items)
    if name in ("sum", "prod", "len"):
        return _over(name, node.parts, scope)
    if name in ("abs", "floor", "ceil"):
        functions: dict[str, Callable[..., Value]] = {"abs": abs, "floor": math.floor, "ceil": math.ceil}
        function = functions[name]
        return _spread(function, *(evaluate(part, scope) for part in node.parts[:1]))
    if name in ("extent", "dim") and len(node.parts) < 3:
        subject = scope.lookup("shape") if len(node.parts) == 1 else _about("shape", node.parts[0], scope)
        index = evaluate(node.parts[-1], scope)
        if not isinstance(index, int) or not -len(subject) <= index < len(subject):
            raise UnknownError
        return subject[index]
    if len(node.parts) != 1:
        raise UnknownError
    return _about(name, node.parts[0], scope)


def _over(name: str, operands: Sequence[Node], scope: Scope) -> Value:
    """Return sum, product or length of a list, and the length of a Repeated input or output."""
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
    extents = extents_of(value)
    return {"rank": len(extents), "shape": extents, "size": math.prod(extents)}.get(what)


def about(what: str, place: Place) -> Value:
    """Return rank, shape, size, data type, number or value of what is at a place."""
    found: list[Value]
    if what == "number":
        return sum(tensor is not None for tensor in place.tensors)
    functions = {"shape": _shape, "datatype": _datatype, "value": _elements}
    if what in functions:
        return functions[what](place)
    shape = _shape(place)
    shapes = shape if place.repeated else [shape]
    if what == "rank":
        found = [len(one) for one in shapes]
    else:
        found = [None if None in one else math.prod(one) for one in shapes]
    return found if place.repeated else found[0]


def extents_of(value: Value) -> list[int]:
    """Return the extents of nested lists whose rows are alike."""
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
    count = math.prod(extent or 0 for extent in tensor.shape)
    if tensor.data is None or others or count > MOST_ELEMENTS or not tensor.dtype.bits:
        raise UnknownError
    if tensor.dtype.is_fixed:
        raise UnknownError  # the reals that stored integers stand for are not known here
    return plain(tensor.data.numpy())


def plain(array: Any) -> Value:
    """Return an array as numbers in nested lists; a float is exact."""
    if array.size > MOST_ELEMENTS:
        raise UnknownError
    spend(array.size)
    return array.tolist()


def _listed(value: Value) -> list[Value]:
    if isinstance(value, Place):
        value = _shape(value)
    if not isinstance(value, list) or any(isinstance(item, list) for item in value):
        raise UnknownError
    return value


def _broadcast(shapes: Sequence[list[Value]]) -> list[Value]:
    if not shapes:
        raise UnknownError
    result: list[Value] = []
    for axis in range(-max(map(len, shapes)), 0):
        extents = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        if len(extents - {None}) > 1:
            raise UnknownError
        known = extents - {None}
        result.append(known.pop() if known else (None if extents else 1))
    return result
