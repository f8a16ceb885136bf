"""How many bits the ops of a graph compute with."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdlc.ir import Op


@dataclass(slots=True)
class Precision:
    """Bit widths, one for all and exceptions by op name.

    Attributes:
        act_bits: Bits of activations: 8 or 16.
        weight_bits: Bits of weights: 2, 4, 8 or 16.
        acts: Bits of the activations of single ops; None: the op stays float.
        weights: Bits of the weights of single ops.
    """

    act_bits: int
    weight_bits: int
    acts: dict[str, int | None] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    def act_bits_of(self, op: Op) -> int | None:
        """Return the bits of what an op reads and writes, or None if the user wants it in float."""
        return self.acts.get(op.name, self.act_bits)

    def weight_bits_of(self, op: Op) -> int:
        """Return the bits of an op's weights."""
        return self.weights.get(op.name, self.weight_bits)
