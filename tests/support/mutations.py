"""Changes of one property of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdlc.ir import Model


@dataclass(frozen=True)
class Mutation:
    """A change of one property.

    Attributes:
        name: Its name.
        kind: Kind of the difference that it makes.
        place: Part of the text that names the property.
        op: Op whose difference it is, or None.
        change: Changes a model.
        is_stored: Whether a DLC of format 4.1 has the property.
    """

    name: str
    kind: str
    place: str
    op: str | None
    change: Callable[[Model], Any]
    is_stored: bool = True


def mutation(
    mutations: list[Mutation], kind: str, place: str, op: str | None = None, *, stored: bool = True
) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to changes under its name."""

    def register(function: Callable[[Model], Any]) -> Callable[[Model], Any]:
        mutations.append(Mutation(function.__name__, kind, place, op, function, stored))
        return function

    return register
