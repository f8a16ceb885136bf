"""Tensor bundles, TensorFlow's checkpoints: variables as lazy ranges of files.

Source: tensor_bundle.proto and tensor_bundle.h of TensorFlow; keys of the slices of partitioned variables:
saved_tensor_slice_util.h and ordered_code.h.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter import weights
from xdlc.converter.tensorflow.messages import dtype_name, message
from xdlc.converter.tensorflow.nodes import text
from xdlc.converter.tensorflow.table import entries, matches
from xdlc.converter.tensorflow.tensors import known_shape, numpy_dtype
from xdlc.errors import ModelError

_DAMAGED = "obtain the checkpoint's files again, or save the model again"
_SLICES = 1 << 12
_LARGEST_OBJECTS = 1 << 27
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
Array = Any


class Bundle:
    """A checkpoint.

    Args:
        prefix: Path of its files without ``.index`` and ``.data-...``.

    Raises:
        ModelError: If the index is damaged.
        StorageError: If it cannot be read.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        from google.protobuf.message import DecodeError

        self.prefix = Path(prefix)
        self.index = self.prefix.with_name(self.prefix.name + ".index")
        file = ir.MappedFile(self.index)
        self._entries = entries(file.view(0, file.size), str(self.index))
        header = message("BundleHeader")
        try:
            header.ParseFromString(self._entries.pop(b"", b""))
        except DecodeError as error:
            raise ModelError(
                "the header of the checkpoint is damaged", where=str(self.index), fix=_DAMAGED
            ) from error
        if header.endianness:
            fix = "save the model on a little-endian machine"
            raise ModelError("xdlc does not support big-endian data", where=str(self.index), fix=fix)
        self._count = header.num_shards or 1
        self._shards: dict[int, ir.MappedFile] = {}

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._entries

    @property
    def keys(self) -> Iterator[str]:
        """Names of the tensors, with partitioned tensors as a whole."""
        return (text(key) for key in self._entries if not key.startswith(b"\0"))

    @property
    def nbytes(self) -> int:
        """Size of the data files that were read so far."""
        return sum(file.size for file in self._shards.values())

    def data(self, key: str) -> ir.TensorData:
        """Return the elements of a tensor as lazy data.

        Raises:
            ModelError: If it is missing or damaged.
            UnsupportedOp: If its elements are not numbers.
        """
        where = f"{self.index}: tensor {key!r}"
        entry = self._entry(key.encode(), where)
        dtype = numpy_dtype(dtype_name(entry.dtype), where)
        shape = known_shape(entry.shape, where)
        if not entry.slices:
            file = self._checked(entry, where)
            return weights.mapped(file, entry.offset, entry.size, shape, dtype, where)
        if len(entry.slices) > _SLICES:
            raise ModelError(
                f"the tensor has {len(entry.slices)} slices, which is too many", where=where, fix=_DAMAGED
            )
        parts, places, covered = [], [], 0
        for each in entry.slices:
            place = _place(each, shape, where)
            part = self._entry(_slice_key(key, each), where)
            file = self._checked(part, where)
            sizes = tuple(span.stop - span.start for span in place)
            parts.append(weights.mapped(file, part.offset, part.size, sizes, dtype, where))
            places.append(place)
            covered += math.prod(sizes)
        if covered != math.prod(shape):
            raise ModelError("the slices do not cover the tensor", where=where, fix=_DAMAGED)

        def joined(*arrays: Array) -> Array:
            import numpy as np

            whole = np.empty(shape, dtype)
            for place, array in zip(places, arrays, strict=True):
                whole[place] = array
            return whole

        return ir.data.Transform(parts, joined, shape, dtype)

    def objects(self) -> Any:
        """Return the graph of the objects that were saved; None if missing.

        Raises:
            ModelError: If it is damaged.
        """
        from google.protobuf.message import DecodeError

        if OBJECTS not in self:
            return None
        where = f"{self.index}: {OBJECTS}"
        entry = self._entry(OBJECTS.encode(), where)
        if entry.size > _LARGEST_OBJECTS:
            raise ModelError(
                f"the entry has {entry.size} bytes, which is too many", where=where, fix=_DAMAGED
            )
        file = self._checked(entry, where)
        raw = bytes(file.view(entry.offset, entry.size))
        objects, position, shift, size = message("TrackedObjects"), 0, 0, 0
        while position < len(raw) and shift < 64:  # the length of the string, then the CRC of the lengths
            size |= (raw[position] & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if raw[position - 1] < 0x80:
                break
        try:
            objects.ParseFromString(raw[position + 4 : position + 4 + size])
        except DecodeError as error:
            raise ModelError("the entry is damaged", where=where, fix=_DAMAGED) from error
        return objects

    def _entry(self, key: bytes, where: str) -> Any:
        from google.protobuf.message import DecodeError

        if key not in self._entries:
            raise ModelError("the tensor is not in the checkpoint", where=where, fix=_DAMAGED)
        entry = message("BundleEntry")
        try:
            entry.ParseFromString(self._entries[key])
        except DecodeError as error:
            raise ModelError("the entry of the tensor is damaged", where=where, fix=_DAMAGED) from error
        return entry

    def _checked(self, entry: Any, where: str) -> ir.MappedFile:
        """Return the file of an entry's data, whose checksum is right."""
        if not 0 <= entry.shard_id < self._count or entry.offset < 0 or entry.size < 0:
            raise ModelError(
                "the position of the tensor in the data files is invalid", where=where, fix=_DAMAGED
            )
        if entry.shard_id not in self._shards:
            name = f"{self.prefix.name}.data-{entry.shard_id:05d}-of-{self._count:05d}"
            path = self.prefix.with_name(name)
            if not path.is_file():
                fix = f"copy the file next to {self.index.name}"
                raise ModelError(f"data file {name} of the checkpoint does not exist", where=where, fix=fix)
            self._shards[entry.shard_id] = ir.MappedFile(path)
        file = self._shards[entry.shard_id]
        if entry.offset + entry.size > file.size:
            raise ModelError(
                f"needs bytes {entry.offset} to {entry.offset + entry.size} of {file.path.name}, which has "
                f"{file.size}",
                where=where,
                fix=_DAMAGED,
            )
        if dtype_name(entry.dtype) != "string" and not matches(
            file.view(entry.offset, entry.size), entry.crc32c
        ):
            raise ModelError("the checksum of the tensor is wrong", where=where, fix=_DAMAGED)
        file.release(entry.offset, entry.size)
        return file


def _place(part: Any, shape: Sequence[int], where: str) -> tuple[slice, ...]:
    """Return the ranges of a slice in its tensor.

    Raises:
        ModelError: If it is not inside.
    """
    if len(part.sizes) != len(shape):
        raise ModelError("a slice has another rank than the tensor", where=where, fix=_DAMAGED)
    ranges = []
    for span, size in zip(part.sizes, shape, strict=True):
        length = span.length if span.WhichOneof("has_length") else size - span.start
        if not (span.start >= 0 and length >= 0 and span.start + length <= size):
            raise ModelError("a slice is outside the tensor", where=where, fix=_DAMAGED)
        ranges.append(slice(span.start, span.start + length))
    return tuple(ranges)


def _slice_key(name: str, each: Any) -> bytes:
    """Return the key under which a slice of a partitioned variable is stored."""
    quoted = name.encode().replace(b"\xff", b"\xff\0").replace(b"\0", b"\0\xff")
    key = b"\0" + quoted + b"\0\1" + _unsigned(len(each.sizes))
    for span in each.sizes:
        key += _signed(span.start) + _signed(span.length if span.WhichOneof("has_length") else -1)
    return key


def _unsigned(value: int) -> bytes:
    """Return a number in ordered code: its byte count, then the bytes, highest first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """Return a signed number in ordered code: a leading one per byte, then the value.

    The leading bits are inverted where the value is negative.
    """
    size = max((value if value >= 0 else ~value).bit_length() // 7 + 1, 1)
    held = value & ((1 << 8 * size) - 1)
    ones = ((1 << size) - 1) << (8 * size - size)
    return (held ^ ones).to_bytes(size, "big")
