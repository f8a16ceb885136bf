"""How much the import of one model may come to, so that a small file cannot ask for everything."""

from __future__ import annotations

from dataclasses import dataclass, field

UNROLLED_NODES = 1 << 14
"""Most nodes that unrolled loops of a model may come to."""
SEQUENCE_ELEMENTS = 1 << 20
"""Most elements that the sequences of a model may list, each counted as often as it is listed."""
DENSE_BYTES = 1 << 30
"""Most bytes that the sparse tensors of a model may come to when they are dense."""


@dataclass(slots=True)
class Allowance:
    """A number of things that may be used up.

    Attributes:
        limit: How many there are.
        used: How many have been taken.
    """

    limit: int
    used: int = 0

    def take(self, count: int = 1) -> bool:
        """Return whether that many more may be used, and count them if so."""
        fits = self.used + count <= self.limit
        self.used += count if fits else 0
        return fits


@dataclass(slots=True)
class Budget:
    """What the import of one model may use up.

    Attributes:
        unrolled_nodes: Nodes that stand for an iteration of a loop, or for an element of a sequence.
        sequence_elements: Elements of sequences.
        dense_bytes: Bytes of sparse tensors made dense.
    """

    unrolled_nodes: Allowance = field(default_factory=lambda: Allowance(UNROLLED_NODES))
    sequence_elements: Allowance = field(default_factory=lambda: Allowance(SEQUENCE_ELEMENTS))
    dense_bytes: Allowance = field(default_factory=lambda: Allowance(DENSE_BYTES))
