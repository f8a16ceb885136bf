"""The nodes of a source graph that its outputs need, producers first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.converter.onnx.nodes import name_of, needed_names
from xdlc.errors import ModelError


def ordered(graph: Any, out_names: Sequence[str], where: str) -> list[Any]:
    """Return the nodes of a ``GraphProto`` that the outputs need, producers first.

    They stand as in the file if the file has them in order, as it should.

    Args:
        graph: The graph.
        out_names: Values that are wanted.
        where: The file, for errors.

    Raises:
        ModelError: If a name is none, two nodes produce a value, or a node needs its own result.
    """
    _check_names(graph, where)
    links = _Links(list(graph.node), where)
    chosen = links.swept(out_names) if links.sorted(range(len(links.nodes))) else links.searched(out_names)
    return [links.nodes[index] for index in chosen]


class _Links:
    """What the nodes of a graph read and write, each node by its position.

    Attributes:
        nodes: The nodes.
        writes: Names of the outputs of each.
        reads: Names that each reads, the graphs inside it included.
        producer: The node that writes a name.
    """

    def __init__(self, nodes: list[Any], where: str) -> None:
        self.nodes = nodes
        self.writes = [tuple(node.output) for node in nodes]
        self.reads = [[name for name in needed_names(node) if name] for node in nodes]
        self.producer: dict[str, int] = {}
        self._where = where
        for index, names in enumerate(self.writes):
            for name in names:
                if name and self.producer.setdefault(name, index) != index:
                    raise ModelError(
                        f"two nodes produce {name!r}",
                        where=where,
                        fix="export the model again: every value has one source",
                    )

    def sorted(self, indices: Sequence[int]) -> bool:
        """Return whether these nodes, taken in the order of the file, only read what stands before them."""
        before = self.producer.get
        return all(before(name, -1) < index for index in indices for name in self.reads[index])

    def swept(self, out_names: Sequence[str]) -> list[int]:
        """Return the needed nodes of a file that is in order."""
        needed = set(out_names) - {""}
        chosen = []
        for index in range(len(self.nodes) - 1, -1, -1):
            if not needed.isdisjoint(self.writes[index]):
                chosen.append(index)
                needed.update(self.reads[index])
        chosen.reverse()
        return chosen

    def searched(self, out_names: Sequence[str]) -> list[int]:
        """Return the needed nodes of any file, found from the outputs backwards."""
        done: dict[int, bool] = {}
        found: list[int] = []
        stack = [(self.producer[name], False) for name in reversed(out_names) if name in self.producer]
        while stack:
            index, finished = stack.pop()
            if finished:
                done[index] = True
                found.append(index)
                continue
            if index in done:
                continue
            done[index] = False
            stack.append((index, True))
            for name in reversed(self.reads[index]):
                source = self.producer.get(name)
                if source is None:
                    continue
                if done.get(source) is False:
                    raise ModelError(
                        f"node {name_of(self.nodes[source])!r} needs its own result, "
                        f"by way of {name_of(self.nodes[index])!r}",
                        where=self._where,
                        fix="a graph must have no cycle: export the model again",
                    )
                if source not in done:
                    stack.append((source, False))
        in_file = sorted(found)
        return in_file if self.sorted(in_file) else found


def _check_names(graph: Any, where: str) -> None:
    """Refuse names that protobuf hands out as bytes, as they are no text, and operators of no sane name."""
    entries = (entry.name for entries in (graph.input, graph.initializer) for entry in entries)
    for name in (*entries, *(name for node in graph.node for name in node.output)):
        if not isinstance(name, str):
            raise ModelError(f"the name {name!r} is not UTF-8", where=where, fix="export the model again")
    held: set[str] = set()
    for tensor in graph.initializer:
        if tensor.name in held:
            raise ModelError(
                f"two initializers are named {tensor.name!r}", where=where, fix="export the model again"
            )
        held.add(tensor.name)
    for type in {type for node in graph.node for type in (node.op_type, node.domain)}:
        if not isinstance(type, str) or not type.isprintable():
            raise ModelError(f"{type!r} is no name of an operator", where=where, fix="export the model again")
