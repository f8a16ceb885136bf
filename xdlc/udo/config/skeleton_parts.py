"""Inputs, outputs and parameters of a skeleton, from operands and attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import UnsupportedOp
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import BOOL8, FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, UINT64, DType, from_numpy
from xdlc.opdefs.model import DescriptionPart, ParamDef, TensorDef
from xdlc.opdefs.semantics import identifier_problem
from xdlc.opdefs.source_match import Operand, UncoveredNode, attributes_named, path_ends

_NARROWER = {INT64: INT32, UINT64: UINT32, FLOAT64: FLOAT32}
_MAX_TEXT = 60
_MAX_EXAMPLES = 3


def stored(dtype: DType) -> DType:
    """Return the type under which a DLC holds a type of a source model.

    Example:
        >>> stored(INT64), stored(INT32)
        (int32, int32)
    """
    return _NARROWER.get(dtype, dtype)


def drafted_params(nodes: Sequence[UncoveredNode]) -> dict[str, ParamDef]:
    """Return the parameters of an operator.

    One that a node does without is optional.

    Args:
        nodes: All nodes of the operator.

    Raises:
        UnsupportedOp: If an attribute is nothing that a parameter can be.
    """
    names = dict.fromkeys(name for node in nodes for name in node.attributes)
    return {(short := shortest_name(name, names)): _param(name, short, nodes) for name in names}


def shortest_name(path: str, others: Collection[str]) -> str:
    """Return the shortest unique end of a path that is a valid name.

    Example:
        >>> shortest_name("my_param.alpha", ["my_param.alpha"]), shortest_name("a.x", ["a.x", "b.x"])
        ('alpha', 'a_x')
    """
    fitting = (end for end in reversed(path_ends(path)) if not identifier_problem(end))
    return next((end for end in fitting if attributes_named(end, others) == [path]), path)


def _param(name: str, parameter: str, nodes: Sequence[UncoveredNode]) -> ParamDef:
    attributes = [(node, node.attributes[name]) for node in nodes if not _is_omitted(node, name)]
    kinds = {_kind(value): node for node, value in attributes}
    if "" in kinds:
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is a graph, strings in a tensor, several tensors or "
            "the like",
            where=kinds[""].where,
            fix="leave it out of the model, or define the operator by a plugin: parameters are numbers, "
            "strings and tensors of numbers",
        )
    if "text" in kinds and len(kinds.keys() - {"text", "one"}):
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is text on some nodes and several numbers on others",
            where=kinds["text"].where,
            fix="give it the same form on all nodes",
        )
    values = [value for _, value in attributes]
    dtypes = _dtypes(values)
    words = f"Attribute {name!r}: {_values(values)}"
    if len(attributes) < len(nodes):
        words += f"; {len(attributes)} of {len(nodes)} nodes have it"
    return ParamDef(
        parameter,
        mandatory=len(attributes) == len(nodes),
        dtypes=dtypes,
        rank=0 if STRING in dtypes else _rank(values),
        description=(DescriptionPart(f"{words}."),),
    )


def _is_omitted(node: UncoveredNode, name: str) -> bool:
    return name not in node.attributes or node.attributes[name] == []


def _kind(value: Any) -> str:
    """Return ``one``, ``list``, ``text`` or ``tensor``; empty for other values."""
    if isinstance(value, int | float):
        return "one"
    if isinstance(value, TensorData):
        return "tensor" if _tensor_type(value) is not None else ""
    items = value if isinstance(value, list) else [value]
    if all(isinstance(item, str) for item in items):
        return "text"
    return "list" if all(isinstance(item, int | float) for item in items) else ""


def _tensor_type(value: TensorData) -> DType | None:
    try:
        return stored(from_numpy(value.dtype))
    except TypeError:
        return None


def _dtypes(values: Sequence[Any]) -> tuple[DType, ...]:
    tensors = [dtype for value in values if isinstance(value, TensorData) and (dtype := _tensor_type(value))]
    plain = [value for value in values if not isinstance(value, TensorData)]
    elements = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    numbers = [item for item in elements if not isinstance(item, str)]
    found = (STRING,) if len(numbers) < len(elements) else ()
    if numbers or not (found or tensors):
        found = (_number_type(numbers), *found)
    return tuple(dict.fromkeys((*tensors, *found)))


def _number_type(numbers: Sequence[int | float]) -> DType:
    """Return the type that holds all numbers; that of none is the usual one."""
    if numbers and all(isinstance(item, bool) for item in numbers):
        return BOOL8
    if any(isinstance(item, float) for item in numbers):
        return FLOAT32
    fitting = (dtype for dtype in (INT32, UINT32) if all(_fits(int(item), dtype) for item in numbers))
    return next(fitting, INT64)


def _fits(number: int, dtype: DType) -> bool:
    low, high = dtype.limits
    return low <= number <= high


def _rank(values: Sequence[Any]) -> int | None:
    """Return the common number of axes; None if it differs or exceeds 4.

    A number counts as a list of one.
    """
    ranks = {
        len(value.shape) if isinstance(value, TensorData) else int(isinstance(value, list))
        for value in values
    }
    ranks -= {0} if ranks == {0, 1} else set()
    rank = ranks.pop() if len(ranks) == 1 else None
    return rank if rank is not None and rank <= 4 else (1 if not values else None)


def _values(values: Sequence[Any]) -> str:
    texts = dict.fromkeys(
        f"a tensor of {value.dtype}{list(value.shape)}" if isinstance(value, TensorData) else repr(value)
        for value in values
    )
    text = ", ".join(texts) or "an empty list"
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output of all nodes of an operator.

    Attributes:
        operands: What is there.
        mandatory: Whether all nodes have it.
        repeated: Whether it is any number of tensors.
    """

    operands: tuple[Operand, ...]
    mandatory: bool
    repeated: bool = False


def places_of(rows: Sequence[Sequence[Operand | None]]) -> list[Place]:
    """Return the inputs or outputs of an operator from those of its nodes.

    Where nodes have different numbers of operands, those from the first place on that are of one kind
    become a repeated one; those that are not become optional.  After an optional place all are.

    Args:
        rows: The operands of each node; None for an omitted one.

    Example:
        >>> x, y = Operand("x"), Operand("y")
        >>> def shown(*rows):
        ...     return [(len(place.operands), place.mandatory, place.repeated) for place in places_of(rows)]
        >>> shown([x, y], [x, y, x]), shown([x, None, y])
        ([(5, True, True)], [(1, True, False), (0, False, False), (1, False, False)])
    """
    trimmed = [_trimmed(row) for row in rows]
    counts = [len(row) for row in trimmed]
    columns = [[row[i] if i < len(row) else None for row in trimmed] for i in range(max(counts, default=0))]
    first = _first_repeated(trimmed) if min(counts, default=0) != max(counts, default=0) else None
    places: list[Place] = []
    for i, column in enumerate(columns[:first]):
        held = tuple(operand for operand in column if operand is not None)
        before = places[i - 1].mandatory if i else True
        places.append(Place(held, before and len(held) == len(rows)))
    if first is not None:
        rest = tuple(operand for row in trimmed for operand in row[first:] if operand is not None)
        before = places[-1].mandatory if places else True
        places.append(Place(rest, before and min(counts) > first, repeated=True))
    return places


def _trimmed(row: Sequence[Operand | None]) -> Sequence[Operand | None]:
    while row and row[-1] is None:
        row = row[:-1]
    return row


def _first_repeated(rows: Sequence[Sequence[Operand | None]]) -> int | None:
    """Return the place from which on all operands are of one kind, or None."""
    least = min(map(len, rows))
    for first in range(least + 1):
        rest = [operand for row in rows for operand in row[first:]]
        held = [operand for operand in rest if operand is not None]
        types = {stored(operand.dtype) for operand in held if operand.dtype is not None}
        alike = len(types) < 2 and len({operand.is_static for operand in held}) < 2
        if None not in rest and alike:
            return first
    return None


def drafted_tensor(
    name: str,
    place: Place,
    known: Mapping[str, tuple[DType, ...]],
    otherwise: tuple[DType, ...],
    why: str,
) -> tuple[TensorDef, str]:
    """Return an input or output, and what had to be assumed about it, in words.

    Args:
        place: What is there.
        known: Data types of values that other operators make, as far as they are drafted.
        otherwise: Data types to assume if nothing states one.
        why: Why those, for people.
    """
    stated = [stored(operand.dtype) for operand in place.operands if operand.dtype is not None]
    made = [dtype for operand in place.operands for dtype in known.get(operand.name, ())]
    dtypes = tuple(dict.fromkeys(stated or made or otherwise))
    because = "that of the operator before it is assumed" if made else why
    assumed = "" if stated else f"no data type is stated: {because}"
    ranks = {None if operand.shape is None else len(operand.shape) for operand in place.operands}
    rank = ranks.pop() if len(ranks) == 1 else None
    words = [f"In the model: {_examples(place.operands)}."] if place.operands else []
    words += [f"{assumed[0].upper()}{assumed[1:]}."] if assumed else []
    definition = TensorDef(
        name,
        mandatory=place.mandatory,
        dtypes=dtypes,
        rank=rank if rank and rank <= 4 else None,
        repeated=place.repeated,
        is_static=bool(place.operands) and all(operand.is_static for operand in place.operands),
        description=tuple(map(DescriptionPart, words)),
    )
    return definition, assumed


def _examples(operands: Sequence[Operand]) -> str:
    texts = list(dict.fromkeys(map(_example, operands)))
    more = f" and {len(texts) - _MAX_EXAMPLES} more" if len(texts) > _MAX_EXAMPLES else ""
    return ", ".join(texts[:_MAX_EXAMPLES]) + more


def _example(operand: Operand) -> str:
    dtype = operand.dtype.name if operand.dtype else "?"
    shape = (
        "[...]"
        if operand.shape is None
        else f"[{', '.join('?' if n is None else str(n) for n in operand.shape)}]"
    )
    name = operand.name if len(operand.name) <= 40 else f"{operand.name[:37]}..."
    return f"{name!r} {dtype}{shape}"
