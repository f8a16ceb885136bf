"""Fields of JSON objects from untrusted input, checked before use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from xdlc.errors import UsageError, nearest_names

DEPTH = 8
"""Most lists within one another; tensors with scales have fewer axes."""


class Fields:
    """A JSON object and its place.

    Args:
        value: What should be an object.
        where: Its place, for errors.

    Raises:
        UsageError: If it is no object.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise self.error(f"is {shown(value)}, not an object", "write {...}", where)
        self.where = where
        self._held = value

    def error(self, problem: str, fix: str, where: str | None = None) -> UsageError:
        """Return an error at this place."""
        return UsageError(problem, where=where or self.where, fix=fix)

    def __contains__(self, key: str) -> bool:
        return self._held.get(key) is not None

    def get(self, key: str) -> Any:
        """Return the plain value of a field, None if it is not there."""
        return self._held.get(key)

    def required(self, key: str) -> Any:
        """Return the plain value of a field that has to be there."""
        if key not in self:
            hint = nearest_names(key, map(str, islice(self._held, 100)))
            raise self.error(f"has no {key!r}", hint or f"add {key!r}")
        return self._held[key]

    def text(self, key: str) -> str:
        """Return a text of at least one character."""
        found = self.required(key)
        if not isinstance(found, str) or not found:
            raise self.error(f"{key} is {shown(found)}, not a name", f"write {key} as a text")
        return found

    def flag(self, key: str) -> bool | None:
        """Return a truth value, which may be written as the text True or False; None if it is not there."""
        found = self.get(key)
        if found is None or isinstance(found, bool):
            return found
        truth = {"true": True, "false": False}.get(found.lower()) if isinstance(found, str) else None
        if truth is None:
            raise self.error(f"{key} is {shown(found)}, not a truth value", "write true or false")
        return truth

    def whole(self, key: str) -> int:
        """Return a whole number that has to be there."""
        return self._whole(key, self.required(key))

    def choice(self, key: str, choices: tuple[int, ...]) -> int:
        """Return a whole number that has to be one of some."""
        found = self.whole(key)
        if found not in choices:
            known = ", ".join(map(str, choices))
            raise self.error(f"{key} is {found}; known: {known}", f"use one of {known}")
        return found

    def number(self, key: str) -> float | None:
        """Return a finite number, None if it is not there; a list of one counts as its element."""
        found = self.get(key)
        if isinstance(found, list) and len(found) == 1:
            found = found[0]
        return None if found is None else self._number(key, found)

    def numbers(self, key: str) -> list[float] | None:
        """Return finite numbers of a list of lists, flat; a number alone is a list of one."""
        if key not in self:
            return None
        values = self.flat(key)[0]
        if set(map(type, values)) == {float} and all(map(math.isfinite, values)):  # maybe millions
            return values
        return [self._number(key, value) for value in values]

    def wholes(self, key: str) -> list[int] | None:
        """Return whole numbers of a list of lists, flat; a number alone is a list of one."""
        if key not in self:
            return None
        values = self.flat(key)[0]
        if set(map(type, values)) == {int} and max(map(abs, values)) < 1 << 63:
            return values
        return [self._whole(key, value) for value in values]

    def flat(self, key: str) -> tuple[list[Any], tuple[int, ...]]:
        """Return the elements of a list of lists in order, and its shape.

        Raises:
            UsageError: If it is empty, its rows differ in length, or it nests too deeply.
        """
        held, shape = [self.required(key)], list[int]()
        while isinstance(held[0], list):
            lengths = {len(row) if isinstance(row, list) else -1 for row in held}
            if len(lengths) > 1 or 0 in lengths or len(shape) == DEPTH:
                raise self.error(f"{key} is no array of numbers", f"write {key} as rows of equal lengths")
            shape.append(lengths.pop())
            held = [value for row in held for value in row]
        return held, tuple(shape)

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{key} is {shown(value)}, not a number", f"write {key} as a number")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            raise self.error(f"{key} is {found}, which no encoding can hold", "omit the entry")
        return found

    def _whole(self, key: str, value: Any) -> int:
        found = self._number(key, value)
        if found != int(found):
            raise self.error(f"{key} is {found:g}, not a whole number", f"write {key} as a whole number")
        return int(found)


def shown(value: Any) -> str:
    """Return a value as errors show it, cut where it is long."""
    if isinstance(value, list | Mapping):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
