"""Order of the needed nodes of a source graph, and the layouts they want."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdlc.errors import ModelError

SOURCE, ANY, CHANNEL_LAST = "source", "any", "channel_last"
"""Layouts in which an importer works: the source's, that of its inputs, or channels last."""


class Step(NamedTuple):
    """A node of a graph, with the facts that determine its order.

    Attributes:
        reads: Names that it reads, the graphs inside it included.
    """

    name: str
    reads: Sequence[str]
    writes: Sequence[str]


def ordered(nodes: Sequence[Step], out_names: Sequence[str], where: str) -> list[int]:
    """Return the positions of the nodes that the outputs need, producers first.

    The order is that of the file if the file has producers first, as it should.

    Args:
        nodes: All nodes of a graph.
        out_names: Values that are wanted.
        where: The file, for errors.

    Raises:
        ModelError: If two nodes produce a value, or a node needs its own result.
    """
    links = _Links(nodes, where)
    return links.swept(out_names) if links.sorted(range(len(nodes))) else links.searched(out_names)


class _Links:
    """Links between the nodes of a graph, each node by its position.

    Attributes:
        reads: Names that each reads.
        producer: The node that writes a name.
    """

    def __init__(self, nodes: Sequence[Step], where: str) -> None:
        self.nodes = nodes
        self.reads = [[name for name in node.reads if name] for node in nodes]
        self.producer: dict[str, int] = {}
        self._where = where
        for index, node in enumerate(nodes):
            for name in node.writes:
                if name and self.producer.setdefault(name, index) != index:
                    raise ModelError(
                        f"two nodes produce {name!r}",
                        where=where,
                        fix="export the model again, so that one node writes each value",
                    )

    def sorted(self, indices: Sequence[int]) -> bool:
        """Return whether nodes in the order of the file read earlier results only."""
        before = self.producer.get
        return all(before(name, -1) < index for index in indices for name in self.reads[index])

    def swept(self, out_names: Sequence[str]) -> list[int]:
        """Return the needed nodes of a file that is in order."""
        needed = set(out_names) - {""}
        chosen = []
        for index in range(len(self.nodes) - 1, -1, -1):
            if not needed.isdisjoint(self.nodes[index].writes):
                chosen.append(index)
                needed.update(self.reads[index])
        chosen.reverse()
        return chosen

    def searched(self, out_names: Sequence[str]) -> list[int]:
        """Return the needed nodes of any file, found from the outputs backwards."""
        done: dict[int, bool] = {}
        order: list[int] = []
        stack = [(self.producer[name], False) for name in reversed(out_names) if name in self.producer]
        while stack:
            index, finished = stack.pop()
            if finished:
                done[index] = True
                order.append(index)
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
                        f"node {self.nodes[source].name!r} needs its own result, "
                        f"through {self.nodes[index].name!r}",
                        where=self._where,
                        fix="export the model again without the cycle",
                    )
                if source not in done:
                    stack.append((source, False))
        in_file = sorted(order)
        return in_file if self.sorted(in_file) else order


def wants_channel_last(nodes: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> set[str]:
    """Return the values that reach a channel-last op through ops of any layout.

    Args:
        nodes: Layout of the importer, names of the inputs and names of the outputs of each node of one
            graph, producers first.
    """
    names: set[str] = set()
    for layout, inputs, outputs in reversed(list(nodes)):
        if layout == CHANNEL_LAST:
            names.update(inputs[:1])  # a node that is not valid may have none
        if layout == ANY and any(name in names for name in outputs):
            names.update(name for name in inputs if name)
    return names
