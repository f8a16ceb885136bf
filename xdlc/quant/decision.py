"""Decision: the form in which quantization stores each tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from xdlc.ir import Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import DType
from xdlc.quant.ranges import Range

if TYPE_CHECKING:
    from xdlc.quant.encoding_groups import EncodingGroups

GIVEN = "given by an override"
"""Where an encoding came from that a tensor of floats had before."""

QuantType: TypeAlias = tuple[DType, Encoding]
Use: TypeAlias = tuple[Op, int]


@dataclass(slots=True)
class Decision:
    """The stored form of each tensor.

    Attributes:
        activations: By tensor; those that float ops write and quantized ones read are among them.
        converted: By tensor and type: what ops that read another type do in its place.
        statics: By use, for one static tensor may be a weight here and a factor there.
        params: By op and name: parameters of UDOs that are tensors of float values.
        useful: Range that affects results, of the activations that reach them through a Softmax alone.
        sources: Where the encoding of each activation came from, in a few words for people.
        halves: Encodings of the results of both bytes, of ops whose 16-bit weights are two of 8 bits.
        groups: Which tensors share an encoding; None: a copy of the graph was decided.
        notes: Where a form is not the requested one, and why; one line each, for people.
    """

    activations: dict[Tensor, QuantType] = field(default_factory=dict)
    converted: dict[tuple[Tensor, DType], QuantType] = field(default_factory=dict)
    statics: dict[Use, QuantType] = field(default_factory=dict)
    params: dict[tuple[Op, str], QuantType] = field(default_factory=dict)
    useful: dict[Tensor, Range] = field(default_factory=dict)
    sources: dict[Tensor, str] = field(default_factory=dict)
    halves: dict[Op, tuple[ScaleOffset, ScaleOffset]] = field(default_factory=dict)
    groups: EncodingGroups | None = None
    notes: list[str] = field(default_factory=list)

    def read(self, tensor: Tensor, dtype: DType) -> QuantType | None:
        """Return the form in which ops of a type read an activation, or None if it has none."""
        return self.converted.get((tensor, dtype), self.activations.get(tensor))

    def moved(self, ops: Mapping[Op, Op], tensors: Mapping[str, Tensor], *, statics: bool = True) -> Decision:
        """Return the same decision about a copy of the graph.

        Args:
            tensors: The tensors of the copy by name.
            statics: Whether static data are among it.
        """
        return Decision(
            {tensors[tensor.name]: form for tensor, form in self.activations.items()},
            {(tensors[tensor.name], dtype): form for (tensor, dtype), form in self.converted.items()},
            {(ops[op], index): form for (op, index), form in self.statics.items() if statics},
            {(ops[op], name): form for (op, name), form in self.params.items() if statics},
            halves={ops[op]: pair for op, pair in self.halves.items() if statics},
        )
