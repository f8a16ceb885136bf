"""Free names, that of a thing or the name with the next number, and places of ops."""

from __future__ import annotations

from collections.abc import Container
from itertools import repeat
from operator import contains
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdlc.ir.graph import Op


def place_of(op: Op) -> str:
    """Return the place of an op in messages."""
    place = f"op {op.name!r} ({op.type})"
    return place if op.graph is None else f"graph {op.graph.name!r}: {place}"


class FreeNames:
    """Names that are not in use.

    The search for a number goes on where the last one for the same base ended, so that many things of one
    name take time in proportion to their number.

    Args:
        taken: Names that are taken; the caller keeps them up to date.
        mark: What separates base and number.
        first: The first number.
    """

    def __init__(self, *taken: Container[str], mark: str = "_", first: int = 1) -> None:
        self._taken = taken
        self._mark = mark
        self._before = first - 1
        self._last: dict[str, int] = {}

    def __call__(self, base: str) -> str:
        """Return ``base``, or ``base_N`` if it is in use."""
        name = base
        while any(map(contains, self._taken, repeat(name))):
            self._last[base] = number = self._last.get(base, self._before) + 1
            name = f"{base}{self._mark}{number}"
        return name

    def release(self, name: str) -> None:
        """Allow a name that is no longer in use to be returned again."""
        base, _, number = name.rpartition(self._mark)
        if base in self._last and number.isdecimal():
            self._last[base] = min(self._last[base], int(number) - 1)
