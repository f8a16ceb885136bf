"""Control flow of TensorFlow 1, rebuilt as If and While.

Its nodes are Switch and Merge, Enter and Exit.

A loop is a frame: each variable has an Enter, a Merge with a NextIteration, a Switch by the LoopCond, and
an Exit.  A conditional is a Merge of values that Switches on one predicate let pass.  Graphs of the rebuilt
nodes read values around them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xdlc.converter.session.node import Node, SourceGraph
from xdlc.converter.tensorflow.v1_loops import DEPTH, FIX, Loops, all_graphs, prune, reads, substitute
from xdlc.errors import ModelError

Guard = tuple[str, int]
"""A predicate, and the side of it (1: true) on which a value exists."""

MOVED = 1 << 17
"""Nodes that may be moved into the graphs of conditionals at most, each counted as often as it is."""
_TYPES = {"Switch": 2, "Merge": 1, "Enter": 1, "Exit": 1, "NextIteration": 1, "LoopCond": 1}
_INPUTS = {**_TYPES, "Identity": 1}
"""Fewest inputs of operators of control flow, and of operators that pass a predicate on."""


def rebuilt(
    graph: SourceGraph, anchor: Callable[[str], Guard | None], where: str
) -> tuple[list[Node], list[str]]:
    """Return the nodes of a graph with its control flow rebuilt, and its outputs.

    Args:
        anchor: Returns under which predicate a value exists that is computed from nothing, if any.

    Raises:
        ModelError: If a loop is not whole, or control flow nests too deep.
    """
    for node in graph.nodes:
        if node.type.startswith("Ref") and node.type[3:] in _TYPES:
            node.type = node.type[3:]
    if not any(node.type in _TYPES for node in graph.nodes):
        return list(graph.nodes), list(graph.outputs)
    for node in graph.nodes:
        if len(node.names) < _INPUTS.get(node.type, 0):
            raise ModelError(f"node {node.own_name!r} ({node.type}) has too few inputs", where=where, fix=FIX)
    nodes = Loops(graph.nodes, where).rebuilt()
    allowance = [MOVED]
    graphs = [SourceGraph([], list(graph.outputs), nodes)]
    graphs += [inner for node in nodes for inner in all_graphs(node)]
    for member in graphs:
        member.nodes = _Conditionals(member.nodes, anchor, where, allowance).rebuilt()
    aliases = {
        output: node.names[0]
        for member in graphs
        for node in member.nodes
        if node.type in ("Switch", "Enter") and node.names
        for output in node.outputs
    }
    main = graphs[0]
    substitute(main, aliases)
    for member in graphs:
        prune(member)
    return list(main.nodes), list(main.outputs)


class _Conditionals:
    """The conditionals of a graph without loops.

    Args:
        anchor: Returns under which predicate a value exists that is computed from nothing, if any.
        allowance: Number of nodes that may still be moved into branches, in a list of one.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        anchor: Callable[[str], Guard | None],
        where: str,
        allowance: list[int],
    ) -> None:
        self._nodes = list(nodes)
        self._anchor = anchor
        self._where = where
        self._allowance = allowance
        self._made = {name: node for node in nodes for name in node.outputs}
        self._guards: dict[str, frozenset[Guard]] = {}

    def rebuilt(self) -> list[Node]:
        """Return the nodes with an If in place of each Merge."""
        if not any(node.type == "Merge" for node in self._nodes):
            return self._nodes
        result = []
        for node in _sorted(self._nodes, dict(self._made)):
            if node.type == "Merge":
                node = self._merged(node)
                self._made.update((name, node) for name in node.outputs)
            else:
                self._guard(node)
            result.append(node)
        return result

    def _of(self, name: str) -> frozenset[Guard]:
        """Return the predicates under which a value exists."""
        if name not in self._guards:
            found = self._anchor(name)
            self._guards[name] = (
                frozenset() if found is None else frozenset([(self._root(found[0]), found[1])])
            )
        return self._guards[name]

    def _root(self, name: str) -> str:
        """Return the value that a predicate is another name of."""
        for _ in range(DEPTH):
            node = self._made.get(name)
            if node is None or node.type not in ("Identity", "Switch"):
                break
            name = node.names[0]
        return name

    def _guard(self, node: Node) -> None:
        given = list(reads(node))
        guards = frozenset[Guard]().union(*(self._of(name) for name in given)) if given else None
        if guards is not None and len(guards) > DEPTH:
            text = f"conditionals nest more than {DEPTH} deep"
            raise ModelError(text, where=self._where, fix="simplify the model")
        for side, name in enumerate(node.outputs):
            if node.type == "Switch" and guards is not None and len(node.names) > 1:
                self._guards[name] = guards | {(self._root(node.names[1]), side)}
            elif guards is not None:
                self._guards[name] = guards

    def _merged(self, node: Node) -> Node:
        """Return the If in place of a Merge; the Merge itself if not supported."""
        split = self._split(node)
        if split is None:
            self._guard(node)
            return node
        predicate, false, true = split
        for name in node.outputs:
            self._guards[name] = frozenset(
                one for side in (false, true) for one in self._of(side) if one[0] != predicate
            )
        branches = {
            "then_branch": self._branch(true, (predicate, 1)),
            "else_branch": self._branch(false, (predicate, 0)),
        }
        return Node("If", [predicate], node.outputs[:1], branches, node.own_name)

    def _split(self, node: Node) -> tuple[str, str, str] | None:
        """Return the predicate of a Merge, its input for false and that for true."""
        if len(node.names) != 2:
            return None
        first_name, second_name = node.names
        first, second = self._of(first_name), self._of(second_name)
        sure = [guard for guard in sorted(first) if (guard[0], 1 - guard[1]) in second]
        opposite = {predicate for predicate, _ in second}
        left = sure or [guard for guard in sorted(first) if guard[0] not in opposite]
        if len(left) == 1:
            predicate, side = left[0]
        else:
            opposite = {predicate for predicate, _ in first}
            right = [guard for guard in sorted(second) if guard[0] not in opposite]
            if left or len(right) != 1:
                return None
            predicate, side = right[0][0], 1 - right[0][1]
        return (predicate, second_name, first_name) if side else (predicate, first_name, second_name)

    def _branch(self, end: str, guard: Guard) -> SourceGraph:
        """Return the graph of values that exist on one side of a predicate only."""
        nodes: dict[int, Node] = {}
        pending = [end]
        while pending:
            name = pending.pop()
            node = self._made.get(name)
            while node is not None and node.type == "Switch":
                name = node.names[0]
                node = self._made.get(name)
            if node is not None and id(node) not in nodes and guard in self._of(name):
                nodes[id(node)] = node
                pending += reads(node)
        self._allowance[0] -= len(nodes)
        if self._allowance[0] < 0:
            text = f"its conditionals expand to more than {MOVED} nodes"
            raise ModelError(text, where=self._where, fix="simplify the model")
        return SourceGraph([], [end], list(nodes.values()))


def _sorted(nodes: Sequence[Node], producers: Mapping[str, Node]) -> Iterator[Node]:
    """Iterate over nodes, producers first; cycles are cut at their first reader."""
    seen: set[int] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack += [(producers[name], False) for name in reads(node) if name in producers]
