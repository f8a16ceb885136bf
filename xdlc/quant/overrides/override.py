"""One encoding from outside, in the form that all file formats are brought into."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Grain(Enum):
    """What shares a scale."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    BLOCK = "block"
    EXPANSION = "block by integer scales"


@dataclass(frozen=True, slots=True)
class Override:
    """The encoding that a file has for a tensor of the source model.

    Offsets count stored integers from 0 whatever their type: ``real = (stored + offset) * scale`` with
    ``stored`` from 0 to ``2^bits - 1``.  So a symmetric encoding has the offset ``-2^(bits - 1)``, and
    zero is exact where the offset lies in ``[1 - 2^bits, 0]``.

    Attributes:
        name: Name of the tensor in the source model.
        kind: ``activation`` or ``param``; None where the format does not tell.
        bits: Bits of a stored integer or float.
        is_float: The tensor is kept as floats; there are no scales then.
        grain: What shares a scale.
        scales: One; one per channel; or one per block, the blocks of a channel after one another.  Of an
            expansion, one per channel.
        offsets: One per scale.
        symmetric: Stored as signed integers with offset 0.
        axis: Axis of the channels in the source's tensor, negative from the end; None: that of the outputs.
        block_axis: The same of the blocks; None: that of the inputs.
        block_size: Elements along the block axis that share a scale.
        block_scales: Integers that scale blocks of an expansion, in the order of ``scales`` of blocks.
        block_scale_bits: Bits of these integers.
        where: Place in the file, for errors.
    """

    name: str
    kind: str | None
    bits: int
    is_float: bool = False
    grain: Grain = Grain.TENSOR
    scales: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()
    symmetric: bool = False
    axis: int | None = None
    block_axis: int | None = None
    block_size: int | None = None
    block_scales: tuple[int, ...] = ()
    block_scale_bits: int = 0
    where: str = field(default="", compare=False)
