"""Tables of encodings in format 4, read and written."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

from xdlc.container.flatbuffer import REPEAT
from xdlc.container.flatbuffer_encode import Rows
from xdlc.errors import ContainerError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    DType,
    Encoding,
    ScaleOffset,
    Tensor,
    VectorCode,
)
from xdlc.schema._generated import dlc4_model as tables

NONE = 0x7FFFFFFF
# Block encodings keep (scale, offset) pairs in one 64-bit flatbuffer each: a head of 40 bytes, then pairs.
# root offset, identifier, then (after padding) a vtable of one slot, the table, its offset to the vector.
BLOCK_HEAD = struct.Struct("<I4s4xHHHHiQQ")


class Blocks:
    """The scales of block encodings in a file.

    Attributes:
        view: The entry model.encodings.bin, empty if missing.
        left: Bytes that may be read: valid files share little.
    """

    __slots__ = ("left", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.left = REPEAT * len(view)


def read_encoding(
    quantization: tables.Quantization | None,
    shape: tuple[int, ...],
    dtype: DType,
    blocks: Blocks,
    where: str,
) -> Encoding | None:
    """Return the encoding of a tensor; None if it has none.

    Args:
        blocks: The entry model.encodings.bin.

    Raises:
        ContainerError: If the kind is unknown, or the table that it needs is missing or out of bounds.
    """
    if quantization is None or quantization.kind == NONE:
        return None
    kind = quantization.kind
    try:
        encoding = _decoded(quantization, shape, dtype, blocks, where)
    except (OverflowError, ValueError) as error:
        raise ContainerError(f"has an encoding with impossible values ({error})", where=where) from error
    if encoding is None:
        raise ContainerError(
            f"has an encoding of kind {kind} without its table, or of an unknown kind (known: 0 to 6)",
            where=where,
            fix="write the model again with a newer tool, or without this kind of quantization",
        )
    return encoding


def _decoded(
    stored: tables.Quantization, shape: tuple[int, ...], dtype: DType, blocks: Blocks, where: str
) -> Encoding | None:
    kind, rank = stored.kind, len(shape)
    if kind in (0, 2) and stored.tensor is not None:
        affine = stored.tensor
        return ScaleOffset(affine.scale, affine.offset, affine.bits if kind == 2 else None)
    if kind in (1, 3) and stored.axis is not None:
        channels = stored.axis.channels or ()
        widths = {channel.bits for channel in channels}
        if kind == 3 and len(widths) != 1:
            raise ContainerError(
                f"the encoding has channels of {sorted(widths)} bits, but needs equal bits", where=where
            )
        axis = _channel_axis(stored.axis.axis, len(channels), shape, where)
        return AxisScaleOffset(
            axis,
            _scales(channels),
            _offsets(channels),
            widths.pop() if kind == 3 else None,
        )
    if kind == 4 and stored.block is not None:
        return _read_block(stored.block, rank, dtype, blocks, where)
    if kind == 5 and stored.expansion is not None:
        return _read_expansion(stored.expansion, shape, where)
    if kind == 6 and stored.vector is not None:
        code = stored.vector
        channels = code.channels or ()
        geometry = (
            code.rows,
            code.columns,
            code.row_axis,
            code.column_axis,
            code.dimension,
            code.stride,
            code.index_bits,
        )
        return VectorCode(code.axis, _scales(channels), _offsets(channels), geometry)
    return None


def _scales(channels: Sequence[tables.Affine]) -> tuple[float, ...]:
    return tuple([channel.scale for channel in channels])


def _offsets(channels: Sequence[tables.Affine]) -> tuple[int, ...]:
    return tuple([channel.offset for channel in channels])


def _axis(axis: int, rank: int, where: str) -> int:
    if not 0 <= axis < rank:
        raise ContainerError(f"the encoding has axis {axis}, but the tensor has {rank} axes", where=where)
    return axis


def _channel_axis(axis: int, count: int, shape: tuple[int, ...], where: str) -> int:
    """Return ``axis`` after a check that its size is the number of scales."""
    if count != shape[_axis(axis, len(shape), where)]:
        raise ContainerError(
            f"has {count} scales along axis {axis}, whose size is {shape[axis]}", where=where
        )
    return axis


def _read_expansion(stored: tables.BlockExpansion, shape: tuple[int, ...], where: str) -> BlockwiseExpansion:
    channels = stored.channels or ()
    wide = stored.wide_scales is not None and len(stored.wide_scales) > 0
    scales: Sequence[int] = stored.wide_scales if wide else bytes(stored.narrow_scales or b"")  # type: ignore[assignment]
    if len(scales) != len(channels) * stored.blocks_per_axis:
        raise ContainerError(
            f"has {len(scales)} block scales for {len(channels)} channels of {stored.blocks_per_axis} blocks",
            where=where,
        )
    return BlockwiseExpansion(
        _channel_axis(stored.axis, len(channels), shape, where),
        _scales(channels),
        _offsets(channels),
        stored.blocks_per_axis,
        stored.block_scale_bits,
        tuple(scales),
        wide,
    )


def _read_block(
    stored: tables.BlockAffine, rank: int, dtype: DType, blocks: Blocks, where: str
) -> BlockScaleOffset:
    # In the vendor's reader a block has size 1 along every axis but the block axis.
    shape = [1] * rank
    shape[_axis(stored.block_axis, rank, where)] = stored.block_size
    place = stored.scale_offsets
    size = len(blocks.view)
    if place is None or min(place.offset, place.nbytes, size - place.offset - place.nbytes) < 0:
        raise ContainerError(f"has block scales outside the {size} bytes of model.encodings.bin", where=where)
    blocks.left -= place.nbytes
    if blocks.left < 0:
        raise ContainerError(
            f"tensors read the block scales more than {REPEAT} times, the limit of xdlc", where=where
        )
    bits = stored.bits if stored.bits not in (0, dtype.bits) else None
    scales, offsets = _read_pairs(blocks.view[place.offset : place.offset + place.nbytes], where)
    return BlockScaleOffset(tuple(shape), scales, offsets, bits)


def _read_pairs(data: memoryview, where: str) -> tuple[memoryview[float], memoryview[int]]:
    """Return the scales and the offsets of an ``SO64`` buffer."""
    problem = ContainerError(f"has block scales ({len(data)} bytes) that are not SO64", where=where)
    if len(data) < 8 or bytes(data[4:8]) != b"SO64":
        raise problem
    try:
        table = struct.unpack_from("<I", data, 0)[0]
        vtable = table - struct.unpack_from("<i", data, table)[0]
        if vtable < 0:
            raise problem
        slot = struct.unpack_from("<H", data, vtable + 4)[0]
        place = table + slot
        vector = place + struct.unpack_from("<Q", data, place)[0]
        count = struct.unpack_from("<Q", data, vector)[0]
    except (struct.error, OverflowError) as error:
        raise problem from error
    if slot < 4 or count * 8 > len(data) - vector - 8:
        raise problem
    content = data[vector + 8 : vector + 8 + 8 * count]
    return content.cast("f")[::2], content.cast("i")[1::2]


class EncodingWriter:
    """Writer of the tables of encodings, and of the entry that block encodings need.

    Attributes:
        blocks: Content of the entry model.encodings.bin.
    """

    def __init__(self) -> None:
        self.blocks = bytearray()
        self._none = tables.Quantization(NONE)
        self._ranges: dict[bytes, tables.Range] = {}

    def table(self, tensor: Tensor) -> tables.Quantization:
        """Return the table for a tensor's encoding.

        Raises:
            ContainerError: If no table can hold the encoding.
        """
        encoding, dtype = tensor.encoding, tensor.dtype
        if encoding is None:
            return self._none
        if isinstance(encoding, ScaleOffset):
            kind = 0 if encoding.bits is None else 2
            affine = _affine(encoding.scale, encoding.offset, encoding.bits, dtype)
            return tables.Quantization(kind, True, tensor=affine)
        if isinstance(encoding, AxisScaleOffset):
            kind = 1 if encoding.bits is None else 3
            channels = _channels(encoding.scales, encoding.offsets, encoding.bits, dtype)
            return tables.Quantization(kind, True, axis=tables.AxisAffine(encoding.axis, channels))
        if isinstance(encoding, BlockwiseExpansion):
            return tables.Quantization(
                5,
                True,
                expansion=tables.BlockExpansion(
                    encoding.axis,
                    _channels(encoding.scales, encoding.offsets, None, dtype),
                    encoding.blocks_per_axis,
                    0,
                    encoding.block_scale_bits,
                    None if encoding.wide else bytes(encoding.block_scales),
                    encoding.block_scales if encoding.wide else None,
                ),
            )
        if isinstance(encoding, BlockScaleOffset):
            return tables.Quantization(4, True, block=self._block(encoding, tensor))
        raise ContainerError(
            "has a vector encoding, which xdlc cannot write",
            where=f"tensor {tensor.name!r}",
            fix="quantize the tensor with a per-tensor, per-axis or block encoding",
        )

    def _block(self, encoding: BlockScaleOffset, tensor: Tensor) -> tables.BlockAffine:
        wide = [axis for axis, size in enumerate(encoding.block_shape) if size != 1]
        if len(encoding.block_shape) != tensor.rank or len(wide) > 1 or not tensor.rank:
            raise ContainerError(
                f"has blocks of shape {list(encoding.block_shape)}; a DLC supports blocks along one axis",
                where=f"tensor {tensor.name!r}",
                fix="use blocks with a size above 1 along only one axis",
            )
        block_axis = wide[0] if wide else 0
        # The vendor's writer has 0 for the channel axis of blocks of one element.
        axis = next((at for at in reversed(range(tensor.rank)) if at != block_axis), 0) if wide else 0
        count = len(encoding.scales)
        scale_offsets = self._buffer(b"SO64", count, _pairs(encoding))
        return tables.BlockAffine(
            axis,
            block_axis,
            encoding.block_shape[block_axis],
            encoding.bits or tensor.dtype.bits,
            tensor.dtype.is_signed,
            scale_offsets=scale_offsets,
            limits=self._buffer(b"FR64", count, bytes(8 * count)),
        )

    def _buffer(self, identifier: bytes, count: int, pairs: bytes) -> tables.Range:
        """Append pairs of numbers as a separate buffer, equal ones once; return its range."""
        import hashlib

        head = BLOCK_HEAD.pack(20, identifier, 0, 6, 12, 4, 6, 8, count)
        content = hashlib.blake2b(head + pairs).digest()
        if content not in self._ranges:
            start = len(self.blocks)
            self.blocks += head
            self.blocks += pairs
            self._ranges[content] = tables.Range(start, len(self.blocks) - start)
        return self._ranges[content]


def _pairs(encoding: BlockScaleOffset) -> bytes:
    """Return the scale and offset of each block, interleaved."""
    import numpy

    pairs = numpy.empty((len(encoding.scales), 2), "<i4")
    pairs[:, 0] = numpy.asarray(encoding.scales, "<f4").view("<i4")
    pairs[:, 1] = numpy.asarray(encoding.offsets, "<i4")
    return pairs.tobytes()


def _affine(scale: float, offset: int, bits: int | None, dtype: DType) -> tables.Affine:
    return tables.Affine(bits or dtype.bits, 0.0, 0.0, scale, offset, dtype.is_signed)


def _channels(scales: Sequence[float], offsets: Sequence[int], bits: int | None, dtype: DType) -> Any:
    """Return the tables of ``_affine`` for each channel."""
    width, zero = itertools.repeat(bits or dtype.bits), itertools.repeat(0.0)
    return Rows(tables.Affine, zip(width, zero, zero, scales, offsets, itertools.repeat(dtype.is_signed)))
