"""What an import finds out beside the graph: problems, and what became of each source node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdlc.errors import XdlcError
from xdlc.ir import Graph, Origin

UNUSED = "no output of the model needs it"
REFUSED = "it could not be imported"
KNOWN = "its result is known while converting"
INNER = "its result in this branch or loop is known, unread, or its input under another name"
LISTED = "its result is a sequence or an optional, which is taken apart while converting"
VIEW = "its result is its input under another name, shape or axis order"
DROPPED = {
    "fold_quantize_dequantize": "it became the encoding of a tensor",
    "merge_casts": "it changes the type and another changes it back",
    "merge_views": "it moves nothing, or undoes another",
    "prune": "nothing reads its result",
}
"""Why the ops of nodes go in passes, by the name of the pass."""
LAYOUTS = {3: "NCF", 4: "NCHW", 5: "NCDHW"}
"""Names of channel-first layouts by rank."""
COPY = "_copy"
"""What stands behind the name of an output in the name of an op that copies it."""


@dataclass(slots=True)
class SourceNode:
    """A node of the source model.

    Attributes:
        name: Its name, or one made from its first output.
        type: ONNX operator, with its domain in front where that is not the default one.
        reason: Why no op stands for it; None if some does.
    """

    name: str
    type: str
    reason: str | None = None


@dataclass(slots=True)
class Findings:
    """What is found while a model is imported.

    Attributes:
        problems: Everything that keeps the model from being converted.
        nodes: The nodes of the source, in its order.
        layouts: Layout of inputs and outputs, where known.
        makers: Name of the node that makes it, by the name of each output of the model.
    """

    problems: list[XdlcError] = field(default_factory=list)
    nodes: list[SourceNode] = field(default_factory=list)
    layouts: dict[str, str] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)

    def settle(self, graphs: Iterable[Graph], removed: Mapping[str, str]) -> None:
        """Give a reason to each node that no op names any more, and leave only nodes in origins.

        Ops that bring an output into the source's form count for the node that makes it; those behind an
        input count for none.

        Args:
            graphs: The graphs after the passes.
            removed: The pass that removed the last op of a node, by the node's name.
        """
        known = {node.name for node in self.nodes}
        carried: set[str] = set()
        for graph in graphs:
            for op in graph.ops:
                if not known.issuperset(op.origin.nodes):
                    names = (self.makers.get(name.removesuffix(COPY), name) for name in op.origin.nodes)
                    kept = tuple(dict.fromkeys(name for name in names if name in known))
                    op.origin = Origin(kept, op.origin.reason)
                carried.update(op.origin.nodes)
        for node in self.nodes:
            if node.name in carried:
                node.reason = None
            elif node.reason is None:
                by = removed.get(node.name)
                node.reason = DROPPED.get(by, f"its op was dropped by the pass {by}") if by else VIEW
