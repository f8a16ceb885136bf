"""Reads strict JSON into values that know their line."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from xdlc.errors import raise_all
from xdlc.udo.config.scope import Stop
from xdlc.udo.config.text import decoded
from xdlc.udo.config.tokens import Lines, Token, tokens

MAX_DEPTH = 32
MAX_VALUES = 50_000


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object, with the line of its name."""

    line: int
    node: Node


Content: TypeAlias = "str | int | float | bool | tuple[Node, ...] | Mapping[str, Member] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a JSON text.

    Attributes:
        value: The value; a tuple for an array, a mapping for an object.
        line: Line that it begins on.
        text: A number as it was written.
    """

    value: Content
    line: int
    text: str = ""


def parse(content: bytes, where: str) -> Node:
    r"""Return the value of a JSON text.

    Args:
        content: The text in UTF-8.
        where: Name of the file, for messages.

    Raises:
        ModelError: If it is no JSON; a ProblemList of them if there are several.  What can be skipped, like a
            comma too many, does not hide what follows.

    Example:
        >>> print(parse(b'{"a": 1,\n "a": [2,\n]}', "c.json"))
        Traceback (most recent call last):
            ...
        xdlc.errors.ProblemList: c.json: 2 problem(s)
        - c.json:2: a comma with nothing behind it, before ']'
          fix: remove the last comma of line 2
        - c.json:2: 'a' is there twice; first on line 1
          fix: rename or remove one of them
    """
    text = decoded(content, where)
    lines = Lines(text, where)
    root: Node | None = None
    with suppress(Stop):
        root = _Parser(text, lines).root()
    raise_all(lines.problems, where=where)
    assert root is not None
    return root


class _Parser:
    def __init__(self, text: str, lines: Lines) -> None:
        self._tokens = tokens(text, lines)
        self._lines = lines
        self._count = 0
        self._last = Token("start", 0, 0)
        self._next = next(self._tokens)

    def root(self) -> Node:
        if self._next.kind == "end":
            self._lines.stop(0, "is empty", 'write {"UdoPackage_0": {"Operators": [...], ...}}')
        node = self._value(0)
        if self._next.kind != "end":
            self._lines.stop(
                self._next.offset,
                "there is more behind the end of the value",
                "remove what follows, or a bracket",
            )
        return node

    def _take(self) -> Token:
        self._last = self._next
        if self._next.kind != "end":
            self._next = next(self._tokens)
        return self._last

    def _value(self, depth: int) -> Node:
        token = self._take()
        line = self._lines.line(token.offset)
        self._count += 1
        if self._count > MAX_VALUES:
            self._lines.stop(token.offset, f"more than {MAX_VALUES} values", "split the configuration")
        if token.kind in ("{", "["):
            if depth >= MAX_DEPTH:
                self._lines.stop(token.offset, f"brackets nest more than {MAX_DEPTH} deep", "remove brackets")
            content = self._object(token, depth) if token.kind == "{" else self._array(token, depth)
            return Node(content, line)
        if token.kind not in ("string", "number", "word"):
            self._lines.stop(token.offset, f"expected a value, found {_name(token)}", "write a value here")
        return Node(token.value, line, token.text)

    def _array(self, opening: Token, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._closes(opening, "]", bool(items)):
            items.append(self._value(depth + 1))
        return tuple(items)

    def _object(self, opening: Token, depth: int) -> Mapping[str, Member]:
        members: dict[str, Member] = {}
        while not self._closes(opening, "}", bool(members)):
            token = self._take()
            if token.kind in ("number", "word"):
                self._lines.report(token.offset, f"a name has to be a string, found {token.text}", "quote it")
            elif token.kind != "string":
                self._lines.stop(
                    token.offset, f"expected a name, found {_name(token)}", 'write "name": value'
                )
            key = str(token.value)
            line = self._lines.line(token.offset)
            if self._next.kind != ":":
                self._lines.stop(
                    token.offset,
                    f"expected ':' behind the name {key[:40]!r}, found {_name(self._next)}",
                    'write "name": value',
                )
            self._take()
            node = self._value(depth + 1)
            if key in members:
                self._lines.report(
                    token.offset,
                    f"{key[:40]!r} is there twice; first on line {members[key].line}",
                    "rename or remove one of them",
                )
            members.setdefault(key, Member(line, node))
        return members

    def _closes(self, opening: Token, mark: str, started: bool) -> bool:
        """Step over what separates members; return whether the closing bracket was there."""
        if started:
            self._separator(mark)
        if self._next.kind == "end":
            line = self._lines.line(opening.offset)
            self._lines.stop(
                self._last.offset,
                f"the text ends before the {opening.kind!r} of line {line} is closed",
                f"close it with {mark!r}",
            )
        if self._next.kind in "]}":
            if self._next.kind != mark:
                line = self._lines.line(opening.offset)
                self._lines.stop(
                    self._next.offset,
                    f"{self._next.kind!r} does not close the {opening.kind!r} of line {line}",
                    f"close it with {mark!r}",
                )
            self._take()
            return True
        return False

    def _separator(self, mark: str) -> None:
        if self._next.kind in (mark, "end") or self._next.kind in "]}":
            return
        if self._next.kind != ",":
            line = self._lines.line(self._last.offset)
            self._lines.report(
                self._last.offset,
                f"no comma between a value and {_name(self._next)}",
                f"put a comma at the end of line {line}",
            )
            return
        comma = self._take()
        while self._next.kind == ",":
            self._lines.report(self._next.offset, "two commas with nothing between them", "remove one")
            self._take()
        if self._next.kind in "]}":
            line = self._lines.line(comma.offset)
            problem = f"a comma with nothing behind it, before {self._next.kind!r}"
            self._lines.report(comma.offset, problem, f"remove the last comma of line {line}")


def _name(token: Token) -> str:
    if token.kind == "end":
        return "the end of the file"
    if token.kind == "string":
        return f"the string {str(token.value)[:40]!r}"
    return token.text or repr(token.kind)
