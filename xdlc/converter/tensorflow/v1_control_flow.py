"""Control flow of TensorFlow 1, rebuilt as If and While.

Its nodes are Switch and Merge, Enter and Exit.

A loop is a frame: each variable has an Enter, a Merge with a NextIteration, a Switch by the LoopCond, and
an Exit.  A conditional is a Merge of values that Switches on one predicate let pass.  Graphs of the rebuilt
nodes read values around them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc import ir
from xdlc.converter.session.node import GraphInput, Node, SourceGraph, upstream
from xdlc.converter.tensorflow.content import DEPTH, broken
from xdlc.errors import ModelError


@dataclass(slots=True, eq=False)
class _Frame:
    """A loop.

    Attributes:
        merges: The Merges of its variables.
        switches: Switches by the output of the Merge that they let pass.
    """

    name: str
    enters: list[Node] = field(default_factory=list)
    merges: list[Node] = field(default_factory=list)
    condition: Node | None = None
    switches: dict[str, list[Node]] = field(default_factory=dict)


class Loops:
    """The loops of a graph."""

    def __init__(self, nodes: Sequence[Node], where: str) -> None:
        self._nodes = dict.fromkeys(nodes)
        self._where = where
        self._made = {name: node for node in nodes for name in node.outputs}
        self._readers: dict[str, list[Node]] = {}
        for node in nodes:
            for name in node.names:
                self._readers.setdefault(name, []).append(node)
        self._frames: dict[str, _Frame] = {}
        self._frame_of: dict[Node, _Frame] = {}
        self._done: dict[str, bool] = {}

    def rebuilt(self) -> list[Node]:
        """Return the nodes with a While in place of each loop."""
        for node in self._nodes:
            if node.type == "Enter":
                name = str(node.attributes.get("frame_name", ""))
                self._frames.setdefault(name, _Frame(name)).enters.append(node)
        for frame in self._frames.values():
            self._find(frame)
        for frame in list(self._frames.values()):
            self._rebuild(frame, 0)
        return list(self._nodes)

    def _find(self, frame: _Frame) -> None:
        """Find the nodes of a loop."""
        for enter in frame.enters:
            self._frame_of[enter] = frame
            for merge in self._readers.get(enter.outputs[0], ()):
                if merge.type == "Merge" and merge not in frame.merges:
                    frame.merges.append(merge)
        for merge in frame.merges:
            for switch in self._readers.get(merge.outputs[0], ()):
                maker = self._made.get(switch.names[1]) if switch.type == "Switch" else None
                if maker is None or maker.type != "LoopCond" or switch.names[0] != merge.outputs[0]:
                    continue
                frame.condition = maker
                frame.switches.setdefault(merge.outputs[0], []).append(switch)
                for reader in self._readers.get(switch.outputs[0], ()):
                    if reader.type == "Exit":
                        self._frame_of[reader] = frame
        if frame.merges and frame.condition is None:
            raise self._incomplete(frame)

    def _incomplete(self, frame: _Frame) -> ModelError:
        return broken(f"the loop of frame {frame.name!r} is incomplete", self._where)

    def _rebuild(self, frame: _Frame, depth: int) -> None:
        """Replace a loop by a While, after the loops inside it."""
        if frame.name in self._done:
            if not self._done[frame.name]:
                raise self._incomplete(frame)
            return
        if depth >= DEPTH:
            raise ModelError(
                f"loops nest more than {DEPTH} levels deep",
                where=self._where,
                fix="move inner loops out of outer loops",
            )
        self._done[frame.name] = False
        if frame.merges:
            self._replace(frame, depth)
        self._done[frame.name] = True

    def _replace(self, frame: _Frame, depth: int) -> None:
        assert frame.condition is not None
        initial, following = list[str](), list[str]()
        formals, exits = list[list[str]](), list[list[str]]()
        for merge in frame.merges:
            starts, nexts = list[str](), list[str]()
            for name in merge.names:
                maker = self._made.get(name)
                (nexts if maker is not None and maker.type == "NextIteration" else starts).append(name)
            enter = self._made.get(starts[0]) if len(starts) == 1 and len(nexts) == 1 else None
            if enter is None or enter.type != "Enter":
                raise self._incomplete(frame)
            initial.append(enter.names[0])
            following.append(self._made[nexts[0]].names[0])
            switches = frame.switches.get(merge.outputs[0], [])
            formals.append([switch.outputs[1] for switch in switches if len(switch.outputs) > 1])
            exits.append(
                [
                    reader.outputs[0]
                    for switch in switches
                    for reader in self._readers.get(switch.outputs[0], ())
                    if reader.type == "Exit"
                ]
            )
        names = [merge.outputs[0] for merge in frame.merges]
        for inner in self._inside(frame, [*following, frame.condition.names[0]], formals):
            self._rebuild(inner, depth + 1)
        cond = self._graph(frame, names, {}, frame.condition.names[:1])
        bodies = [
            values[0] if values else f"{name}~next" for name, values in zip(names, formals, strict=True)
        ]
        same = {alias: values[0] for values in formals for alias in values[1:]}
        body = self._graph(frame, bodies, same, following)
        for graph in (cond, body):
            substitute(graph, {enter.outputs[0]: enter.names[0] for enter in frame.enters})
        outputs = [values[0] if values else "" for values in exits]
        for name in (name for values in exits for name in values):
            self._nodes.pop(self._made[name], None)
        loop = Node("While", initial, outputs, {"cond": cond, "body": body}, frame.name or "while")
        self._add(loop)
        for values in exits:
            for alias in values[1:]:
                self._add(Node("Identity", [values[0]], [alias], {}, alias))
        for merge in frame.merges:
            for node in (merge, *frame.switches.get(merge.outputs[0], ())):
                self._nodes.pop(node, None)

    def _enters(self, node: Node, frame: _Frame) -> bool:
        """Return whether a node is an Enter of a loop."""
        return node.type == "Enter" and self._frame_of.get(node) is frame

    def _add(self, node: Node) -> None:
        self._nodes[node] = None
        self._made.update((name, node) for name in node.outputs)

    def _inside(self, frame: _Frame, ends: Sequence[str], formals: Sequence[Sequence[str]]) -> list[_Frame]:
        """Return the loops that the body or the condition of a loop contains."""
        stop = {name for values in formals for name in values}

        def maker(name: str) -> Node | None:
            node = None if name in stop else self._made.get(name)
            return None if node is None or node in frame.merges or self._enters(node, frame) else node

        exits = (self._frame_of.get(node) for node in upstream(ends, maker) if node.type == "Exit")
        return [inner for inner in dict.fromkeys(exits) if inner is not None and inner is not frame]

    def _graph(
        self, frame: _Frame, formals: Sequence[str], same: Mapping[str, str], ends: Sequence[str]
    ) -> SourceGraph:
        """Return the graph from variables to values; loop invariants are captured."""
        starts = {*formals, *same}

        def maker(name: str) -> Node | None:
            node = None if name in starts else self._made.get(name)
            return None if node is None or self._enters(node, frame) else node

        order = upstream(ends, maker)
        readers: dict[str, list[Node]] = {}
        for node in order:
            for read in node.reads():
                readers.setdefault(read, []).append(node)
        inside, dependent = list(starts), set[Node]()
        while inside:
            for node in readers.get(inside.pop(), ()):
                if node not in dependent:
                    dependent.add(node)
                    inside += node.outputs
        nodes = [node for node in order if node in dependent]
        nodes += [Node("Identity", [first], [alias], {}, alias) for alias, first in same.items()]
        inputs = [GraphInput(name, ir.dtype.FLOAT32) for name in formals]
        return SourceGraph(inputs, list(ends), nodes)


def substitute(graph: SourceGraph, aliases: Mapping[str, str]) -> None:
    """Replace names that a graph and its sub-graphs read."""

    def final(name: str) -> str:
        seen: set[str] = set()
        while name in aliases and name not in seen:
            seen.add(name)
            name = aliases[name]
        return name

    pending, met = [graph], set[Node]()
    while pending:
        each = pending.pop()
        each.outputs = [final(name) for name in each.outputs]
        for node in each.nodes:
            if node not in met:
                met.add(node)
                node.names = [final(name) for name in node.names]
                pending += node.graphs()


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
            raise broken(f"node {node.own_name!r} ({node.type}) has too few inputs", where)
    nodes = Loops(graph.nodes, where).rebuilt()
    allowance = [MOVED]
    main = SourceGraph([], list(graph.outputs), nodes)
    graphs = [main, *(inner for node in main.all_nodes() for inner in node.graphs())]
    for member in graphs:
        member.nodes = _Conditionals(member.nodes, anchor, where, allowance).rebuilt()
    aliases = {
        output: node.names[0]
        for member in graphs
        for node in member.nodes
        if node.type in ("Switch", "Enter") and node.names
        for output in node.outputs
    }
    substitute(main, aliases)
    for member in graphs:
        producers = {name: node for node in member.nodes for name in node.outputs if name}
        needed = set(upstream(member.outputs, producers.get))
        member.nodes = [node for node in member.nodes if node in needed]
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
        given = list(node.reads())
        guards = frozenset[Guard]().union(*(self._of(name) for name in given)) if given else None
        if guards is not None and len(guards) > DEPTH:
            text = f"conditionals nest more than {DEPTH} levels deep"
            raise ModelError(text, where=self._where, fix="reduce the number of nested conditionals")
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

        def maker(name: str) -> Node | None:
            node = self._made.get(name)
            while node is not None and node.type == "Switch":
                name = node.names[0]
                node = self._made.get(name)
            return node if guard in self._of(name) else None

        nodes = upstream([end], maker)
        self._allowance[0] -= len(nodes)
        if self._allowance[0] < 0:
            text = f"the conditionals of the model expand to more than {MOVED} nodes"
            raise ModelError(text, where=self._where, fix="reduce the number of nested conditionals")
        return SourceGraph([], [end], nodes)


def _sorted(nodes: Sequence[Node], producers: Mapping[str, Node]) -> Iterator[Node]:
    """Iterate over nodes, producers first; cycles are cut at their first reader."""
    seen: set[Node] = set()
    for root in nodes:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(producers[name], False) for name in node.reads() if name in producers]
