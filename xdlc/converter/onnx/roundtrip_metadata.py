"""Round-trip metadata: names of ops, in the nodes that ``xdlc-to-onnx`` wrote.

ONNX has no field for the name of an op that shares its source node with others, nor for the moment at
which a Transpose really moves elements.  The records are entries of ``metadata_props``, a standard field
of nodes: ``xdlc.op`` the op's name, ``xdlc.type`` its type, ``xdlc.origin`` its source nodes after the
reason for an inserted op, as in the trace of a container, ``xdlc.statics`` the names of the op's static
operands, where the node has them in another form.  They have no influence on what is computed: a
name is taken if it is free, and everything else of the node is read as it is.
"""

from __future__ import annotations

from typing import Any

from xdlc.converter.emitter import RecordedNames
from xdlc.json_fields import fits, json_value

OP, TYPE, ORIGIN, STATICS = "xdlc.op", "xdlc.type", "xdlc.origin", "xdlc.statics"
LONGEST = 1 << 16


def recorded_names(proto: Any) -> RecordedNames | None:
    """Return the names that a ``NodeProto`` records, or None."""
    notes = {entry.key: entry.value for entry in proto.metadata_props if len(entry.value) <= LONGEST}
    name = notes.get(OP)
    if not name:
        return None
    try:
        reason, *nodes = json_value(notes.get(ORIGIN, "[null]"))
        statics = tuple(json_value(notes.get(STATICS, "[]")))
    except (ValueError, TypeError):
        return None
    type = notes.get(TYPE, "")
    if not fits([name, type, reason or "", *nodes, *statics], [str]):
        return None
    return RecordedNames(name, type, statics, _made_for(name, nodes))


def _made_for(name: str, nodes: list[str]) -> str:
    """Return the source node whose name, with a number appended, is the op's name."""
    for node in reversed(nodes):
        rest = name.removeprefix(node)
        if node and name.startswith(node) and (not rest or (rest[0] == "_" and rest[1:].isdecimal())):
            return node
    return nodes[-1] if nodes and nodes[-1] else name
