"""Graphs inside of nodes: branches and bodies of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from xdlc.converter.operators.protobuf import is_constant
from xdlc.converter.session.context import ImportContext
from xdlc.converter.session.node import Body, Node, SourceGraph

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


class GraphBody(Body):
    """A graph of the source, or of a function body, inside a node.

    Its nodes are imported on behalf of the node that the one with the graph stands in for, if there is one.

    Args:
        operators: Imports its nodes.
    """

    def __init__(self, operators: Operators, graph: SourceGraph) -> None:
        super().__init__([entry.name for entry in graph.inputs], graph.outputs)
        frame = operators.context.frame
        self._owner, self._stands_in = frame.owner, frame.stands_in
        self._operators = operators
        self._graph = graph
        self._producers: dict[str, Node] | None = None
        self._needed: list[Node] | None = None

    @property
    def size(self) -> int:
        """Number of nodes after expansion."""
        return sum(map(self._operators.size, self._graph.all_nodes()))

    def input_rank(self, index: int) -> int:
        """Return the rank that the graph states of an input."""
        return len(self._graph.inputs[index].dims or ())

    def reads(self) -> Sequence[str]:
        """Return the names that it reads from enclosing graphs."""
        return self._graph.reads()

    def producer(self, name: str) -> Node | None:
        """Return the node that computes a value."""
        if self._producers is None:
            self._producers = {output: node for node in self._graph.nodes for output in node.outputs}
        return self._producers.get(name)

    def operands(self, name: str) -> Sequence[str] | None:
        """Return the names that a value is computed from, as far as the graph shows."""
        node = self.producer(name)
        if name in self._graph.constants or node is None:
            return () if name in self._graph.constants else None
        if node.is_canonical and node.graphs():
            return None
        return () if node.is_canonical and node.type in ("Shape", "Size") else node.reads()

    def add_constants(self, context: ImportContext) -> None:
        """Bind the stored tensors and the results of Constant nodes."""
        context.bind_constants(self._graph.constants)
        for node in filter(is_constant, self._graph.nodes):
            self._operators.import_node(node)

    def add_nodes(self, context: ImportContext) -> None:
        """Import the other nodes."""
        with context.entered(owner=self._owner, stands_in=self._stands_in):
            if self._needed is None:  # a loop imports them several times
                nodes = self._operators.ordered(self._graph, self.outputs)
                self._needed = [node for node in nodes if not is_constant(node)]
            for node in self._needed:
                self._operators.import_node(node)

    def only(self, positions: Sequence[int]) -> Self:
        """Return the graph with some of its outputs, which needs the nodes of these only."""
        part = super().only(positions)
        part._needed = None
        return part
