"""The members of a JSON object, asked for by name and kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from xdlc.udo.config.json_text import Member, Node
from xdlc.udo.config.scope import Scope, choice, shown

EXTENSION = "xdlc_"
"""What the names of fields begin with that the vendor's tools do not know."""


def kind_of(node: Node) -> str:
    """Return what a value is, in words.

    Example:
        >>> kind_of(Node("a", 1)), kind_of(Node((), 1)), kind_of(Node(None, 1))
        ("the string 'a'", 'an array', 'null')
    """
    value = node.value
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, tuple):
        return "an array"
    return "null" if value is None else f"the number {node.text}"


def named(node: Node, member: str) -> str:
    """Return a member that is a string, for messages; empty if there is none."""
    held = node.value.get(member) if isinstance(node.value, Mapping) else None
    return held.node.value if held is not None and isinstance(held.node.value, str) else ""


def _fix(name: str, known: Sequence[str]) -> str:
    """Return what to do about a field that there is not; fields of ours are offered to who means one."""
    own = f"{EXTENSION}{name.lower()}"
    if own in known:
        return f'write "{own}", a field of xdlc\'s own'
    offered = [key for key in known if key.startswith(EXTENSION) == name.startswith(EXTENSION)]
    return choice(name, offered or known)


class Fields:
    """An object whose members are asked for one by one.

    Problems are reported to the scope; a member of the wrong kind then counts as left out, and is not
    reported as missing besides.

    Args:
        node: The value, which should be an object.
        what: What it describes, like ``input 0 of operator 'Blur'``.
        scope: Where problems go.
        known: Names of the members that there are.
    """

    def __init__(self, node: Node, what: str, scope: Scope, known: Sequence[str]) -> None:
        self.line = node.line
        self.what = what
        self.scope = scope
        self.ok = isinstance(node.value, Mapping)
        self._members: dict[str, Member] = dict(node.value) if isinstance(node.value, Mapping) else {}
        if not self.ok:
            example = "name" if "name" in known else known[0]
            problem = f"{what} has to be an object, found {kind_of(node)}"
            scope.report(node.line, problem, f'write {{"{example}": ...}}')
        self._meant: set[str] = set()
        for name, member in self._members.items():
            if name not in known:
                scope.report(member.line, f"{what} has no field {shown(name)}", _fix(name, known))
                self._meant |= {name, *get_close_matches(name.lower(), [key.lower() for key in known], n=1)}
        self._members = {name: member for name, member in self._members.items() if name in known}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def line_of(self, name: str) -> int:
        """Return the line of a member, or of the object where it has none of that name."""
        return self._members[name].line if name in self._members else self.line

    def node(self, name: str) -> Node | None:
        """Return a member as it is, or None if it is left out."""
        member = self._members.get(name)
        return member.node if member else None

    def lacks(self, *names: str) -> bool:
        """Return whether none of several members is there, nor one that was meant to be."""
        return self.ok and not any(name in self._members or name.lower() in self._meant for name in names)

    def need(self, name: str, example: str) -> Node | None:
        """Return a member that has to be there; report one that is missing."""
        if self.lacks(name):
            self.scope.report(self.line, f"{self.what} has no {name}", f'add "{name}": {example}')
        return self.node(name)

    def wrong(self, name: str, expected: str, node: Node, fix: str) -> None:
        """Report a member of the wrong kind."""
        self.scope.report(
            node.line, f"{name} of {self.what} has to be {expected}, found {kind_of(node)}", fix
        )

    def text(self, name: str) -> str:
        """Return a string; empty if it is left out."""
        node = self.node(name)
        if node is None:
            return ""
        if isinstance(node.value, str):
            return node.value
        self.wrong(name, "a string", node, f'write "{name}": "..."')
        return ""

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Return a truth value."""
        node = self.node(name)
        if node is None:
            return otherwise
        if isinstance(node.value, bool):
            return node.value
        self.wrong(name, "true or false", node, f'write "{name}": true or "{name}": false')
        return otherwise

    def items(self, name: str) -> tuple[Node, ...]:
        """Return the values of an array; none if it is left out."""
        node = self.node(name)
        if node is None:
            return ()
        if isinstance(node.value, tuple):
            return node.value
        self.wrong(name, "an array", node, f'write "{name}": [...]')
        return ()

    def members(self, name: str) -> dict[str, Member]:
        """Return the members of an object; none if it is left out."""
        node = self.node(name)
        if node is None:
            return {}
        if isinstance(node.value, Mapping):
            return dict(node.value)
        self.wrong(name, "an object", node, f'write "{name}": {{...}}')
        return {}

    def words(self, name: str, known: Sequence[str], fix: str = "") -> list[str]:
        """Return an array of distinct strings, each one of those known; ``fix`` is for others."""
        found: list[str] = []
        for node in self.items(name):
            word = node.value
            if not isinstance(word, str):
                self.wrong(f"each of {name}", "a string", node, f"use strings like {known[0]!r}")
            elif word not in known:
                problem = f"{name} of {self.what} has unknown {shown(word)}"
                self.scope.report(node.line, problem, fix or choice(word, known))
            elif word in found:
                self.scope.report(
                    node.line, f"{name} of {self.what} has {word!r} twice", "remove one of them"
                )
            else:
                found.append(word)
        return found
