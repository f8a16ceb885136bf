"""Typed JSON from untrusted files: limits, forms, and members by JSON path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdlc.errors import ModelError, XdlcError, nearest_names

MAX_PROBLEMS = 100
EXTENSION = "xdlc_"
"""Prefix of fields that only xdlc reads."""
MAX_VALUES = 1 << 21
"""Values of a JSON text, each of which takes about 80 bytes of memory."""
MAX_DEPTH = 64
_EMPTY: dict[str, Any] = {'"': "", "[": [], "{": {}}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_value(text: str, most: int = MAX_VALUES) -> Any:
    """Return the value of an untrusted JSON text, whose strings are valid UTF-8.

    Raises:
        ValueError: If it is no JSON, has more than ``most`` values, nests them deeper than ``MAX_DEPTH``, or
            has half of a surrogate pair in a string.
    """
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"it has more than {most} values")
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"it nests values deeper than {MAX_DEPTH}") from error
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for held in inner for each in held if isinstance(each, dict | list)]
    if level:
        raise ValueError(f"it nests values deeper than {MAX_DEPTH}")
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # its error is a ValueError
    return value


def fits(value: Any, form: Any) -> bool:
    """Return whether a JSON value has a form.

    A form is a type, a list with the form of all elements, a tuple with those of each, or a dict with those
    of the members that there may be by name, ``*`` for all others.

    Example:
        >>> fits({"a": ["b"]}, {"*": [str]}), fits(["a", 1], (str, str))
        (True, False)
    """
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(element, form[0]) for element in value)
    if isinstance(form, tuple):
        return isinstance(value, list) and len(value) == len(form) and all(map(fits, value, form))
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return False
        return all(fits(member, form.get(key, form.get("*", object))) for key, member in value.items())
    return isinstance(value, form)


class Stop(Exception):
    """Raised when a file has too many problems to read on."""


@dataclass(slots=True)
class Scope:
    """Problems and notices of one file.

    Attributes:
        where: Name of the file.
        problems: Errors found.
        notices: Fields without effect, and assumptions.
    """

    where: str
    problems: list[XdlcError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def place(self, path: str) -> str:
        """Return ``file: path``, or the file for the outermost value."""
        return f"{self.where}: {path}" if path else self.where

    def report(self, path: str, problem: str, fix: str) -> None:
        """Record a problem.

        Raises:
            Stop: If there are too many.
        """
        self.problems.append(ModelError(problem, where=self.place(path), fix=fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise Stop

    def notice(self, path: str, text: str) -> None:
        """Record a notice."""
        self.notices.append(f"{self.place(path)}: {text}")


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value and its path, like ``UdoPackage_0.Operators[2].inputs[0]``."""

    value: Any
    path: str = ""

    def items(self) -> Iterator[Node]:
        """Iterate over the elements of an array."""
        return (Node(value, joined(self.path, i)) for i, value in enumerate(self.value))

    def members(self) -> Iterator[tuple[str, Node]]:
        """Iterate over the members of an object."""
        return ((name, Node(value, joined(self.path, name))) for name, value in self.value.items())


def joined(path: str, key: str | int) -> str:
    """Return the path of a member or element.

    Example:
        >>> joined("", "P"), joined("P.Operators", 2), joined("P", "a b")
        ('P', 'P.Operators[2]', "P['a b']")
    """
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key if isinstance(key, int) else shown(key)}]"


def choice(name: str, known: Iterable[str]) -> str:
    """Return a fix for a name that is not among those known.

    Example:
        >>> choice("NWHC", ("NHWC", "NCHW")), choice("x", ("NHWC", "NCHW"))
        ('nearest: NHWC, NCHW', 'use one of NHWC, NCHW')
    """
    names = tuple(known)
    return nearest_names(name, names) or f"use one of {', '.join(names)}"


def shown(text: str, most: int = 40) -> str:
    """Return a name from a file for messages, shortened.

    Example:
        >>> shown("a" * 50, 8), shown("b")
        ("'aaaaa...'", "'b'")
    """
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")


def kind_of(value: Any) -> str:
    """Return a JSON value for messages.

    Example:
        >>> kind_of("a"), kind_of([]), kind_of(None), kind_of(1.5)
        ("the string 'a'", 'an array', 'null', 'the number 1.5')
    """
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else f"the number {value}"


def named(node: Node, member: str) -> str:
    """Return a member for messages, or an empty string if it is not a string."""
    found = node.value.get(member) if isinstance(node.value, Mapping) else None
    return found if isinstance(found, str) else ""


class Fields:
    """The members of a JSON object by name and type.

    Problems are reported to the scope; a member of the wrong type then counts as omitted, and is not reported
    as missing too.

    Args:
        node: The value, which should be an object.
        what: Its title in messages, like ``input 0 of operator 'Blur'``.
        scope: Collects problems and notices.
        names: Names that members may have.
    """

    def __init__(self, node: Node, what: str, scope: Scope, names: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.path = node.path
        self.what = what
        self.scope = scope
        self.ok = isinstance(node.value, Mapping)
        self._members: dict[str, Node] = {}
        self._meant: set[str] = set()
        if not self.ok:
            example = "name" if "name" in names else names[0]
            problem = f"{what} has to be an object, found {kind_of(node.value)}"
            scope.report(node.path, problem, f'write {{"{example}": ...}}')
            return
        for name, member in node.members():
            if name in names:
                self._members[name] = member
                continue
            scope.report(member.path, f"{what} has no field {shown(name)}", _fix(name, names))
            self._meant |= {name, *get_close_matches(name.lower(), [key.lower() for key in names], n=1)}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def path_of(self, name: str) -> str:
        """Return the path of a member, or of the object if it has none of that name."""
        return self._members[name].path if name in self._members else self.path

    def report(self, name: str, problem: str, fix: str) -> None:
        """Report a problem of a member."""
        self.scope.report(self.path_of(name), problem, fix)

    def notice(self, name: str, text: str) -> None:
        """Record a notice about a member."""
        self.scope.notice(self.path_of(name), text)

    def node(self, name: str) -> Node | None:
        """Return a member of any type, or None if it is omitted."""
        return self._members.get(name)

    def lacks(self, *names: str) -> bool:
        """Return whether none of several members is present, nor a misspelt one."""
        return self.ok and not any(name in self._members or name.lower() in self._meant for name in names)

    def need(self, name: str, example: str) -> None:
        """Report a member that is missing or empty.

        Args:
            name: Name of the member.
            example: A value to write, as JSON.
        """
        node = self.node(name)
        if self.lacks(name):
            self.scope.report(self.path, f"{self.what} has no {name}", f'add "{name}": {example}')
        elif node is not None and node.value == _EMPTY[example[0]]:
            self.report(name, f"{name} of {self.what} is empty", f'write "{name}": {example}')

    def wrong(self, name: str, expected: str, node: Node, fix: str) -> None:
        """Report a value of the wrong type."""
        problem = f"{name} of {self.what} has to be {expected}, found {kind_of(node.value)}"
        self.scope.report(node.path, problem, fix)

    def _typed(self, name: str, types: type | tuple[type, ...], expected: str, example: str) -> Any:
        node = self.node(name)
        if node is not None and not isinstance(node.value, types):
            self.wrong(name, expected, node, f"write {example}")
            return None
        return None if node is None else node.value

    def text(self, name: str) -> str:
        """Return a string; empty if it is omitted."""
        return self._typed(name, str, "a string", f'"{name}": "..."') or ""

    def one_of(self, name: str, known: Iterable[str], fix: str = "") -> str:
        """Return one of several strings; empty if omitted. ``fix`` is for others."""
        word = self.text(name)
        if word and word not in known:
            self.report(name, f"{name} of {self.what} is unknown: {shown(word)}", fix or choice(word, known))
            return ""
        return word

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Return a truth value."""
        found = self._typed(name, bool, "true or false", f'"{name}": true or "{name}": false')
        return otherwise if found is None else bool(found)

    def items(self, name: str) -> tuple[Node, ...]:
        """Return the elements of an array; none if it is omitted."""
        found = self._typed(name, list, "an array", f'"{name}": [...]')
        return tuple(self._members[name].items()) if found else ()

    def members(self, name: str) -> dict[str, Node]:
        """Return the members of an object; none if it is omitted."""
        found = self._typed(name, dict, "an object", f'"{name}": {{...}}')
        return dict(self._members[name].members()) if found else {}

    def words(self, name: str, choices: Sequence[str], fix: str = "") -> list[str]:
        """Return distinct strings out of several; ``fix`` is for other strings."""
        words: list[str] = []
        for node in self.items(name):
            word = node.value
            if not isinstance(word, str):
                self.wrong(f"each of {name}", "a string", node, f"use strings like {choices[0]!r}")
            elif word not in choices:
                problem = f"{name} of {self.what} has unknown {shown(word)}"
                self.scope.report(node.path, problem, fix or choice(word, choices))
            elif word in words:
                problem = f"{name} of {self.what} has {word!r} twice"
                self.scope.report(node.path, problem, "remove one of them")
            else:
                words.append(word)
        return words

    def strings(self, name: str) -> tuple[str, ...]:
        """Return an array of strings that are not empty."""
        texts = []
        for node in self.items(name):
            if isinstance(node.value, str) and node.value:
                texts.append(node.value)
            else:
                expected = "a string that is not empty"
                self.wrong(f"each of {name}", expected, node, 'write it like ["a", "b"]')
        return tuple(texts)


def _fix(name: str, known: Sequence[str]) -> str:
    """Return the fix for an unknown field, an extension for similar names."""
    own = f"{EXTENSION}{name.lower()}"
    if own in known:
        return f'write "{own}", a field of xdlc\'s own'
    offered = [key for key in known if key.startswith(EXTENSION) == name.startswith(EXTENSION)]
    return choice(name, offered or known)
