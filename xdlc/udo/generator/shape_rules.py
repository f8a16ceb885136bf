"""Shapes of outputs as statements of C++, where the configuration's texts tell them.

A text like ``[n, h / stride, w + 2, 3]`` tells a shape if each name in it is an extent that the text of an
input has too, or an integer parameter.  ``..`` at the beginning stands for any number of axes.  Quotients
are rounded down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdlc.udo.generator.views import Place, Rule

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d{1,9}|[-+*/()])", re.ASCII)
_MOST = 16
_LONGEST = 200


class _UnknownError(ValueError):
    """A text tells no shape."""


def shape_rules(inputs: Sequence[Place], outputs: Sequence[Place], params: Sequence[Place]) -> Rule | None:
    """Return statements that set the shapes of all outputs, or None if the texts do not tell them."""
    names = _names(inputs, params)
    try:
        used: dict[int, int] = {}
        lines = [line for place in outputs for line in _output(place, inputs, names, used)]
    except _UnknownError:
        return None
    return (*(_input_line(index, rank) for index, rank in sorted(used.items())), *lines)


def _input_line(index: int, rank: int) -> str:
    return f"const xdlc_udo_tensor& in_{index} = op.shaped_input({index}, {rank});"


_Names = dict[str, tuple[str, int | None, int]]
"""From a name to its C++ expression, the input that it is of, and how many axes that needs."""


def _names(inputs: Sequence[Place], params: Sequence[Place]) -> _Names:
    found: _Names = {}
    for place in inputs:
        if not place.mandatory:
            continue
        start = 1 if place.extents[:1] == ("..",) else 0
        for axis, text in enumerate(place.extents):
            if axis < start or ".." in place.extents[start:] or not _NAME.fullmatch(text):
                continue
            position = axis - len(place.extents) if start else axis
            expression = f"udo::extent_of(in_{place.index}, {position})"
            found.setdefault(text, (expression, place.index, len(place.extents) - start))
    for place in params:
        value = _param(place)
        if value is not None:
            found.setdefault(place.name, (value, None, 0))
    return found


def _param(place: Place) -> str | None:
    """The expression of an integer parameter that is always there, by name or by default."""
    kinds = {dtype.kind for types in place.types.values() for dtype in types}
    if not place.is_scalar or place.values or not kinds <= {"int", "uint"}:
        return None
    if not _NAME.fullmatch(place.name):
        return None
    if place.default is None:
        return f'udo::Extent(op.integer("{place.name}"))' if place.mandatory else None
    if not re.fullmatch(r"[+-]?\d{1,18}", place.default.strip()):
        return None
    return f'udo::Extent(op.integer("{place.name}", {int(place.default)}))'


def _output(place: Place, inputs: Sequence[Place], names: _Names, used: dict[int, int]) -> list[str]:
    if not place.extents or len(place.extents) > _MOST:
        raise _UnknownError
    extents = list(place.extents)
    lines = []
    if extents[0] == "..":
        extents.pop(0)
        lines.append(_leading(inputs, used))
    for text in extents:
        lines.append(f"udo::add_extent(outputs[index], {_expression(text, names, used)});")
    last = "op.num_outputs()" if place.repeated else f"op.num_outputs() && index == {place.index}"
    return [
        f"for (std::size_t index = {place.index}; index < {last}; ++index) {{",
        *(f"  {line}" for line in lines),
        "}",
    ]


def _leading(inputs: Sequence[Place], used: dict[int, int]) -> str:
    """Copies the axes that ``..`` stands for, from the first input that has it."""
    for place in inputs:
        if place.mandatory and place.extents[:1] == ("..",) and ".." not in place.extents[1:]:
            rest = len(place.extents) - 1
            used[place.index] = max(used.get(place.index, 0), rest)
            axes = f"in_{place.index}.rank - {rest}"
            copy = f"udo::add_extent(outputs[index], udo::extent_of(in_{place.index}, axis))"
            return f"for (std::uint32_t axis = 0; axis < {axes}; ++axis) {copy};"
    raise _UnknownError


def _expression(text: str, names: _Names, used: dict[int, int]) -> str:
    parser = _Parser(_tokens(text), names, used)
    found = parser.sum()
    if parser.rest:
        raise _UnknownError
    return found


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    if len(text) > _LONGEST:
        raise _UnknownError
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise _UnknownError
        found.append(match[1])
        position = match.end()
    return found


class _Parser:
    """Reads sums of products of names, numbers and brackets; texts are short, so brackets cannot be deep."""

    def __init__(self, tokens: list[str], names: _Names, used: dict[int, int]) -> None:
        self.rest = tokens[::-1]
        self._names, self._used = names, used

    def sum(self) -> str:
        return self._chain("+-", self._product)

    def _product(self) -> str:
        return self._chain("*/", self._atom)

    def _chain(self, signs: str, part: Callable[[], str]) -> str:
        found = part()
        while self.rest and self.rest[-1] in signs:
            sign = self.rest.pop()
            found = f"({found} {sign} {part()})"
        return found

    def _atom(self) -> str:
        token = self.rest.pop() if self.rest else ""
        if token.isdigit():
            return f"udo::Extent({int(token)})"
        if token == "(":
            found = self.sum()
            if not self.rest or self.rest.pop() != ")":
                raise _UnknownError
            return found
        if token not in self._names:
            raise _UnknownError
        expression, index, rank = self._names[token]
        if index is not None:
            self._used[index] = max(self._used.get(index, 0), rank)
        return expression
