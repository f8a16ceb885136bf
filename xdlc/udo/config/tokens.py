"""Splits JSON text into tokens with their places, and says what is wrong with those that are none."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from xdlc.errors import ModelError
from xdlc.udo.config.scope import MAX_PROBLEMS, Stop

MAX_STRING = 1 << 16
MAX_NUMBER = 64
LONG_LINE = 120
"""Behind so many characters of a line the column is told too."""

_SPACE = re.compile(r"[ \t\r\n]*")
_INSIDE = re.compile(r'[^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*')
_SINGLE = re.compile(r"'[^'\n]*'")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"""[^\s,:\[\]{}"'/#]+""")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNFIT = re.compile("[\\x00-\\x08\\x0b-\\x1f\\ufffe\\uffff]")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_SPELT = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false", "None": "null", "NULL": "null"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of JSON text.

    Attributes:
        kind: One of ``{ } [ ] : ,``, or ``string``, ``number``, ``word``, ``end``.
        offset: Where it begins.
        end: Where it ends.
        value: What a string, number or word stands for.
        text: Its characters, for numbers.
    """

    kind: str
    offset: int
    end: int
    value: str | int | float | bool | None = None
    text: str = ""


class Lines:
    """Knows the line of each place of a text, and collects what is wrong there.

    Args:
        text: The text.
        where: Name of the file.
    """

    def __init__(self, text: str, where: str) -> None:
        self._starts = [match.end() for match in re.finditer(r"\r\n|\n|\r", text)]
        self._where = where
        self.problems: list[ModelError] = []

    def line(self, offset: int) -> int:
        """Return the number of a line, from 1 on."""
        return bisect_right(self._starts, offset) + 1

    def place(self, offset: int) -> str:
        """Return ``file:line``."""
        return f"{self._where}:{self.line(offset)}"

    def _problem(self, offset: int, problem: str, fix: str) -> ModelError:
        column = offset - (self._starts[self.line(offset) - 2] if self.line(offset) > 1 else 0) + 1
        if column > LONG_LINE:
            problem += f" in column {column}"
        return ModelError(problem, where=self.place(offset), fix=fix)

    def report(self, offset: int, problem: str, fix: str) -> None:
        """Remember a problem that reading can go on behind.

        Raises:
            Stop: If there are too many.
        """
        self.problems.append(self._problem(offset, problem, fix))
        if len(self.problems) >= MAX_PROBLEMS:
            raise Stop

    def stop(self, offset: int, problem: str, fix: str) -> NoReturn:
        """Remember a problem that ends the reading."""
        self.problems.append(self._problem(offset, problem, fix))
        raise Stop


def tokens(text: str, lines: Lines) -> Iterator[Token]:
    """Yield the tokens of a text, the last of kind ``end``.

    Raises:
        Stop: If the rest cannot be split; ``lines`` then has the reason.
    """
    offset = 0
    if text.startswith("\ufeff"):  # editors on Windows write one
        offset = 1
    while True:
        offset = _after_space(text, offset, lines)
        if offset >= len(text):
            yield Token("end", len(text), len(text))
            return
        found = _token(text, offset, lines)
        yield found
        offset = found.end


def _after_space(text: str, offset: int, lines: Lines) -> int:
    """Return where the next token begins, behind blanks and comments, which are reported."""
    while True:
        space = _SPACE.match(text, offset)
        offset = space.end() if space else offset
        if text[offset : offset + 1] not in ("/", "#"):
            return offset
        comment = _COMMENT.match(text, offset)
        if comment is None:
            problem = "a comment is not closed" if text.startswith("/*", offset) else "unexpected '/'"
            lines.stop(offset, problem, "remove it: JSON has no comments")
        lines.report(offset, "JSON has no comments", "remove the comment")
        offset = comment.end()


def _token(text: str, offset: int, lines: Lines) -> Token:
    mark = text[offset]
    if mark in "{}[]:,":
        return Token(mark, offset, offset + 1)
    if mark == '"':
        return _string(text, offset, lines)
    if mark == "'":
        return _single_quoted(text, offset, lines)
    word = _WORD.match(text, offset)
    if word is None:
        lines.stop(offset, f"unexpected character U+{ord(mark):04X}", "remove it: it is no blank of JSON")
    return _word(word.group(), offset, lines)


def _string(text: str, offset: int, lines: Lines) -> Token:
    end = offset + 1
    while True:
        part = _INSIDE.match(text, end)
        end = part.end() if part else end
        mark = text[end : end + 1]
        if mark == '"':
            break
        if mark in ("", "\n", "\r", "\\"):
            problem = "a string is not closed" + (" on its line" if mark in ("\n", "\r") else "")
            lines.stop(offset, problem, 'close it with ", and write a line break in it as \\n')
        fix = "write it as \\t" if mark == "\t" else "remove it"
        lines.report(end, f"a control character U+{ord(mark):04X} in a string", fix)
        end += 1
    raw = text[offset + 1 : end]
    if len(raw) > MAX_STRING:
        lines.stop(offset, f"a string of {len(raw)} characters: at most {MAX_STRING}", "shorten it")
    return Token("string", offset, end + 1, _unescaped(raw, offset, lines))


def _unescaped(raw: str, offset: int, lines: Lines) -> str:
    def character(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code not in _PLAIN:
            lines.report(
                offset + 1 + match.start(),
                f"unknown escape \\{code} in a string",
                "write a backslash as \\\\",
            )
        return _PLAIN.get(code, code)

    value = _ESCAPE.sub(character, raw)
    try:
        value = value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        lines.report(offset, "half of a surrogate pair in a string", "write the character itself")
    unfit = _UNFIT.search(value)
    if unfit and not _UNFIT.search(raw):
        lines.report(offset, f"character U+{ord(unfit.group()):04X} in a string", "remove it")
    return value


def _single_quoted(text: str, offset: int, lines: Lines) -> Token:
    found = _SINGLE.match(text, offset)
    if found is None:
        lines.stop(offset, "a string in single quotes is not closed", 'write strings in double quotes, "..."')
    lines.report(
        offset, f"a string in single quotes: {_cut(found.group())}", 'write it in double quotes, "..."'
    )
    return Token("string", offset, found.end(), found.group()[1:-1])


def _word(word: str, offset: int, lines: Lines) -> Token:
    end = offset + len(word)
    if word in _WORDS:
        return Token("word", offset, end, _WORDS[word], word)
    if _NUMBER.fullmatch(word):
        return _number(word, offset, lines)
    if word in _SPELT:
        lines.report(offset, f"{word} is no word of JSON", f"write {_SPELT[word]}")
        return Token("word", offset, end, _WORDS[_SPELT[word]], word)
    if word.lstrip("+-").lower() in ("nan", "inf", "infinity"):
        lines.report(offset, f"{_cut(word)} is no number of JSON", "write a finite number")
        return Token("number", offset, end, 0, "0")
    if word[0] in "+-.0123456789":
        lines.report(
            offset, f"{_cut(word)} is no number of JSON", "write it like 10, -0.5 or 1e-3, without + or 0x"
        )
        return Token("number", offset, end, 0, "0")
    lines.report(offset, f"{_cut(word)} is not in quotes", 'write it in double quotes, "..."')
    return Token("string", offset, end, word)


def _number(word: str, offset: int, lines: Lines) -> Token:
    end = offset + len(word)
    if len(word) > MAX_NUMBER:
        lines.report(
            offset,
            f"a number of {len(word)} characters: at most {MAX_NUMBER}",
            "round it to what its type holds",
        )
        return Token("number", offset, end, 0, "0")
    value: int | float = float(word) if any(mark in word for mark in ".eE") else int(word)
    if value in (float("inf"), float("-inf")):
        lines.report(offset, f"{word} is larger than any number of 64 bits", "write a finite number")
        value = 0
    return Token("number", offset, end, value, word)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
