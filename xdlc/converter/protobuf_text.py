"""Protobuf text format, parsed without a schema.

Grammar: protobuf's text format language specification.  A field is a scalar, a message in ``{}`` or ``<>``,
or a list of either in ``[]``; separators ``,`` and ``;`` are optional, adjacent strings join.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from xdlc import ir
from xdlc.errors import ModelError
from xdlc.records import record

LARGEST = 1 << 26
"""Bytes of a file of text that is read."""
MOST_VALUES = 1 << 19
"""Values of a text; each of the strings that join counts."""
DEPTH = 64
"""Messages that nest."""
_DIGITS = 64
"""Characters of a number."""
_LETTERS = 256
"""Characters of a name, and of a path of names."""
_FIX = "correct the text at this place, or get the file again"
_TOKEN = re.compile(
    r"""(?:\s++|\#[^\n]*+)*+
    (?: (?P<word>[A-Za-z_][A-Za-z0-9_./-]*+)
      | (?P<number>[-+]?(?:\.?[0-9](?:[eE][-+][0-9]|[0-9A-Za-z_.])*+))
      | (?P<string>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+')
      | (?P<mark>[-{}<>\[\]:,;])
      | (?P<end>\Z) | (?P<other>.) )""",
    re.VERBOSE,
)
_CLOSES = {"{": "}", "<": ">"}
_SPECIAL = {"inf": "inf", "inff": "inf", "infinity": "inf", "nan": "nan", "nanf": "nan"}


class Word(str):
    """An unquoted identifier: the name of an enum's value, or ``true`` and ``false``."""

    __slots__ = ()


class Octets(str):
    """Bytes of an attribute that are not text; UDOs receive the bytes."""

    data: bytes


def text_of(data: bytes, errors: str = "replace") -> str:
    """Return bytes of an attribute as text, or as ``Octets`` if they are not UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        found = Octets(data, "utf-8", errors)
        found.data = bytes(data)
        return found


Value: TypeAlias = "int | float | str | Message"


@record
class Message:
    """A message.

    Attributes:
        line: Line in which it begins, from 1.
        fields: Values of each field in the order of the text.
    """

    line: int
    fields: dict[str, list[Value]] = field(default_factory=dict)

    def messages(self, name: str) -> list[Message]:
        """Return the values of a field that are messages."""
        return [value for value in self.fields.get(name, ()) if isinstance(value, Message)]

    def scalars(self, name: str) -> list[int | float | str]:
        """Return the values of a field that are not messages."""
        return [value for value in self.fields.get(name, ()) if not isinstance(value, Message)]


def read_text(file: ir.MappedFile) -> Message:
    """Return the message of a text file; invalid UTF-8 is allowed, as in comments.

    Raises:
        ModelError: If it is not text format, with the line; or larger than ``LARGEST``.
    """
    if file.size > LARGEST:
        raise ModelError(
            f"the file is a text of {file.size} bytes, which is too large",
            where=str(file.path),
            fix="save the model as a binary file",
        )
    content = bytes(file.view(0, file.size))
    if 0 in content:
        raise ModelError(
            f"the file is not text: byte {content.index(0)} is 0",
            where=str(file.path),
            fix="pass the text of the network, not its weights",
        )
    return parse_text(content.decode("utf-8", "surrogateescape"), str(file.path))


def parse_text(text: str, where: str) -> Message:
    """Return the message of a text.

    Args:
        where: Its place, for errors.

    Raises:
        ModelError: If it does not parse, with line and column.
    """
    return _Parser(text, where).message()


class _Parser:
    """Parser of one text."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._position = self._start = 0
        self._line = 1
        self._counted = 0
        self._count = 0
        self._kind = self._token = ""

        self._next()

    def message(self, line: int = 1, closing: str = "", depth: int = 0) -> Message:
        """Read fields up to the end mark of their message, or the end of the text."""
        parsed = Message(line)
        while self._kind != "end" and not (closing and self._mark() == closing):
            if self._mark() == "[":
                name = self._extension()
            elif self._kind == "word":
                name = self._token
                self._next()
            else:
                raise self._error(f"{self._shown()} is not the name of a field")
            self._values(parsed.fields.setdefault(name, []), name, depth)
        if closing and not self._take(closing):
            raise self._error(f"the message of line {line} is not closed")
        return parsed

    def _values(self, values: list[Value], name: str, depth: int) -> None:
        """Read the values after the name of a field."""
        has_colon = self._take(":")
        if self._take("["):
            if not self._take("]"):
                values.append(self._value(depth))
                while not self._take("]"):
                    if not self._take(","):
                        raise self._error(f"{self._shown()} appears in a list instead of ',' or ']'")
                    values.append(self._value(depth))
        elif has_colon or self._mark() in _CLOSES:
            values.append(self._value(depth))
        else:
            raise self._error(f"{self._shown()} follows {name!r} instead of ':' or '{{'")
        if self._mark() in (",", ";"):
            self._next()

    def _value(self, depth: int) -> Value:
        self._counting()
        closing = _CLOSES.get(self._mark())
        if closing is None:
            return self._scalar()
        if depth == DEPTH:
            raise self._error(f"messages nest deeper than {DEPTH}")
        line = self._line_here()
        self._next()
        return self.message(line, closing, depth + 1)

    def _scalar(self) -> int | float | str:
        kind, token = self._kind, self._token
        sign = ""
        if kind == "mark" and token == "-":
            sign = "-"
            self._next()
            kind, token = self._kind, self._token
        if kind == "string" and not sign:
            parts = []
            while self._kind == "string":
                self._counting()
                parts.append(self._unescaped(self._token[1:-1]))
                self._next()
            return "".join(parts)
        if kind == "word" and token.lower() in _SPECIAL:
            self._next()
            return float(sign + _SPECIAL[token.lower()])
        if kind == "word" and not sign:
            self._next()
            return Word(token)
        if kind == "number":
            value = self._number(sign + token)
            self._next()
            return value
        raise self._error(f"{self._shown()} appears instead of a value")

    def _number(self, token: str) -> int | float:
        if len(token) <= _DIGITS:
            bare = token.lstrip("+-").lower()
            sign = -1 if token.startswith("-") else 1
            try:
                if bare.startswith("0x"):
                    return sign * int(bare, 16)
                if bare.isdigit():
                    return sign * int(bare, 8 if len(bare) > 1 and bare.startswith("0") else 10)
                if "_" not in bare:
                    return sign * float(bare.removesuffix("f"))
            except ValueError:
                pass
        raise self._error(f"{token[:40]!r} is not a valid number")

    def _unescaped(self, text: str) -> str:
        if "\\" not in text:
            return text
        try:
            plain = codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0]
            return str(plain.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise self._error("a string has an invalid escape") from error

    def _extension(self) -> str:
        """Return the name of an extension field, which is in brackets."""
        self._next()
        name = self._token
        self._next()
        if not self._take("]"):
            raise self._error(f"{self._shown()} appears in the name of an extension instead of ']'")
        return name

    def _counting(self) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._error(f"there are more than {MOST_VALUES} values")

    def _mark(self) -> str:
        return self._token if self._kind == "mark" else ""

    def _take(self, mark: str) -> bool:
        if self._mark() != mark:
            return False
        self._next()
        return True

    def _next(self) -> None:
        found = _TOKEN.match(self._text, self._position)
        assert found is not None  # any character matches
        self._kind = found.lastgroup or ""
        self._token = found[self._kind]
        self._start, self._position = found.start(self._kind), found.end()
        if self._kind == "other":
            raise self._error(
                f"{self._text[self._start : self._start + 12]!r} does not belong to this format"
            )
        if self._kind == "word" and len(self._token) > _LETTERS:
            raise self._error(f"a name has {len(self._token)} characters, more than {_LETTERS}")

    def _shown(self) -> str:
        return "the text ends" if self._kind == "end" else repr(self._token[:40])

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._start)
        self._counted = self._start
        return self._line

    def _error(self, problem: str) -> ModelError:
        line = self._line_here()
        column = self._start - self._text.rfind("\n", 0, self._start)
        return ModelError(f"line {line}, column {column}: {problem}", where=self._where, fix=_FIX)


def readable(text: str) -> str:
    """Return a text with escapes for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _text_or_octets(text: str) -> str:
    return text_of(text.encode("utf-8", "surrogateescape"), "backslashreplace")


def flattened(message: Message, prefix: str = "") -> Iterator[tuple[str, Value | list[Value]]]:
    """Iterate over the scalar fields by path, like ``param.inner.alpha``.

    A field with several values is a list; messages of a repeated field are numbered: ``param.1.name``.

    Raises:
        ModelError: If a path has more than 256 characters.
    """
    if len(prefix) > _LETTERS:
        raise ModelError(f"the fields nest too deeply, in line {message.line}", fix=_FIX)
    for name in message.fields:
        scalars = [_text_or_octets(each) if type(each) is str else each for each in message.scalars(name)]
        if scalars:
            yield f"{prefix}{name}", scalars[0] if len(scalars) == 1 else [*scalars]
        inner = message.messages(name)
        for number, each in enumerate(inner):
            place = name if len(inner) == 1 else f"{name}.{number}"
            yield from flattened(each, f"{prefix}{place}.")
