"""The words of rules and shapes that users write, and what they are put together into."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SYMBOLS = {"≤": "<=", "≥": ">=", "≠": "!=", "=": "==", "&&": "and", "||": "or", "∈": "in"}
Token = tuple[str, str, int, int]
"""Kind, word, start and end."""
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z_0-9]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<symbol>//|==|!=|<=|>=|&&|\|\||[-+*/%<>=()\[\]{},.≤≥≠∈]))"
)


class NotAnExpressionError(ValueError):
    """A text that is no rule or shape of the grammar, but words."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression.

    Attributes:
        kind: ``number``, ``text``, ``name``, ``call``, ``index``, ``sign``, ``sum`` (any arithmetic),
            ``compare``, ``and``, ``or``, ``not``, ``list``, ``set``, ``range``; ``extent`` is a name that
            ``xdlc.opdefs.extent_names`` found to be one.
        value: Number, text or name; operator of arithmetic; relations of a comparison; brackets of a range.
        parts: Operands.
        source: The text that it was read from.
    """

    kind: str
    value: object = None
    parts: tuple[Node, ...] = ()
    source: str = ""

    @property
    def is_rule(self) -> bool:
        """Whether it is true or false."""
        if self.kind in ("and", "or", "not"):
            return all(part.is_rule for part in self.parts)
        return self.kind == "compare"


class Cursor:
    """A place in the words of a text.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._tokens = _tokens(text)

    def peek(self, ahead: int = 0) -> Token:
        """Return kind, word, start and end of a token to come; the kind is empty behind the last."""
        index = self.position + ahead
        return self._tokens[index] if index < len(self._tokens) else ("", "", len(self.text), len(self.text))

    def accept(self, *words: str) -> str | None:
        """Step over the next token if it is one of some words, and return it."""
        kind, word, _, _ = self.peek()
        if kind != "text" and word in words:
            self.position += 1
            return word
        return None

    def says(self, *words: str) -> bool:
        """Step over words of plain language, large or small letters, if they are all there in this order."""
        found = [self.peek(ahead) for ahead in range(len(words))]
        if any(kind not in ("name", "symbol") for kind, *_ in found):
            return False
        if [word.lower() for _, word, *_ in found] != list(words):
            return False
        self.position += len(words)
        return True

    def expect(self, word: str) -> None:
        """Step over a word.

        Raises:
            NotAnExpressionError: If it is not there.
        """
        if self.accept(word) is None:
            raise NotAnExpressionError(f"{word!r} is missing")

    def node(self, start: int, kind: str, value: object = None, parts: tuple[Node, ...] = ()) -> Node:
        """Return a part of the expression, from a place of the text to the token before."""
        end = self._tokens[self.position - 1][3] if self.position else 0
        return Node(kind, value, parts, self.text[start:end].strip())


def _tokens(text: str) -> list[Token]:
    """Return kind, word, start and end of each token."""
    found = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotAnExpressionError(f"{text[position : position + 10]!r} is none of the grammar")
        kind = str(match.lastgroup)
        word = match[kind]
        found.append((kind, _SYMBOLS.get(word, word), match.start(kind), match.end()))
        position = match.end()
    return found
