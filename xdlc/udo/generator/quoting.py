r"""Filters that put text of a configuration into generated files.

Configurations are untrusted input, so a template can print a value only through one of these filters,
or if the value is harmless wherever it stands (an identifier, a number, the name of a file of ours).

Example:
    >>> print(c_string('a"b\\ \n?'), c_comment("ends with \\"), python(chr(0x2019)), markdown("a|*b"))
    "a\"b\\ \n\?" ends with / '\u2019' a\|\*b
"""

from __future__ import annotations

import re
from typing import Any

from xdlc.errors import ModelError

_HARMLESS = re.compile(r"[A-Za-z0-9_./+-]*", re.ASCII)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "?": "\\?"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+!|~&$-])")


class Quoted(str):
    """Text that is ready for the file it goes to."""

    __slots__ = ()


def finalize(value: Any) -> Any:
    """Return a value that a template prints, if it may be printed.

    Raises:
        ModelError: If it is text that no filter has quoted and that could mean something in code.
    """
    if isinstance(value, str) and not isinstance(value, Quoted) and not _HARMLESS.fullmatch(value):
        raise ModelError(
            f"the text {value!r} cannot stand in generated code as it is",
            fix="use letters, digits and underscores",
        )
    return value


def c_string(text: str) -> Quoted:
    """Return a string literal of C in ASCII; other characters are UTF-8 in octal."""
    return Quoted('"' + "".join(_c_character(character) for character in text) + '"')


def _c_character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="replace"))


def c_comment(text: str) -> Quoted:
    """Return text for the rest of a line that is a comment of C, C++, Python or make."""
    line = (
        " ".join(text.split())
        .replace("\\", "/")
        .replace("*/", "* /")
        .replace("/*", "/ *")
        .replace("??", "? ?")
    )
    return Quoted("".join(character if character.isprintable() else "?" for character in line))


def python(value: Any) -> Quoted:
    """Return a literal of Python in ASCII."""
    return Quoted(ascii(value))


def markdown(text: str) -> Quoted:
    """Return text for one line of Markdown, without any markup of its own."""
    return Quoted(_MARKDOWN.sub(r"\\\1", str(c_comment(text))))


def rendered(text: str) -> Quoted:
    """Return the output of a macro of ours, which ``finalize`` has quoted."""
    return Quoted(text.rstrip("\n"))


FILTERS = {
    "c_string": c_string,
    "c_comment": c_comment,
    "python": python,
    "markdown": markdown,
    "rendered": rendered,
}
