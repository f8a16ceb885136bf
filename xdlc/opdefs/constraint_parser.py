"""Recursive-descent parser of constraints and shape expressions.

The grammar, where ``x`` is an input, output or parameter by name, or ``in[0]``, ``out[1]`` by position::

    rule       = part { ("and" | "or") part }       "and" binds closer; "not part", "( rule )"
    part       = [value] relation value { relation value }
    relation   = "=" "==" "!=" "<" "<=" ">" ">=" | "like"
               | "in" "[low, high]" "[low, high)" "(low, high]" | "in" "{a, b}" "(a, b, c)"
    value      = numbers and values joined by + - * / // % mod, in round brackets where needed
               | x | x[i] | x.rank | x.shape | x.dim[i] | x.size | x.datatype
               | rank(x) | shape(x) | shape(x)[i] | dim(x, i) | dim(i) | "extent(i)" | size(x)
               | datatype(x) | number(x)
               | min(...) | max(...) | abs(v) | floor(v) | ceil(v) | broadcast(x, y, ...)
               | sum(list) | prod(list) | len(list)
               | "rank of x", "number of inputs" for rank(x), number(inputs)
               | "[v, v, ...]", "{v, v, ...}", a text in quotes

No text is ever passed to Python's own parser.  Length, depth and numbers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from xdlc.records import record

MAX_LENGTH = 1000
MAX_DEPTH = 16
MAX_CHAIN = 16
FUNCTIONS = (
    "rank", "shape", "dim", "extent", "size", "datatype", "number", "min", "max", "abs", "floor", "ceil",
    "broadcast", "len", "sum", "prod",
)  # fmt: skip
ATTRIBUTES = ("rank", "shape", "dim", "size", "datatype")
_RELATIONS = ("==", "!=", "<=", ">=", "<", ">", "in", "like")
_SYMBOLS = {"≤": "<=", "≥": ">=", "≠": "!=", "=": "==", "&&": "and", "||": "or", "∈": "in"}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z_0-9]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<symbol>//|==|!=|<=|>=|&&|\|\||[-+*/%<>=()\[\]{},.≤≥≠∈]))"
)
Token = tuple[str, str, int, int]
"""Kind, word, start and end."""


class NotAnExpressionError(ValueError):
    """A text that the grammar does not accept."""


@record(frozen=True)
class Node:
    """A node of the syntax tree.

    Attributes:
        kind: ``number``, ``text``, ``name``, ``call``, ``index``, ``sign``, ``sum`` (any arithmetic),
            ``compare``, ``and``, ``or``, ``not``, ``list``, ``set``, ``range``.
        value: Number, text or name; operator of arithmetic; relations of a comparison; brackets of a range.
        source: The text that it was parsed from.
    """

    kind: str
    value: object = None
    parts: tuple[Node, ...] = ()
    source: str = ""

    @property
    def is_rule(self) -> bool:
        """Whether the expression is boolean."""
        if self.kind in ("and", "or", "not"):
            return all(part.is_rule for part in self.parts)
        return self.kind == "compare"


@lru_cache(maxsize=4096)
def parse(text: str, subject: str = "") -> Node:
    """Return the syntax tree of a text.

    Args:
        subject: Left side of a comparison that has none, as ``> 0``.

    Raises:
        NotAnExpressionError: If the grammar does not accept it.

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
        raise NotAnExpressionError(f"the text has {len(text)} characters; xdlc reads at most {MAX_LENGTH}")
    return _Parser(text, subject).whole()


def is_expression(text: str) -> bool:
    """Return whether the grammar accepts a text."""
    try:
        parse(text)
    except NotAnExpressionError:
        return False
    return True


class _Parser:
    """Recursive descent over the tokens, at most ``MAX_DEPTH`` deep."""

    def __init__(self, text: str, subject: str) -> None:
        self._text = text.rstrip().rstrip(".;")
        self._subject = subject
        self._depth = 0
        self._position = 0
        self._tokens = _tokens(self._text)

    def _peek(self, ahead: int = 0) -> Token:
        """Return a token to come; its kind is empty after the last."""
        index = self._position + ahead
        end = len(self._text)
        return self._tokens[index] if index < len(self._tokens) else ("", "", end, end)

    def _accept(self, *words: str) -> str | None:
        """Consume and return the next token if it is one of some words."""
        kind, word, _, _ = self._peek()
        if kind != "text" and word in words:
            self._position += 1
            return word
        return None

    def _expect(self, word: str) -> None:
        if self._accept(word) is None:
            raise NotAnExpressionError(f"{word!r} is missing")

    def _node(self, start: int, kind: str, value: object = None, parts: tuple[Node, ...] = ()) -> Node:
        """Return a node for the text from ``start`` to the end of the previous token."""
        end = self._tokens[self._position - 1][3] if self._position else 0
        return Node(kind, value, parts, self._text[start:end].strip())

    def whole(self) -> Node:
        node = self._rule()
        kind, word, start, _ = self._peek()
        if kind:
            before = self._text[:start].split()
            raise NotAnExpressionError(f"{word!r} after {before[-1] if before else ''!r}")
        return node

    def _rule(self) -> Node:
        return self._joined("or", lambda: self._joined("and", self._negated))

    def _joined(self, word: str, operand: Callable[[], Node]) -> Node:
        start = self._peek()[2]
        parts = [operand()]
        while self._accept(word):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else self._node(start, word, None, tuple(parts))

    def _negated(self) -> Node:
        start = self._peek()[2]
        count = 0
        while self._accept("not"):
            count += 1
        node = self._comparison()
        return self._node(start, "not", None, (node,)) if count % 2 else node

    def _comparison(self) -> Node:
        start = self._peek()[2]
        word = self._peek()[1]
        begins = word in _RELATIONS and not (word == "in" and self._is_place())
        if begins and self._subject:
            parts = [Node("name", self._subject, (), self._subject)]
        else:
            parts = [self._sum()]
        relations = []
        while relation := self._accept(*_RELATIONS):
            relations.append(relation)
            parts.append(self._range() if relation == "in" else self._sum())
        return self._node(start, "compare", tuple(relations), tuple(parts)) if relations else parts[0]

    def _range(self) -> Node:
        """Return the right side of ``in``; ``(0, 1)``, a range or two values, is refused."""
        start = self._peek()[2]
        if self._peek()[1] not in ("[", "("):
            return self._sum()
        before = self._position
        opening = self._accept("[", "(") or ""
        items = [self._sum()]
        while self._accept(","):
            items.append(self._sum())
        closing = self._accept("]", ")") or ""
        if not closing:
            raise NotAnExpressionError("']' or ')' is missing")
        if opening == "[" and closing == "]":
            self._position = before
            return self._sum()
        if opening == "(" and closing == ")" and len(items) > 2:
            return self._node(start, "set", None, tuple(items))
        if len(items) != 2 or opening + closing == "()":
            raise NotAnExpressionError(f"{opening}...{closing} needs 2 numbers, but has {len(items)}")
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
                raise NotAnExpressionError(f"xdlc reads at most {MAX_CHAIN} operators in succession")
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
            raise NotAnExpressionError("the expression nests too deeply")
        start = self._peek()[2]
        node = self._atom()
        count = 0
        while symbol := self._accept("[", "."):
            count += 1
            if count > MAX_CHAIN:
                raise NotAnExpressionError(f"xdlc reads at most {MAX_CHAIN} indices in succession")
            if symbol == "[":
                index = self._sum()
                self._expect("]")
                node = self._node(start, "index", None, (node, index))
            else:
                node = self._node(start, "call", self._attribute(), (node,))
        self._depth -= 1
        return node

    def _attribute(self) -> str:
        kind, word, _, _ = self._peek()
        if kind != "name" or word not in ATTRIBUTES:
            raise NotAnExpressionError(f"{word!r} may not follow a dot")
        self._position += 1
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
            return self._named(start, word)
        if word == "(":
            node = self._rule()
            self._expect(")")
            return node
        if word in ("[", "{"):
            items = self._items("]" if word == "[" else "}")
            return self._node(start, "list" if word == "[" else "set", None, items)
        raise NotAnExpressionError(f"{word!r} is in the place of a value")

    def _named(self, start: int, word: str) -> Node:
        if word in ("and", "or", "not", "like"):
            raise NotAnExpressionError(f"{word!r} is in the place of a value")
        function = word.lower()
        if function in FUNCTIONS and self._accept("of"):
            operand = self._postfix()
            return self._node(start, "call", function, (operand,))
        if function in FUNCTIONS and self._accept("("):
            operands = self._items(")")
            if not operands:
                raise NotAnExpressionError(f"{word}() has no operands")
            return self._node(start, "call", function, operands)
        return self._node(start, "name", word)

    def _items(self, closer: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while self._accept(closer) is None:
            if items:
                self._expect(",")
            items.append(self._sum())
        return tuple(items)


def _tokens(text: str) -> list[Token]:
    tokens = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotAnExpressionError(f"{text[position : position + 10]!r} is not part of the grammar")
        kind = str(match.lastgroup)
        word = match[kind]
        tokens.append((kind, _SYMBOLS.get(word, word), match.start(kind), match.end()))
        position = match.end()
    return tokens
