"""What ``xdlc-to-onnx`` notes on a node about the op it stands for, so that the op comes back as it was.

ONNX has no word for the name of an op that shares its source node with others, nor for the moment at
which a Transpose really moves elements.  The notes are entries of ``metadata_props``, a standard field
of nodes: ``xdlc.op`` the op's name, ``xdlc.type`` its type, ``xdlc.origin`` its source nodes behind the
reason for an inserted op, as in the trace of a container, ``xdlc.statics`` the names of the op's static
operands, where the node has them in other pieces.  They say nothing about what is computed: a
name is taken if it is free, and everything else of the node is read as it stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

OP, TYPE, ORIGIN, STATICS = "xdlc.op", "xdlc.type", "xdlc.origin", "xdlc.statics"
LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Hint:
    """A note on a node.

    Attributes:
        op: Name of the op.
        type: Its type; empty if that is not noted.
        node: The source node that the op was made for.
        reason: Why it was inserted, for an op that the source did not have.
        statics: Names of its static operands in order, if they are noted.
    """

    op: str
    type: str
    node: str
    reason: str | None = None
    statics: tuple[str, ...] = ()


def hint_of(proto: Any) -> Hint | None:
    """Return the note on a ``NodeProto``; None if there is none, or one of another form."""
    notes = {entry.key: entry.value for entry in proto.metadata_props if len(entry.value) <= LONGEST}
    name = notes.get(OP)
    if not name:
        return None
    try:
        reason, *nodes = json.loads(notes.get(ORIGIN, "[null]"))
        statics = tuple(json.loads(notes.get(STATICS, "[]")))
    except (ValueError, TypeError, RecursionError):
        return None
    if not all(isinstance(text, str) for text in (*nodes, *statics)) or not isinstance(reason, str | None):
        return None
    return Hint(name, notes.get(TYPE, ""), _made_for(name, nodes), reason, statics)


def _made_for(name: str, nodes: list[str]) -> str:
    """Return the source node whose name, with a number behind it, is the op's name."""
    for node in reversed(nodes):
        rest = name.removeprefix(node)
        if node and name.startswith(node) and (not rest or (rest[0] == "_" and rest[1:].isdecimal())):
            return node
    return nodes[-1] if nodes and nodes[-1] else name
