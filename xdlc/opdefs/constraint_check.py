"""Whether a rule holds for one op, and what was found if it does not.

A list compares with a number element by element, and all must hold.  What is not known (a tensor that
is left out, an open extent) decides nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from xdlc.ir.dtype import FLOAT32, UNDEFINED, DType
from xdlc.opdefs.constraint_eval import Enumerator, Place, Scope, UnknownError, Value, about, evaluate
from xdlc.opdefs.constraint_parser import Node
from xdlc.opdefs.eval_budget import spend


@dataclass(frozen=True, slots=True)
class Failure:
    """A comparison that does not hold.

    Attributes:
        expected: The comparison.
        found: Values of its sides.
    """

    expected: str
    found: str


def check(node: Node, scope: Scope) -> Failure | None:
    """Return why a rule does not hold; None if it does, or if that is not known."""
    if node.kind == "compare":
        return _compare(node, scope)
    if node.kind == "and":
        return next((failure for part in node.parts if (failure := check(part, scope))), None)
    if node.kind == "or":
        failures = [check(part, scope) for part in node.parts]
        found = "; ".join(dict.fromkeys(failure.found for failure in failures if failure))
        return Failure(node.source, found) if all(failures) else None
    (part,) = node.parts
    if check(part, scope) is not None or not _decided(part, scope):
        return None
    return Failure(node.source, f"{part.source} holds")


def _decided(node: Node, scope: Scope) -> bool:
    if node.kind != "compare":
        return all(_decided(part, scope) for part in node.parts)
    try:
        return all(_holds(*pair, scope) is not None for pair in _pairs(node))
    except UnknownError:
        return False


def _pairs(node: Node) -> list[tuple[str, Node, Node]]:
    relations = node.value if isinstance(node.value, tuple) else ()
    return list(zip(relations, node.parts, node.parts[1:], strict=False))


def _compare(node: Node, scope: Scope) -> Failure | None:
    for relation, left, right in _pairs(node):
        try:
            if _holds(relation, left, right, scope) is False:
                return Failure(node.source, _found(left, right, scope))
        except UnknownError:
            continue
    return None


def _found(left: Node, right: Node, scope: Scope) -> str:
    pair = _alike(evaluate(left, scope), evaluate(right, scope))
    words = [
        f"{node.source} is {shown(value)}"
        for node, value in zip((left, right), pair, strict=True)
        if node.kind not in ("number", "text", "list", "set", "range")
    ]
    return " and ".join(dict.fromkeys(words)) or f"{left.source} and {right.source}"


def shown(value: Value) -> str:
    """Return a value as messages write it."""
    if isinstance(value, list):
        texts = [shown(item) for item in value[:16]] + ["..."] * (len(value) > 16)
        return f"[{', '.join(texts)}]"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, float):
        return f"{value:g}"
    return "?" if value is None else str(value)


def _holds(relation: str, left: Node, right: Node, scope: Scope) -> bool | None:
    """Return whether two values stand in a relation, None if that is not known."""
    one = evaluate(left, scope)
    if relation == "in" and right.kind in ("list", "set", "range"):
        bounds = [evaluate(part, scope) for part in right.parts]
        if right.kind == "range":
            low, high = (sign if sign in "[]" else "" for sign in str(right.value))
            above = _related(">=" if low else ">", one, bounds[0])
            return _both(above, _related("<=" if high else "<", one, bounds[1]))
        if right.kind == "list" and len(bounds) == 2:
            return _both(_related(">=", one, bounds[0]), _related("<=", one, bounds[1]))
        return _member(one, bounds)
    other = evaluate(right, scope)
    if relation == "in":
        return _member(one, other if isinstance(other, list) else [other])
    one, other = _alike(one, other)
    if relation == "like":
        if not (isinstance(one, DType) and isinstance(other, DType)):
            raise UnknownError
        return one == other or (one.is_float and other.is_float) or (one.is_fixed and other.is_fixed)
    return _related(relation, one, other)


def _both(*verdicts: bool | None) -> bool | None:
    return False if False in verdicts else (None if None in verdicts else True)


def _member(value: Value, members: Sequence[Value]) -> bool | None:
    if isinstance(value, Place):
        value = (
            about("datatype", value)
            if any(isinstance(item, DType) for item in members)
            else about("value", value)
        )
    if isinstance(value, list):
        return _both(*(_member(item, members) for item in value))
    verdicts = [_related("==", value, member) for member in members]
    return True if True in verdicts else (None if None in verdicts else False)


def _alike(one: Value, other: Value) -> tuple[Value, Value]:
    """Return two values with bare tensors replaced by what the other side is: type, shape or elements."""

    def settled(value: Value, beside: Value) -> Value:
        if not isinstance(value, Place):
            return value
        if isinstance(beside, DType) or (isinstance(beside, list) and DType in map(type, beside)):
            return about("datatype", value)
        return about("shape", value) if isinstance(beside, list | Place) else about("value", value)

    return settled(one, other), settled(other, one)


_RELATED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _related(relation: str, one: Value, other: Value) -> bool | None:
    if isinstance(one, list) and isinstance(other, list):
        nested = [any(isinstance(item, list) for item in value) for value in (one, other)]
        if nested[0] == nested[1]:
            return _lists(relation, one, other)
        if nested[1]:
            return _both(*(_related(relation, one, item) for item in other))
        return _both(*(_related(relation, item, other) for item in one))
    if isinstance(one, list):
        return _both(*(_related(relation, item, other) for item in one))
    if isinstance(other, list):
        return _both(*(_related(relation, one, item) for item in other))
    spend()
    if one is None or other is None or UNDEFINED in (one, other):
        return None
    if isinstance(one, Enumerator) and isinstance(other, int | float | Fraction):
        one = one.number
    if isinstance(other, Enumerator) and isinstance(one, int | float | Fraction):
        other = other.number
    if isinstance(one, DType) and isinstance(other, DType) and _may_become(one, other):
        return None
    numbers = [isinstance(value, int | float | Fraction) for value in (one, other)]
    if relation not in ("==", "!=") and not all(numbers):
        raise UnknownError
    if numbers[0] != numbers[1]:
        return relation == "!="
    return _RELATED[relation](one, other)


def _may_become(one: DType, other: DType) -> bool:
    """Return whether one of two types stands for reals that a quantizer may store as the other."""
    return (one is FLOAT32 and other.is_fixed) or (other is FLOAT32 and one.is_fixed)


def _lists(relation: str, one: list[Value], other: list[Value]) -> bool | None:
    if relation == "!=":
        equal = _lists("==", one, other)
        return None if equal is None else not equal
    if len(one) != len(other):
        return False
    return _both(*(_related(relation, a, b) for a, b in zip(one, other, strict=True)))
