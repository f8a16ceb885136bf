"""Plain language that says what a comparison says: ``value must be positive``, ``same shape as in[0]``.

================================================== ==============================================
Words                                              Meaning
================================================== ==============================================
``must be``, ``must not be``, ``should be``,       stand before any of what follows, or before a
``shall be``, ``has to be``, ``is``, ``are``       relation; of values alone: ``==``, ``in {a, b}``
``positive``, ``negative``, ``non-negative``,      ``> 0``, ``< 0``, ``>= 0``, ``!= 0``,
``non-zero``, ``odd``, ``even``                    ``% 2 == 1``, ``% 2 == 0``
``equal to v``, ``must equal v``, ``equals v``     ``== v``
``at least v``, ``at most v``, ``greater than v``, ``>= v``, ``<= v``, ``> v``, ``>= v``...
``greater than or equal to v``, ``less than v``
``between a and b``, ``in range [a, b]``           ``in [a, b]``
``one of {a, b}``, ``one of a, b``                 ``in {a, b}``
``divisible by v``, ``a multiple of v``            ``% v == 0``
``same rank as x``, ``the same as x``              ``rank == rank(x)``, ``== x``
================================================== ==============================================

A text is read so only as a whole: with one word more it is left to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdlc.opdefs.constraint_parser import Cursor, Node, NotAnExpressionError

_ADJECTIVES = {
    "positive": ">",
    "negative": "<",
    "nonnegative": ">=",
    "nonzero": "!=",
}
_NEGATED = {">": "<=", "<": ">=", ">=": "<", "<=": ">", "==": "!=", "!=": "=="}
_SAME = {
    "rank": "rank",
    "shape": "shape",
    "size": "size",
    "datatype": "datatype",
    "type": "datatype",
    "dtype": "datatype",
    "value": "value",
}
_WHATS = ("rank", "shape", "size", "datatype")
_MORE = ("greater", "larger", "more", "bigger")
_LESS = ("less", "smaller", "fewer")


def phrase(
    cursor: Cursor,
    subject: str,
    value: Callable[[], Node],
    within: Callable[[], Node],
    start: int | None = None,
    left: Node | None = None,
) -> Node | None:
    """Return the rule that words say, and step over them; None if they say none.

    Args:
        cursor: Where they begin.
        subject: What they are about if there is nothing before them; empty: they need it.
        value: Reads a value.
        within: Reads what a value lies in.
        start: Where the text before them begins.
        left: The value before them.

    Raises:
        NotAnExpressionError: If they begin like a rule and do not go on so.
    """
    before = cursor.position
    begin = cursor.peek()[2] if start is None else start
    if left is None:
        for article in ("all", "the"):
            if cursor.says(article) and cursor.says("values"):
                left = Node("name", "value", (), "value")
                break
    if left is None and subject:
        left = Node("name", subject, (), subject)
    found = None
    if left is not None:
        words = _Phrase(cursor, value, within, begin)
        # "at least 4" of a shape may mean its rank or its extents
        found = words.same(left) if left.value == "shape" and start is None else words.about(left)
    if found is None:
        cursor.position = before
    return found


class _Phrase:
    def __init__(
        self, cursor: Cursor, value: Callable[[], Node], within: Callable[[], Node], start: int
    ) -> None:
        self._cursor = cursor
        self._says = cursor.says
        self._value = value
        self._within = within
        self._start = start

    def about(self, left: Node) -> Node | None:
        """Return what is said of a value, None if nothing is."""
        same = self.same(left)
        if same is not None:
            return same
        verb, negated = self._verb()
        relation = self._adjective()
        if relation:
            alone = self._start == 0 and not self._cursor.peek()[0]
            if not verb and not alone:  # "positive or negative" says nothing
                raise NotAnExpressionError("an adjective without a verb")
            return self._compare(left, relation, _number(0), negated)
        found = self._said(left, negated)
        if found is None and verb:
            return self._plain(left, negated)
        return found

    def _verb(self) -> tuple[bool, bool]:
        """Step over a verb; return whether there is one, and whether it denies."""
        for word in ("must", "should", "shall"):
            if self._says(word, "not", "be"):
                return True, True
            if self._says(word, "be") or self._says(word, "equal"):
                return True, False
        for word in ("is", "are"):
            if self._says(word):
                return True, self._says("not")
        return self._says("has", "to", "be") or self._says("have", "to", "be") or self._says("equals"), False

    def _said(self, left: Node, negated: bool) -> Node | None:
        says = self._says
        for word, rest in (("odd", 1), ("even", 0)):
            if says(word):
                return self._compare(self._modulo(left, _number(2)), "==", _number(rest), negated)
        relation = self._degree()
        if relation:
            return self._compare(left, relation, self._value(), negated)
        if says("divisible", "by") or says("a", "multiple", "of") or says("multiple", "of"):
            return self._compare(self._modulo(left, self._value()), "==", _number(0), negated)
        return None if negated else self._member(left)

    def _adjective(self) -> str:
        for word, relation in _ADJECTIVES.items():
            if self._says(word):
                return relation
        if self._says("non", "-", "negative"):
            return ">="
        return "!=" if self._says("non", "-", "zero") else ""

    def _degree(self) -> str:
        """Step over words that say how values compare; return the relation."""
        if self._says("equal", "to"):
            return "=="
        for words, relation in ((("at", "least"), ">="), (("at", "most"), "<=")):
            if self._says(*words):
                return relation
        for names, relation in ((_MORE, ">"), (_LESS, "<")):
            for word in names:
                if self._says(word, "than", "or", "equal", "to"):
                    return f"{relation}="
                if self._says(word, "than"):
                    return relation
        return ""

    def _member(self, left: Node) -> Node | None:
        start = self._cursor.peek()[2]
        if self._says("between"):
            low = self._value()
            self._cursor.expect("and")
            held = self._cursor.node(start, "list", None, (low, self._value()))
            return self._compare(left, "in", held)
        if self._says("in", "range") or self._says("in", "the", "range"):
            held = self._within()
            if held.kind not in ("list", "range") or len(held.parts) != 2:
                raise NotAnExpressionError("a range is [low, high]")
            return self._compare(left, "in", held)
        if not self._says("one", "of"):
            return None
        items = [self._value()]
        while self._cursor.accept(",") or self._cursor.accept("or"):
            items.append(self._value())
        if len(items) == 1 and items[0].kind in ("set", "list"):
            items = list(items[0].parts)
        return self._compare(left, "in", self._cursor.node(start, "set", None, tuple(items)))

    def same(self, left: Node) -> Node | None:
        """Return that something of a value is as that of another."""
        before = self._cursor.position
        owns = any(
            self._says(*words) for words in (("must", "have"), ("should", "have"), ("has",), ("have",))
        )
        if not owns:
            self._verb()
        self._says("the")
        if not self._says("same"):
            self._cursor.position = before
            return None
        if self._says("data", "type"):
            what = "datatype"
        else:
            what = next((name for word, name in _SAME.items() if self._says(word)), "")
        self._cursor.expect("as")
        right = self._value()
        if not what and left.kind == "name" and left.value in _WHATS and right.kind in ("name", "index"):
            what = str(left.value)  # "rank is the same as in[0]"
        if what and right.kind in ("name", "index"):
            right = Node("call", what, (right,), right.source)
        if what and left.value in _SAME.values() and left.kind == "name":
            left = Node("name", what, (), what)
        elif what:
            left = Node("call", what, (left,), left.source)
        return self._compare(left, "==", right)

    def _plain(self, left: Node, negated: bool) -> Node | None:
        """Return that a value is another, or stands in a relation to it."""
        relation = self._cursor.accept("==", "!=", "<=", ">=", "<", ">", "in", "like")
        if relation in ("in", "like") and negated:
            raise NotAnExpressionError(f"not {relation}")
        right = self._within() if relation == "in" else self._value()
        if relation is None and right.kind == "name" and not right.source.isupper():
            raise NotAnExpressionError(f"{right.source!r} may be any word")
        others = [] if relation or negated else list(self._others())
        if others:
            held = Node("set", None, (right, *others), right.source)
            return self._compare(left, "in", held)
        return self._compare(left, relation or "==", right, negated)

    def _others(self) -> Iterator[Node]:
        """Step over more values that are told: ``or FLOAT_16`` behind ``must be FLOAT_32``."""
        while self._cursor.peek()[1] == "or" and self._cursor.peek(2)[1] in ("", "or"):
            kind, word, _, _ = self._cursor.peek(1)
            if kind not in ("number", "text") and not word.isupper():
                return
            self._cursor.accept("or")
            yield self._value()

    def _compare(self, left: Node, relation: str, right: Node, negated: bool = False) -> Node:
        relation = _NEGATED[relation] if negated else relation
        return self._cursor.node(self._start, "compare", (relation,), (left, right))

    def _modulo(self, left: Node, by: Node) -> Node:
        return Node("sum", "%", (left, by), f"{left.source} % {by.source}")


def _number(value: int) -> Node:
    return Node("number", value, (), str(value))
