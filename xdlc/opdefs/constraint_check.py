"""Verdicts of constraints on an op, with the actual values of broken ones.

A list compares with a number element by element, and all must hold.  What is not known (a missing tensor,
a dynamic dimension) decides nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from xdlc.ir.dtype import FLOAT32, UNDEFINED, DType
from xdlc.opdefs.constraint_eval import Enumerator, Place, UnknownError, Value, about, evaluate, spend
from xdlc.opdefs.constraint_parser import Node, NotAnExpressionError, parse
from xdlc.opdefs.constraint_scope import OpScope
from xdlc.opdefs.model import Constraint, TensorDef
from xdlc.records import record

_ASPECTS = ("rank", "shape", "size", "datatype")
SUBJECTS = {"Value": "value", "Number": "number", "Datatype": "datatype"}
"""Left sides of comparisons that have none, by type of the constraint."""


@record(frozen=True)
class Rule:
    """A constraint in its enforced form.

    Attributes:
        node: Its expression; None if it is documentation.
        reason: Why it is not enforced though it parses; empty otherwise.
    """

    constraint: Constraint
    node: Node | None
    reason: str = ""


def rules_of(tensor: TensorDef, scope: OpScope) -> list[Rule]:
    """Return the constraints of a tensor.

    Args:
        tensor: The definition that has the constraints.
        scope: The names of the op, with every named dimension; its tensors and values are not read.
    """
    rules = []
    for constraint in tensor.constraints:
        node = _expression(constraint)
        unknown = None if node is None else scope.unknown(node)
        if node is not None and unknown is None and constraint.type == "Value":
            node = _own_value(node, tensor.name)
        reason = "" if unknown is None else f"{unknown!r} is not a name of the op"
        rules.append(Rule(constraint, None if reason else node, reason))
    return rules


def _expression(constraint: Constraint) -> Node | None:
    if constraint.type == "Description":
        return None
    try:
        node = parse(constraint.text, SUBJECTS.get(constraint.type, ""))
    except NotAnExpressionError:
        return None
    return node if node.is_rule else None


def _own_value(node: Node, name: str) -> Node:
    """Return an expression in which a tensor's own name, compared, means its elements."""
    parts = tuple(
        Node("name", "value", (), part.source)
        if node.kind == "compare" and part.kind == "name" and part.value == name
        else _own_value(part, name)
        for part in node.parts
    )
    return Node(node.kind, node.value, parts, node.source)


@record(frozen=True)
class Failure:
    """A comparison that is false.

    Attributes:
        found: Values of its sides.
    """

    expected: str
    found: str


def check(node: Node, scope: OpScope) -> Failure | None:
    """Return why a rule is broken; None if it holds or its result is unknown."""
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


def _decided(node: Node, scope: OpScope) -> bool:
    if node.kind != "compare":
        return all(_decided(part, scope) for part in node.parts)
    try:
        return all(_holds(*pair, scope) is not None for pair in _pairs(node))
    except UnknownError:
        return False


def _pairs(node: Node) -> list[tuple[str, Node, Node]]:
    relations = node.value if isinstance(node.value, tuple) else ()
    return list(zip(relations, node.parts, node.parts[1:], strict=False))


def _compare(node: Node, scope: OpScope) -> Failure | None:
    for relation, left, right in _pairs(node):
        try:
            if _holds(relation, left, right, scope) is False:
                return Failure(node.source, _found(relation, left, right, scope))
        except UnknownError:
            continue
    return None


def _found(relation: str, left: Node, right: Node, scope: OpScope) -> str:
    pair = _alike(left, right, scope)
    if relation == "in":
        pair = _plain(evaluate(left, scope), pair[1]), pair[1]
    plain = ("number", "text", "list", "set", "range")
    sides = [(node, value) for node, value in zip((left, right), pair, strict=True) if node.kind not in plain]
    if right.kind in ("list", "set", "range"):
        members = zip(right.parts, evaluate(right, scope), strict=True)
        sides += [(node, value) for node, value in members if node.kind not in (*plain, "name")]
    words = [f"{node.source} is {shown(value)}" for node, value in sides]
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


def _holds(relation: str, left: Node, right: Node, scope: OpScope) -> bool | None:
    """Return whether a relation between two values is true; None if unknown."""
    if relation == "in" and right.kind in ("list", "set", "range"):
        left_value = evaluate(left, scope)
        bounds = [evaluate(part, scope) for part in right.parts]
        if right.kind == "range":
            low, high = (sign if sign in "[]" else "" for sign in str(right.value))
            left_value = left_value.number if isinstance(left_value, Place) else left_value
            above = _related(">=" if low else ">", left_value, bounds[0])
            return _both(above, _related("<=" if high else "<", left_value, bounds[1]))
        if right.kind == "list" and len(bounds) == 2:
            left_value = left_value.number if isinstance(left_value, Place) else left_value
            return _both(_related(">=", left_value, bounds[0]), _related("<=", left_value, bounds[1]))
        return _member(left_value, bounds)
    if relation == "in":
        right_value = evaluate(right, scope)
        return _member(evaluate(left, scope), right_value if isinstance(right_value, list) else [right_value])
    left_value, right_value = _alike(left, right, scope)
    if relation == "like":
        if not _is_types(left_value) or not _is_types(right_value):
            raise UnknownError
        return _both(
            *(None if UNDEFINED in pair else _are_like(*pair) for pair in _pairings(left_value, right_value))
        )
    if scope.exact_types and _is_types(left_value) and _is_types(right_value):
        return _both(
            *(
                None if UNDEFINED in pair else _RELATED[relation](*pair)
                for pair in _pairings(left_value, right_value)
            )
        )
    return _related(relation, left_value, right_value)


def _is_types(value: Value) -> bool:
    return isinstance(value, DType) or (
        isinstance(value, list) and all(isinstance(one, DType) for one in value)
    )


def _pairings(one: Value, other: Value) -> list[tuple[DType, DType]]:
    """Return the pairs of data types to compare; a Repeated place has several."""
    ones, others = ([value] if isinstance(value, DType) else value for value in (one, other))
    return [(a, b) for a in ones for b in others]


def _are_like(one: DType, other: DType) -> bool:
    return one == other or (one.is_float and other.is_float) or (one.is_fixed and other.is_fixed)


def _both(*verdicts: bool | None) -> bool | None:
    return False if False in verdicts else (None if None in verdicts else True)


def _member(value: Value, members: Sequence[Value]) -> bool | None:
    value = _plain(value, members)
    if isinstance(value, list):
        return _both(*(_member(item, members) for item in value))
    verdicts = [_related("==", value, member) for member in members]
    return True if True in verdicts else (None if None in verdicts else False)


def _plain(value: Value, members: Value) -> Value:
    """Return the data type or number of a tensor, to compare with a range or set."""
    if not isinstance(value, Place):
        return value
    is_type = isinstance(members, list) and any(isinstance(item, DType) for item in members)
    return about("datatype", value) if is_type else value.number


def _alike(left: Node, right: Node, scope: OpScope) -> tuple[Value, Value]:
    """Return two values with a tensor replaced by its shape, type or number."""
    one, other = evaluate(left, scope), evaluate(right, scope)
    if not isinstance(one, Place) and not isinstance(other, Place):
        return one, other
    return _as(one, other, right), _as(other, one, left)


def _as(value: Value, beside: Value, node: Node) -> Value:
    if not isinstance(value, Place):
        return value
    if node.kind in ("name", "call") and node.value in _ASPECTS:
        return about(str(node.value), value)
    if isinstance(beside, DType) or (isinstance(beside, list) and DType in map(type, beside)):
        return about("datatype", value)
    return about("shape", value) if isinstance(beside, list | Place) else value.number


_RELATED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _related(relation: str, left: Value, right: Value) -> bool | None:
    if (left == [] and isinstance(right, str)) or (right == [] and isinstance(left, str)):
        return relation == "!="  # the shape of a scalar beside the text of shapes that do not broadcast
    if isinstance(left, list) and isinstance(right, list):
        nested = [any(isinstance(item, list) for item in value) for value in (left, right)]
        if nested[0] == nested[1]:
            return _lists(relation, left, right)
        if nested[1]:
            return _both(*(_related(relation, left, item) for item in right))
        return _both(*(_related(relation, item, right) for item in left))
    if isinstance(left, list):
        return _both(*(_related(relation, item, right) for item in left))
    if isinstance(right, list):
        return _both(*(_related(relation, left, item) for item in right))
    spend()
    if left is None or right is None or UNDEFINED in (left, right):
        return None
    if isinstance(left, Enumerator) and isinstance(right, int | float | Fraction):
        left = left.number
    if isinstance(right, Enumerator) and isinstance(left, int | float | Fraction):
        right = right.number
    if isinstance(left, DType) and isinstance(right, DType) and _may_become(left, right):
        return None
    numbers = [isinstance(value, int | float | Fraction) for value in (left, right)]
    if relation not in ("==", "!=") and not all(numbers):
        raise UnknownError
    if numbers[0] != numbers[1]:
        return relation == "!="
    return _RELATED[relation](left, right)


def _may_become(one: DType, other: DType) -> bool:
    """Return whether a quantizer may store float values of one type as the other."""
    return (one is FLOAT32 and other.is_fixed) or (other is FLOAT32 and one.is_fixed)


def _lists(relation: str, left: list[Value], right: list[Value]) -> bool | None:
    if relation == "!=":
        equal = _lists("==", left, right)
        return None if equal is None else not equal
    if len(left) != len(right):
        return False
    if relation == "==" and left == right and None not in left and UNDEFINED not in left:
        spend(len(left))
        return True
    return _both(*(_related(relation, a, b) for a, b in zip(left, right, strict=True)))
