"""Typed JSON from untrusted files: limits, forms, and members by JSON path."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import islice
from typing import Any, TypeVar

from xdlc.errors import ModelError, XdlcError, nearest_names, raise_all
from xdlc.records import record

MAX_PROBLEMS = 100
EXTENSION = "xdlc_"
"""Prefix of fields that only xdlc reads."""
MAX_VALUES = 1 << 21
"""Values of a JSON text, each of which takes about 80 bytes of memory."""
MAX_DEPTH = 64
MAX_AXES = 8
"""Arrays of numbers within one another."""
_Number = TypeVar("_Number", int, float)
_EMPTY: dict[str, Any] = {'"': "", "[": [], "{": {}}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_value(text: str, most: int = MAX_VALUES) -> Any:
    """Return the value of an untrusted JSON text, whose strings are valid UTF-8.

    Raises:
        ValueError: If it is not JSON, has more than ``most`` values, nests them deeper than ``MAX_DEPTH``, or
            has half of a surrogate pair in a string.
    """
    if sum(map(text.count, ",[{")) > most:
        raise ValueError(f"it has more than {most} values")
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"the JSON nests values more than {MAX_DEPTH} levels deep") from error
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for held in inner for each in held if isinstance(each, dict | list)]
    if level:
        raise ValueError(f"the JSON nests values more than {MAX_DEPTH} levels deep")
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # its error is a ValueError
    return value


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file."""
    return f"{json.dumps(content, indent=1)}\n".encode()


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


@record
class Scope:
    """Problems and notices of one file.

    Attributes:
        where: Name of the file.
        error_type: Type of the errors.
        problems: Errors found.
        notices: Fields without effect, and assumptions.
    """

    where: str
    error_type: type[XdlcError] = ModelError
    problems: list[XdlcError] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def place(self, path: str) -> str:
        """Return ``file: path``, or the file for the outermost value."""
        return f"{self.where}: {path}" if path else self.where

    def error(self, path: str, problem: str, fix: str) -> XdlcError:
        """Return a problem of the value at a path."""
        return self.error_type(problem, where=self.place(path), fix=fix)

    def report(self, path: str, problem: str, fix: str) -> None:
        """Record a problem.

        Raises:
            Stop: If there are too many.
        """
        self.add(self.error(path, problem, fix))

    def add(self, error: XdlcError) -> None:
        """Record an error.

        Raises:
            Stop: If there are too many.
        """
        self.problems.append(error)
        if len(self.problems) >= MAX_PROBLEMS:
            raise Stop

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Raise all problems of a block at its end, or earlier if there are too many.

        Raises:
            XdlcError: The problem; a ProblemList of several.
        """
        with suppress(Stop):
            yield
        raise_all(self.problems, where=self.where)

    def notice(self, path: str, text: str) -> None:
        """Record a notice."""
        self.notices.append(f"{self.place(path)}: {text}")


@record(frozen=True)
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

    def leaves(self) -> Iterator[Node]:
        """Iterate over the values in nested arrays that are not arrays."""
        if not isinstance(self.value, list):
            yield self
            return
        for item in self.items():
            yield from item.leaves()


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
    """Return a fix for an unknown name: similar names, or the list of names.

    Example:
        >>> choice("NWHC", ("NHWC", "NCHW")), choice("x", ("NHWC", "NCHW"))
        ('nearest: NHWC', 'use one of NHWC, NCHW')
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
    if isinstance(value, int) and abs(value) >> 64:
        return "a number of more than 64 bits"
    return "null" if value is None else f"the number {value}"


def _as_number(value: Any) -> float | None:
    """Return a JSON value as a finite number; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _as_whole(value: Any) -> int | None:
    """Return a JSON value as a whole number; None if it is not one."""
    number = _as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def named(node: Node, member: str) -> str:
    """Return a string member for use in messages; "" if it is not a string."""
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
        names: Names that members may have; None: any, and a member that is null counts as omitted.
    """

    def __init__(self, node: Node, what: str, scope: Scope, names: Sequence[str] | None = None) -> None:
        from difflib import get_close_matches

        self.path = node.path
        self.what = what
        self.scope = scope
        self.ok = isinstance(node.value, Mapping)
        self._members: dict[str, Any] = {}
        self._meant: set[str] = set()
        self._is_open = names is None
        self._problems_before = len(scope.problems)
        if not self.ok:
            example = "name" if names is None or "name" in names else names[0]
            problem = f"{what} must be an object, found {kind_of(node.value)}"
            scope.report(node.path, problem, f'write {{"{example}": ...}}')
            return
        if names is None:
            self._members = {name: value for name, value in node.value.items() if value is not None}
            return
        for name, value in node.value.items():
            if name in names:
                self._members[name] = value
                continue
            problem = f"{what} has no field {shown(name)}"
            scope.report(joined(node.path, name), problem, _fix(name, names))
            self._meant |= {name, *get_close_matches(name.lower(), [key.lower() for key in names], n=1)}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    @property
    def is_faulty(self) -> bool:
        """Whether the scope has a new problem since this object was created."""
        return len(self.scope.problems) > self._problems_before

    def path_of(self, name: str) -> str:
        """Return the path of a member; of the object if the member is missing."""
        return joined(self.path, name) if name in self._members else self.path

    @property
    def place(self) -> str:
        """File and path, for messages."""
        return self.scope.place(self.path)

    def error(self, problem: str, fix: str) -> XdlcError:
        """Return a problem of the object."""
        return self.scope.error(self.path, problem, fix)

    def report(self, name: str, problem: str, fix: str) -> None:
        """Report a problem of a member."""
        self.scope.report(self.path_of(name), problem, fix)

    def notice(self, name: str, text: str) -> None:
        """Record a notice about a member."""
        self.scope.notice(self.path_of(name), text)

    def node(self, name: str) -> Node | None:
        """Return a member of any type; None if it is omitted."""
        return Node(self._members[name], joined(self.path, name)) if name in self._members else None

    def value(self, name: str) -> Any:
        """Return the plain value of a member; None if it is omitted."""
        return self._members.get(name)

    def lacks(self, *names: str) -> bool:
        """Return whether none of several members is present, nor a misspelt one."""
        return self.ok and not any(name in self._members or name.lower() in self._meant for name in names)

    def require(self, name: str, example: str) -> None:
        """Report a member that is missing.

        Args:
            name: Name of the member.
            example: A value to write, as JSON.
        """
        if self.lacks(name):
            members = map(str, islice(self._members, 100)) if self._is_open else ()
            similar = nearest_names(name, members, cutoff=0.8)
            self.scope.report(self.path, f"{self.what} has no {name}", similar or f'add "{name}": {example}')

    def need(self, name: str, example: str) -> None:
        """Report a member that is missing or empty.

        Args:
            name: Name of the member.
            example: A value to write, as JSON.
        """
        self.require(name, example)
        if name in self._members and self._members[name] == _EMPTY[example[0]]:
            self.report(name, f"{name} of {self.what} is empty", f'write "{name}": {example}')

    def wrong(self, name: str, expected: str, node: Node, fix: str) -> None:
        """Report a value of the wrong type."""
        problem = f"{name} of {self.what} must be {expected}, found {kind_of(node.value)}"
        self.scope.report(node.path, problem, fix)

    def _typed(self, name: str, types: type | tuple[type, ...], expected: str, example: str) -> Any:
        node = self.node(name)
        if node is not None and not isinstance(node.value, types):
            self.wrong(name, expected, node, f"write {example}")
            return None
        return None if node is None else node.value

    def number(self, name: str) -> float | None:
        """Return a finite number, also from an array of one; None if omitted or wrong."""
        value = self._members.get(name)
        if type(value) is float and math.isfinite(value):
            return value
        values = self.numbers(name)
        if values is not None and len(values) > 1:
            self.wrong_type(name, "one number")
        return values[0] if values is not None and len(values) == 1 else None

    def whole(self, name: str) -> int | None:
        """Return a whole number; None if it is omitted or wrong."""
        value = self._members.get(name)
        if type(value) is int and abs(value) < 1 << 63:
            return value
        number = _as_whole(value)
        if name in self._members and number is None:
            self.wrong_type(name, "a whole number")
        return number

    def wrong_type(self, name: str, expected: str) -> None:
        """Report the value of a member, which is of the wrong type."""
        self.wrong(name, expected, Node(self._members[name], self.path_of(name)), f"write {expected}")

    def numbers(self, name: str) -> list[float] | None:
        """Return the finite numbers of nested arrays in order; None if omitted or wrong.

        A number alone counts as an array of it.
        """
        values = self.array(name)[0]
        if set(map(type, values)) == {float} and all(map(math.isfinite, values)):  # maybe millions
            return values
        return self._converted(name, values, _as_number, "a finite number") if values else None

    def wholes(self, name: str) -> list[int] | None:
        """Return the whole numbers of nested arrays in order; None if omitted or wrong.

        A number alone counts as an array of it.
        """
        values = self.array(name)[0]
        if set(map(type, values)) == {int} and max(map(abs, values)) < 1 << 63:
            return values
        return self._converted(name, values, _as_whole, "a whole number") if values else None

    def array(self, name: str) -> tuple[list[Any], tuple[int, ...]]:
        """Return the elements of nested arrays in order, and their shape.

        Both are empty if the member is omitted, or after a report of rows of different lengths.
        """
        level, shape = [self._members[name]] if name in self._members else [], list[int]()
        while list in set(map(type, level)):
            lengths = {len(row) if isinstance(row, list) else -1 for row in level}
            if len(lengths) > 1 or 0 in lengths or len(shape) == MAX_AXES:
                problem = f"{name} of {self.what} must be an array of numbers with rows of equal lengths"
                self.report(name, problem, f'write "{name}": [1, 2] or [[1, 2], [3, 4]]')
                return [], ()
            shape.append(lengths.pop())
            level = [value for row in level for value in row]
        return level, tuple(shape)

    def _converted(
        self, name: str, values: Sequence[Any], convert: Callable[[Any], _Number | None], expected: str
    ) -> list[_Number] | None:
        """Return the numbers of nested arrays; report other values and return None."""
        numbers = [number for number in map(convert, values) if number is not None]
        if len(numbers) == len(values):  # maybe millions, of which none needs its path
            return numbers
        for leaf in Node(self._members[name], self.path_of(name)).leaves():
            if convert(leaf.value) is None:
                self.wrong(name, expected, leaf, f"write {expected}")
        return None

    def text(self, name: str) -> str:
        """Return a string; "" if it is omitted."""
        return self._typed(name, str, "a string", f'"{name}": "..."') or ""

    def one_of(self, name: str, known: Iterable[str], fix: str = "") -> str:
        """Return one of several strings; "" if omitted. ``fix`` is for other values."""
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
        """Return the elements of an array; () if it is omitted."""
        elements = self._typed(name, list, "an array", f'"{name}": [...]')
        return tuple(Node(elements, self.path_of(name)).items()) if elements else ()

    def members(self, name: str) -> dict[str, Node]:
        """Return the members of an object; {} if it is omitted."""
        members = self._typed(name, dict, "an object", f'"{name}": {{...}}')
        return dict(Node(members, self.path_of(name)).members()) if members else {}

    def words(self, name: str, choices: Sequence[str], fix: str = "") -> list[str]:
        """Return distinct strings from a list of choices; ``fix`` is for other strings."""
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
