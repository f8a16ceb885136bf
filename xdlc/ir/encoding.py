"""Quantization encodings: the float value of each quantized value.

The convention is QNN's everywhere: ``float = (quantized + offset) * scale``; offset is the negated
zero point, so it is not positive for unsigned types and 0 for symmetric signed ones.
"""

from __future__ import annotations

import array
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

from xdlc.records import record

_N = TypeVar("_N", int, float)
_FLOAT, _INT = "f", "i"


class Numbers(Sequence[_N], Generic[_N]):
    """Immutable float32 or int32 numbers, four bytes each.

    They compare with any sequence, and numpy reads them without a copy.
    """

    __slots__ = ("_code", "_content")

    def __init__(self, code: str, content: bytes) -> None:
        self._code, self._content = code, content

    @property
    def content(self) -> bytes:
        """The bytes of the numbers."""
        return self._content

    def __len__(self) -> int:
        return len(self._content) // 4

    def _view(self) -> memoryview[Any]:
        return memoryview(self._content).cast("f" if self._code == _FLOAT else "i")

    @overload
    def __getitem__(self, index: int) -> _N: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_N, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        found: Any = self._view()[index]
        return tuple(found) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[_N]:
        return iter(self._view())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return (self._code, self._content) == (other._code, other._content)
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        found = numpy.frombuffer(self._content, f"{self._code}4")
        return found if dtype is None and not copy else found.astype(dtype or found.dtype, copy=bool(copy))


def floats(values: Iterable[float]) -> Numbers[float]:
    """Return numbers rounded to float32.

    Raises:
        OverflowError: If one is finite and beyond float32.
    """
    found = _buffer(values, _FLOAT)
    if found is None:
        listed = [float(value) for value in values]
        found = struct.pack(f"={len(listed)}f", *listed)
    return Numbers(_FLOAT, found)


def integers(values: Iterable[int]) -> Numbers[int]:
    """Return integers in 32 bits.

    Raises:
        OverflowError: If one does not fit.
    """
    found = _buffer(values, _INT)
    return Numbers(_INT, array.array(_INT, map(int, values)).tobytes() if found is None else found)


def _buffer(values: object, code: str) -> bytes | None:
    """Return the buffer of an object with such numbers; None if it has none."""
    if isinstance(values, Numbers):
        return values.content if values._code == code else None
    try:
        view = memoryview(values)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return None
    return view.tobytes() if view.format == code else None


def as_float32(value: float) -> float:
    """Return a number rounded to float32, as in files and backends."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def _scales(values: Iterable[float]) -> tuple[float, ...]:
    rounded = tuple(map(float, values))
    return struct.unpack(f"<{len(rounded)}f", struct.pack(f"<{len(rounded)}f", *rounded))


@record(frozen=True)
class ScaleOffset:
    """One scale and offset of a tensor (QNN encodings 0 and, with ``bits``, 2).

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


@record(frozen=True)
class AxisScaleOffset:
    """A scale and offset per index of ``axis`` (QNN encodings 1, with ``bits`` 3).

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
        offsets = tuple(map(int, self.offsets)) or (0,) * len(self.scales)
        if len(offsets) != len(self.scales):
            raise ValueError(
                f"{len(self.scales)} scales need as many offsets, but the encoding has {len(offsets)}"
            )
        object.__setattr__(self, "offsets", offsets)


@record(frozen=True)
class BlockScaleOffset:
    """A scale and offset per block, in row-major order (QNN encodings 4 and 11).

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
        if min(self.block_shape, default=1) < 1:
            raise ValueError(f"blocks of shape {list(self.block_shape)} have no elements")
        object.__setattr__(self, "scales", floats(self.scales))
        zeros = Numbers("i", bytes(4 * len(self.scales)))
        object.__setattr__(self, "offsets", integers(self.offsets) if len(self.offsets) else zeros)


@record(frozen=True)
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
        if self.blocks_per_axis < 1:
            raise ValueError(f"a channel needs at least 1 block, but has {self.blocks_per_axis}")
        if len(self.offsets) != len(self.scales):
            raise ValueError(
                f"{len(self.scales)} scales need as many offsets, but the encoding has {len(self.offsets)}"
            )
        if (
            not 0
            <= min(self.block_scales, default=0)
            <= max(self.block_scales, default=0)
            < 1 << (8 << self.wide)
        ):
            raise ValueError(f"a block scale does not fit {8 << self.wide} bits")
        object.__setattr__(self, "scales", _scales(self.scales))


@record(frozen=True)
class VectorCode:
    """Vector quantization (QNN encoding 6): read for display, never written."""

    axis: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    geometry: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", _scales(self.scales))


Encoding: TypeAlias = ScaleOffset | AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion | VectorCode
