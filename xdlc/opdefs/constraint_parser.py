"""Parses rules and shapes that users write: comparisons and integer arithmetic, nothing else.

The grammar, where ``x`` is an input, output or parameter by name, or ``in[0]``, ``out[1]`` by position::

    rule       = part { ("and" | "or") part }       "and" binds closer; "not part", "( rule )"
    part       = [value] relation value { relation value } | [value] phrase (see ``xdlc.opdefs.phrases``)
    relation   = "=" "==" "!=" "<" "<=" ">" ">=" | "like"
               | "in" "[low, high]" "[low, high)" "(low, high]" | "in" "{a, b}" "(a, b, c)"
    value      = numbers and values joined by + - * / // % mod, in round brackets where needed
               | x | x[i] | x.rank | x.shape | x.dim[i] | x.size | x.datatype
               | rank(x) | shape(x) | shape(x)[i] | dim(x, i) | extent(i) | size(x) | datatype(x)
               | min(...) | max(...) | abs(v) | floor(v) | ceil(v) | broadcast(x, y, ...)
               | sum(list) | prod(list) | len(list)
               | "rank of x", "number of inputs" and the like, instead of the brackets
               | "[v, v, ...]", "{v, v, ...}", a text in quotes

Nothing is ever handed to Python's own parser.  Length, depth and numbers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

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


__all__ = ["ATTRIBUTES", "FUNCTIONS", "Node", "NotAnExpressionError", "parse"]

MAX_LENGTH = 1000
MAX_DEPTH = 16
MAX_CHAIN = 16
FUNCTIONS = (
    "rank", "shape", "dim", "extent", "size", "datatype", "number", "min", "max", "abs", "floor", "ceil",
    "broadcast", "len", "sum", "prod",
)  # fmt: skip
ATTRIBUTES = ("rank", "shape", "dim", "dims", "ndim", "size", "datatype", "dtype")
_ALIASES = {"dtype": "datatype", "dims": "shape", "ndim": "rank", "count": "number", "elements": "size"}
_CALLS = {"type": "datatype", "num_elements": "size", "numel": "size", "ndims": "rank"}
"""Other names of functions, where a bracket tells that they are meant."""
_RELATIONS = ("==", "!=", "<=", ">=", "<", ">", "in", "like")


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
        >>> parse("each value counts")
        Traceback (most recent call last):
        ...
        xdlc.opdefs.constraint_parser.NotAnExpressionError: 'value' after 'each'
    """
    if len(text) > MAX_LENGTH:
        raise NotAnExpressionError(f"{len(text)} characters, at most {MAX_LENGTH} are read")
    return _Parser(text, subject).whole()


class _Parser:
    """Recursive descent over the tokens, at most ``MAX_DEPTH`` deep."""

    def __init__(self, text: str, subject: str) -> None:
        self._cursor = Cursor(text.rstrip().rstrip(".;"))
        self._subject = subject
        self._depth = 0
        self._peek = self._cursor.peek
        self._accept = self._cursor.accept
        self._expect = self._cursor.expect
        self._node = self._cursor.node

    def whole(self) -> Node:
        node = self._rule()
        kind, word, start, _ = self._peek()
        if kind:
            before = self._cursor.text[:start].split()
            raise NotAnExpressionError(f"{word!r} after {before[-1] if before else ''!r}")
        return node

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
        from xdlc.opdefs.phrases import phrase

        start = self._peek()[2]
        said = phrase(self._cursor, self._subject, self._sum, self._range)
        if said is not None:
            return said
        word = self._peek()[1]
        related = word in _RELATIONS and not (word == "in" and self._is_place())
        if related and self._subject not in ("", "shape"):  # "> 1" of a shape may mean rank or extents
            parts = [Node("name", self._subject, (), self._subject)]
        else:
            parts = [self._sum()]
            said = phrase(self._cursor, "", self._sum, self._range, start, parts[0])
            if said is not None:
                return said
        relations = []
        while relation := self._accept(*_RELATIONS):
            relations.append(relation)
            parts.append(self._range() if relation == "in" else self._sum())
        return self._node(start, "compare", tuple(relations), tuple(parts)) if relations else parts[0]

    def _range(self) -> Node:
        """Return what a value lies in; ``(0, 1)`` is left to people, as it may mean a range or two values."""
        start = self._peek()[2]
        if self._peek()[1] not in ("[", "("):
            return self._sum()
        before = self._cursor.position
        opening = self._accept("[", "(") or ""
        items = [self._sum()]
        while self._accept(","):
            items.append(self._sum())
        closing = self._accept("]", ")") or ""
        if not closing:
            raise NotAnExpressionError("']' or ')' is missing")
        if opening == "[" and closing == "]":
            self._cursor.position = before
            return self._sum()
        if opening == "(" and closing == ")" and len(items) > 2:
            return self._node(start, "set", None, tuple(items))
        if len(items) != 2 or opening + closing == "()":
            raise NotAnExpressionError(f"{opening}...{closing} of {len(items)}")
        return self._node(start, "range", opening + closing, tuple(items))

    def _is_place(self) -> bool:
        """Return whether ``in`` begins ``in[0]`` here, not a range."""
        return self._peek(1)[1] == "[" and self._peek(2)[0] == "number" and self._peek(3)[1] == "]"

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._arithmetic(("*", "/", "//", "%", "mod"), self._signed)

    def _arithmetic(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        start = self._peek()[2]
        node = operand()
        count = 0
        while operator := self._accept(*operators):
            operator = "%" if operator == "mod" else operator
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
        self._cursor.position += 1
        if self._peek()[1] == "(" and self._peek(1)[1] == ")":
            self._cursor.position += 2
        word = _ALIASES.get(word, word)
        return "shape" if word == "dim" else word

    def _atom(self) -> Node:
        kind, word, start, _ = self._peek()
        self._cursor.position += 1
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
            self._cursor.position += 1
            word = lowered = "datatype"
        if self._peek()[1] == "(":
            lowered = _CALLS.get(lowered, lowered)
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
