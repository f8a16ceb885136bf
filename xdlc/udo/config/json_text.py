"""Configuration files as bytes and as JSON values, within bounds."""

from __future__ import annotations

import codecs
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir import files
from xdlc.json_fields import Node, Scope, Stop, joined, shown

MAX_BYTES = 4 << 20
"""Largest configuration; those of real packages have a few kilobytes."""
MAX_DEPTH = 32
MAX_VALUES = 50_000
MAX_STRING = 1 << 16
MAX_NUMBER = 64

_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(//[^\r\n]*|#[^\r\n]*|/\*.*?(?:\*/|\Z))", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|(,)(?=\s*[\]}}])", re.DOTALL)
_UNFIT = re.compile("[\\x00-\\x08\\x0b-\\x1f\\ud800-\\udfff\\ufffe\\uffff]")
_FIXES = {
    "Expecting property name": 'write "name": value, the name in double quotes',
    "Expecting ':'": 'write "name": value',
    "Expecting ','": "put a comma between the values, or close the bracket",
    "Expecting value": "write a string in double quotes, a number, true, false, null, [...] or {...}",
    "Extra data": "remove the text after the value, or a bracket before it",
    "Invalid control character": "write a line break as \\n and a tab as \\t",
    "Invalid \\escape": "write a backslash as \\\\",
    "Unterminated string": 'close it with "',
}


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a configuration file.

    Raises:
        StorageError: If it cannot be read.
        ModelError: If it is larger than ``MAX_BYTES``.
    """
    where = os.fspath(path)
    content = files.read_bytes(path, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise ModelError(
            f"is larger than {MAX_BYTES >> 20} MiB", where=where, fix="name a configuration of operations"
        )
    return content


def is_xml(content: bytes) -> bool:
    r"""Return whether a configuration is XML, judged by its first character.

    Example:
        >>> is_xml(b"\n<OpDefCollection>"), is_xml(b'{"UdoPackage_0": {}}'), is_xml(b"\xff\xfe<\x00")
        (True, False, True)
    """
    for bom in _BOMS:
        content = content.removeprefix(bom)
    return content[:4096].replace(b"\0", b"").lstrip().startswith(b"<")


class Real(float):
    """A number with a fraction or exponent, printed as in its source."""

    text: str

    def __new__(cls, text: str) -> Real:
        """Return the number that a text denotes."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


class _Object(dict[str, Any]):
    """A JSON object, with its duplicate names."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs) if len(self) < len(pairs) else Counter[str]()
        self.repeated = [name for name, times in counts.items() if times > 1]


def parse(content: bytes, where: str, notices: list[str] | None = None) -> Node:
    r"""Return the value of a JSON text.

    Comments, and commas after the last value of an array or object, are skipped with a notice.

    Args:
        content: The text in UTF-8.
        where: Name of the file, for messages.
        notices: Receives the notices.

    Raises:
        ModelError: If it is not JSON, or beyond the bounds; a ProblemList of several problems.

    Example:
        >>> print(parse(b'{"a": 1,\n "a": [2,\n]}', "c.json"))
        Traceback (most recent call last):
            ...
        xdlc.errors.ModelError: c.json: a: the object has several members with this name
          fix: keep one member, or rename the others
    """
    text = _decoded(content, where).removeprefix("\ufeff")
    found = notices if notices is not None else []
    text = _without(_COMMENT, text, where, "xdlc ignores comments, which JSON does not have", found)
    text = _without(_LAST_COMMA, text, where, "xdlc ignores commas after the last value", found)
    if not text.strip():
        raise ModelError(
            "the configuration is empty", where=where, fix='write {"UdoPackage_0": {"Operators": [...], ...}}'
        )
    try:
        value = json.loads(
            text,
            parse_float=Real,
            parse_int=lambda digits: int(digits) if len(digits) <= MAX_NUMBER else Real(digits),
            parse_constant=Real,
            object_pairs_hook=_Object,
        )
    except json.JSONDecodeError as error:
        fix = next((fix for start, fix in _FIXES.items() if error.msg.startswith(start)), "correct the text")
        problem = f"is not JSON: {error.msg} in column {error.colno}"
        raise ModelError(problem, where=f"{where}:{error.lineno}", fix=fix) from error
    except RecursionError as error:
        raise _too_deep(where) from error
    root, scope = Node(value), Scope(where)
    with scope.collected():
        _check(root, scope, 0, count(1))
    return root


def _decoded(content: bytes, where: str) -> str:
    if content.startswith(_BOMS[1:]) or b"\0" in content[:2]:
        raise ModelError(
            "is UTF-16 or UTF-32, but JSON must be UTF-8", where=f"{where}:1", fix="save the file as UTF-8"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ModelError(
            f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8",
            where=f"{where}:{line}",
            fix="save the file as UTF-8",
        ) from error


def _without(pattern: re.Pattern[str], text: str, where: str, notice: str, notices: list[str]) -> str:
    """Blank the first group of a pattern in a text, and add a notice with the lines."""
    starts: list[int] = []

    def blanks(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        starts.append(match.start())
        return re.sub(r"[^\r\n]", " ", match[0])

    blanked = pattern.sub(blanks, text)
    if starts:
        lines, line, last = dict[int, None](), 1, 0
        for start in starts:
            line += text.count("\n", last, start)
            last = start
            lines[line] = None
        more = f" (also on lines {', '.join(map(str, list(lines)[1:20]))})" if len(lines) > 1 else ""
        notices.append(f"{where}:{next(iter(lines))}: {notice}{more}")
    return blanked


def _too_deep(where: str) -> ModelError:
    return ModelError(f"brackets nest more than {MAX_DEPTH} deep", where=where, fix="remove inner brackets")


def _check(node: Node, scope: Scope, depth: int, numbers: Iterator[int]) -> None:
    """Report values beyond the bounds, and names that an object has more than once."""
    value = node.value
    if next(numbers) > MAX_VALUES:
        scope.report("", f"more than {MAX_VALUES} values", "split the configuration")
        raise Stop
    if isinstance(value, Real):
        if len(value.text) > MAX_NUMBER:
            problem = f"a number has {len(value.text)} characters; xdlc reads at most {MAX_NUMBER}"
            scope.report(node.path, problem, "round the number to the digits of its type")
        elif not math.isfinite(value):
            scope.report(node.path, f"{value} is not a finite 64-bit number", "write a finite number")
    elif isinstance(value, str):
        _check_text(value, node.path, scope)
    elif isinstance(value, list | dict):
        if depth >= MAX_DEPTH:
            scope.problems.append(_too_deep(scope.place(node.path)))
            raise Stop
        for name in value.repeated if isinstance(value, _Object) else ():
            path = joined(node.path, name)
            scope.report(
                path, "the object has several members with this name", "keep one member, or rename the others"
            )
        if isinstance(value, list):
            for item in node.items():
                _check(item, scope, depth + 1, numbers)
        else:
            for name, member in node.members():
                _check_text(name, node.path, scope)
                _check(member, scope, depth + 1, numbers)


def _check_text(text: str, path: str, scope: Scope) -> None:
    unfit = _UNFIT.search(text)
    if len(text) > MAX_STRING:
        scope.report(
            path,
            f"a string has {len(text)} characters; xdlc reads at most {MAX_STRING}",
            "shorten the string",
        )
    elif unfit:
        problem = f"character U+{ord(unfit[0]):04X} in the string {shown(text)}"
        scope.report(path, problem, "remove this part of a character, or write the complete character")
