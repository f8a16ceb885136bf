"""Quantization encodings: the float value of each quantized value.

The convention is QNN's everywhere: ``float = (quantized + offset) * scale``; offset is the negated
zero point, so it is not positive for unsigned types and 0 for symmetric signed ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdlc.ir.numbers import Numbers, floats, integers


def as_float32(value: float) -> float:
    """Round to the nearest float32, which is what files and backends hold."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _scales(values: Iterable[float]) -> tuple[float, ...]:
    rounded = [float(value) for value in values]
    return struct.unpack(f"<{len(rounded)}f", struct.pack(f"<{len(rounded)}f", *rounded))


@dataclass(frozen=True, slots=True)
class ScaleOffset:
    """One scale and offset for the whole tensor (QNN encodings 0 and, with ``bits``, 2).

    Attributes:
        scale: Step between neighbouring values, rounded to float32.
        offset: Integer added to the quantized value before scaling.
        bits: Used bits of the storage type; None means all of them.
    """

    scale: float
    offset: int = 0
    bits: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_float32(self.scale))
        object.__setattr__(self, "offset", int(self.offset))


@dataclass(frozen=True, slots=True)
class AxisScaleOffset:
    """One scale and offset per index of ``axis`` (QNN encodings 1 and, with ``bits``, 3).

    Attributes:
        axis: Axis of the tensor, from 0.
        scales: One step per index, rounded to float32.
        offsets: One offset per index; 0 for symmetric weights.
        bits: Used bits of the storage type; None means all of them.
    """

    axis: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...] = ()
    bits: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _scales(self.scales))
        offsets = tuple(int(offset) for offset in self.offsets) or (0,) * len(self.scales)
        if len(offsets) != len(self.scales):
            raise ValueError(f"{len(self.scales)} scales but {len(offsets)} offsets")
        object.__setattr__(self, "offsets", offsets)


@dataclass(frozen=True, slots=True)
class BlockScaleOffset:
    """One scale and offset per block of the tensor, blocks in row-major order (QNN encoding 4).

    Attributes:
        block_shape: Size of a block along each axis.
        scales: One step per block, rounded to float32; ``Numbers``, as there may be millions.
        offsets: One offset per block, likewise; default: 0.
        bits: Used bits of the storage type; None means all of them.
    """

    block_shape: tuple[int, ...]
    scales: Sequence[float]
    offsets: Sequence[int] = ()
    bits: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", floats(self.scales))
        zeros = Numbers("i", bytes(4 * len(self.scales)))
        object.__setattr__(self, "offsets", integers(self.offsets) if len(self.offsets) else zeros)


@dataclass(frozen=True, slots=True)
class BlockwiseExpansion:
    """Integer scales per block over float scales per channel, "LPBQ" (QNN encoding 5).

    Attributes:
        axis: Channel axis.
        scales: One float32 step per channel.
        offsets: One offset per channel.
        blocks_per_axis: Blocks in each channel.
        block_scale_bits: Bits of a block scale.
        block_scales: Integer scales, index ``channel * blocks_per_axis + block``.
        wide: Whether block scales are stored in 16 bits instead of 8.
    """

    axis: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    blocks_per_axis: int
    block_scale_bits: int
    block_scales: tuple[int, ...]
    wide: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _scales(self.scales))


@dataclass(frozen=True, slots=True)
class VectorCode:
    """Vector quantization (QNN encoding 6): read for display, never written."""

    axis: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    geometry: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _scales(self.scales))


Encoding: TypeAlias = ScaleOffset | AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion | VectorCode
