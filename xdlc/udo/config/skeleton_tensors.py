"""Drafts inputs and outputs from what nodes have at their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdlc.ir.dtype import DType
from xdlc.opdefs.model import DescriptionPart, TensorDef
from xdlc.opdefs.source_match import Operand
from xdlc.udo.config.skeleton_params import stored

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Place:
    """An input or output of all nodes of an operator.

    Attributes:
        operands: What is there.
        mandatory: Whether all nodes have it.
        repeated: Whether it stands for any number.
    """

    operands: tuple[Operand, ...]
    mandatory: bool
    repeated: bool = False


def places_of(rows: Sequence[Sequence[Operand | None]]) -> list[Place]:
    """Return the places of an operator.

    Where nodes have different numbers of operands, those from the first place on that are of one kind
    become a repeated one; those that are not become optional.  Behind an optional place all are.

    Args:
        rows: The operands of each node; None for one left out.

    Example:
        >>> x, y = Operand("x"), Operand("y")
        >>> def told(*rows):
        ...     return [(len(place.operands), place.mandatory, place.repeated) for place in places_of(rows)]
        >>> told([x, y], [x, y, x]), told([x, None, y])
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
    """Return the place from which on all operands are of one kind; None if there is none."""
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
        name: Its name.
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
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _example(operand: Operand) -> str:
    dtype = operand.dtype.name if operand.dtype else "?"
    shape = (
        "[...]"
        if operand.shape is None
        else f"[{', '.join('?' if n is None else str(n) for n in operand.shape)}]"
    )
    name = operand.name if len(operand.name) <= 40 else f"{operand.name[:37]}..."
    return f"{name!r} {dtype}{shape}"
