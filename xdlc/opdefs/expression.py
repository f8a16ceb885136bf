"""Parses rules and shapes that users write: comparisons and integer arithmetic, nothing else.

The grammar, where ``x`` is an input, output or parameter by name, or ``in[0]``, ``out[1]`` by position::

    rule       = part { ("and" | "or") part }       "and" binds closer; "not part", "( rule )"
    part       = [value] relation value { relation value }
    relation   = "=" "==" "!=" "<" "<=" ">" ">=" | "in" | "like"
    value      = numbers and values joined by + - * / // %, in round brackets where needed
               | x | x[i] | x.rank | x.shape | x.dim[i] | x.size | x.datatype
               | rank(x) | shape(x) | shape(x)[i] | dim(x, i) | extent(i) | size(x) | datatype(x)
               | min(...) | max(...) | abs(v) | floor(v) | ceil(v) | broadcast(x, y, ...)
               | "rank of x", "number of inputs" and the like, instead of the brackets
               | "[v, v, ...]", "{v, v, ...}", a text in quotes

Nothing is ever handed to Python's own parser.  Length, depth and numbers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

MAX_LENGTH = 1000
MAX_DEPTH = 16
MAX_CHAIN = 16
FUNCTIONS = (
    "rank", "shape", "dim", "extent", "size", "datatype", "number", "min", "max", "abs", "floor", "ceil",
    "broadcast",
)  # fmt: skip
ATTRIBUTES = ("rank", "shape", "dim", "size", "datatype", "dtype")
_ALIASES = {"dtype": "datatype", "dims": "shape", "count": "number", "elements": "size"}
_SYMBOLS = {"≤": "<=", "≥": ">=", "≠": "!=", "=": "==", "&&": "and", "||": "or"}
_RELATIONS = ("==", "!=", "<=", ">=", "<", ">", "in", "like")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z_0-9]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<symbol>//|==|!=|<=|>=|&&|\|\||[-+*/%<>=()\[\]{},.≤≥≠]))"
)


class NotAnExpressionError(ValueError):
    """A text that is no rule or shape of the grammar, but words."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression.

    Attributes:
        kind: ``number``, ``text``, ``name``, ``call``, ``index``, ``sign``, ``sum`` (any arithmetic),
            ``compare``, ``and``, ``or``, ``not``, ``list``, ``set``.
        value: Number, text or name; operator of arithmetic; relations of a comparison.
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


@lru_cache(maxsize=4096)
def parse(text: str, subject: str = "") -> Node:
    """Return a text as an expression.

    Args:
        text: The text.
        subject: What a comparison is about that has no left side, as ``> 0``.

    Raises:
        NotAnExpressionError: If it is none.

    Example:
        >>> parse("0 <= axis < rank(in[0])").value
        ('<=', '<')
        >>> parse("rank of in[0] + 1").kind, parse("> 0", "value").parts[0].value
        ('sum', 'value')
        >>> parse("all values are positive")
        Traceback (most recent call last):
        ...
        xdlc.opdefs.expression.NotAnExpressionError: 'values' after 'all'
    """
    if len(text) > MAX_LENGTH:
        raise NotAnExpressionError(f"{len(text)} characters, at most {MAX_LENGTH} are read")
    return _Parser(text, subject).whole()


class _Parser:
    """Recursive descent over the tokens, at most ``MAX_DEPTH`` deep."""

    def __init__(self, text: str, subject: str) -> None:
        self._text = text
        self._subject = subject
        self._depth = 0
        self._position = 0
        self._tokens = _tokens(text)

    def whole(self) -> Node:
        node = self._rule()
        kind, word, start, _ = self._peek()
        if kind:
            before = self._text[:start].split()
            raise NotAnExpressionError(f"{word!r} after {before[-1] if before else ''!r}")
        return node

    def _peek(self, ahead: int = 0) -> tuple[str, str, int, int]:
        index = self._position + ahead
        return (
            self._tokens[index] if index < len(self._tokens) else ("", "", len(self._text), len(self._text))
        )

    def _accept(self, *words: str) -> str | None:
        kind, word, _, _ = self._peek()
        if kind != "text" and word in words:
            self._position += 1
            return word
        return None

    def _expect(self, word: str) -> None:
        if self._accept(word) is None:
            raise NotAnExpressionError(f"{word!r} is missing")

    def _node(self, start: int, kind: str, value: object = None, parts: tuple[Node, ...] = ()) -> Node:
        end = self._tokens[self._position - 1][3] if self._position else 0
        return Node(kind, value, parts, self._text[start:end].strip())

    def _rule(self) -> Node:
        start = self._peek()[2]
        parts = [self._all()]
        while self._accept("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else self._node(start, "or", None, tuple(parts))

    def _all(self) -> Node:
        start = self._peek()[2]
        parts = [self._negated()]
        while self._accept("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else self._node(start, "and", None, tuple(parts))

    def _negated(self) -> Node:
        start = self._peek()[2]
        count = 0
        while self._accept("not"):
            count += 1
        node = self._comparison()
        return self._node(start, "not", None, (node,)) if count % 2 else node

    def _comparison(self) -> Node:
        start, word = self._peek()[2], self._peek()[1]
        if self._subject and word in _RELATIONS and not (word == "in" and self._is_place()):
            parts = [Node("name", self._subject, (), self._subject)]
        else:
            parts = [self._sum()]
        relations = []
        while relation := self._accept(*_RELATIONS):
            relations.append(relation)
            parts.append(self._sum())
        return self._node(start, "compare", tuple(relations), tuple(parts)) if relations else parts[0]

    def _is_place(self) -> bool:
        """Return whether ``in`` begins ``in[0]`` here, not a range."""
        return self._peek(1)[1] == "[" and self._peek(2)[0] == "number" and self._peek(3)[1] == "]"

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._arithmetic(("*", "/", "//", "%"), self._signed)

    def _arithmetic(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        start = self._peek()[2]
        node = operand()
        count = 0
        while operator := self._accept(*operators):
            right = operand()
            count += 1
            if count > MAX_CHAIN:
                raise NotAnExpressionError(f"more than {MAX_CHAIN} operators in a row")
            node = self._node(start, "sum", operator, (node, right))
        return node

    def _signed(self) -> Node:
        start = self._peek()[2]
        negative = False
        while sign := self._accept("-", "+"):
            negative ^= sign == "-"
        node = self._postfix()
        return self._node(start, "sign", "-", (node,)) if negative else node

    def _postfix(self) -> Node:
        self._depth += 1  # all that nests passes here
        if self._depth > MAX_DEPTH:
            raise NotAnExpressionError("nests too deeply")
        start = self._peek()[2]
        node = self._atom()
        count = 0
        while symbol := self._accept("[", "."):
            count += 1
            if count > MAX_CHAIN:
                raise NotAnExpressionError(f"more than {MAX_CHAIN} indices in a row")
            if symbol == "[":
                index = self._sum()
                self._expect("]")
                node = self._node(start, "index", None, (node, index))
            else:
                attribute = self._attribute()
                node = self._node(start, "call", attribute, (node,))
        self._depth -= 1
        return node

    def _attribute(self) -> str:
        kind, word, _, _ = self._peek()
        if kind != "name" or word not in ATTRIBUTES:
            raise NotAnExpressionError(f"{word!r} after a dot")
        self._position += 1
        word = _ALIASES.get(word, word)
        return "shape" if word == "dim" else word

    def _atom(self) -> Node:
        kind, word, start, _ = self._peek()
        self._position += 1
        if kind == "number":
            number = float(word) if any(char in word for char in ".eE") else int(word)
            return self._node(start, "number", number)
        if kind == "text":
            return self._node(start, "text", word[1:-1])
        if kind == "name":
            return self._named(start, _ALIASES.get(word.lower(), word))
        if word == "(":
            node = self._rule()
            self._expect(")")
            return node
        if word in ("[", "{"):
            closer = {"[": "]", "{": "}"}[word]
            items = self._items(closer)
            return self._node(start, "list" if word == "[" else "set", None, items)
        raise NotAnExpressionError(f"{word!r} where a value is expected")

    def _named(self, start: int, word: str) -> Node:
        lowered = word.lower()
        if word in ("and", "or", "not", "like"):
            raise NotAnExpressionError(f"{word!r} where a value is expected")
        if lowered == "data" and self._peek()[1].lower() == "type":
            self._position += 1
            word = lowered = "datatype"
        if lowered in FUNCTIONS and self._accept("of"):
            operand = self._postfix()
            return self._node(start, "call", lowered, (operand,))
        if lowered in FUNCTIONS and self._accept("("):
            operands = self._items(")")
            return self._node(start, "call", lowered, operands)
        return self._node(start, "name", word)

    def _items(self, closer: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while self._accept(closer) is None:
            if items:
                self._expect(",")
            items.append(self._sum())
        return tuple(items)


def _tokens(text: str) -> list[tuple[str, str, int, int]]:
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
