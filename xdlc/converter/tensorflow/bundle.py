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

import numpy as np

from xdlc import ir
from xdlc.converter import weights
from xdlc.converter.protobuf_fields import varint
from xdlc.converter.tensorflow.messages import dtype_name, message
from xdlc.converter.tensorflow.nodes import text
from xdlc.converter.tensorflow.table import entries, matches
from xdlc.converter.tensorflow.tensors import known_shape, numpy_dtype
from xdlc.errors import ModelError

_SLICES = 1 << 12
_LARGEST_OBJECTS = 1 << 27
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Bundle:
    """A checkpoint.

    Args:
        prefix: Path of its files without ``.index`` and ``.data-...``.

    Raises:
        ModelError: If the index is damaged.
        StorageError: If it cannot be read.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self.prefix = Path(prefix)
        self.index = self.prefix.with_name(self.prefix.name + ".index")
        file = ir.MappedFile(self.index)
        self._entries = entries(file.view(0, file.size), str(self.index))
        header = _parsed("BundleHeader", self._entries.pop(b"", b""), str(self.index))
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
            return self._checked(entry, shape, dtype, where)
        if len(entry.slices) > _SLICES:
            raise _damaged(f"the tensor has {len(entry.slices)} slices, which is too many", where)
        places = [_place(part, shape, where) for part in entry.slices]
        sizes = [tuple(span.stop - span.start for span in place) for place in places]
        if sum(map(math.prod, sizes)) != math.prod(shape):
            raise _damaged("the slices do not cover the tensor", where)
        parts = [
            self._checked(self._entry(_slice_key(key, part), where), size, dtype, where)
            for part, size in zip(entry.slices, sizes, strict=True)
        ]

        def joined(*arrays: Any) -> Any:
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
        if OBJECTS not in self:
            return None
        where = f"{self.index}: {OBJECTS}"
        entry = self._entry(OBJECTS.encode(), where)
        if entry.size > _LARGEST_OBJECTS:
            raise _damaged(f"the entry has {entry.size} bytes, which is too many", where)
        raw = self._mapped(entry, (entry.size,), np.dtype(np.uint8), where).numpy().tobytes()
        try:  # the length of the string, then the CRC of the lengths
            size, position = varint(memoryview(raw), 0, len(raw))
        except ValueError:
            size, position = 0, 0
        return _parsed("TrackedObjects", raw[position + 4 : position + 4 + size], where)

    def _entry(self, key: bytes, where: str) -> Any:
        if key not in self._entries:
            raise _damaged("the tensor is not in the checkpoint", where)
        return _parsed("BundleEntry", self._entries[key], where)

    def _mapped(self, entry: Any, shape: Sequence[int], dtype: Any, where: str) -> ir.TensorData:
        """Return the data of an entry."""
        if not 0 <= entry.shard_id < self._count or entry.offset < 0 or entry.size < 0:
            raise _damaged("the position of the tensor in the data files is invalid", where)
        if entry.shard_id not in self._shards:
            name = f"{self.prefix.name}.data-{entry.shard_id:05d}-of-{self._count:05d}"
            path = self.prefix.with_name(name)
            if not path.is_file():
                fix = f"copy the file next to {self.index.name}"
                raise ModelError(f"data file {name} of the checkpoint does not exist", where=where, fix=fix)
            self._shards[entry.shard_id] = ir.MappedFile(path)
        return weights.mapped(self._shards[entry.shard_id], entry.offset, entry.size, shape, dtype, where)

    def _checked(self, entry: Any, shape: Sequence[int], dtype: Any, where: str) -> ir.TensorData:
        """Return the data of an entry, whose checksum is right."""
        data, file = self._mapped(entry, shape, dtype, where), self._shards[entry.shard_id]
        if not matches(file.view(entry.offset, entry.size), entry.crc32c):
            raise _damaged("the checksum of the tensor is wrong", where)
        file.release(entry.offset, entry.size)
        return data


def _damaged(problem: str, where: str) -> ModelError:
    fix = "obtain the checkpoint's files again, or save the model again"
    return ModelError(problem, where=where, fix=fix)


def _parsed(kind: str, data: bytes, where: str) -> Any:
    try:
        return message(kind, data)
    except ValueError as error:
        raise _damaged(f"the {kind} of the checkpoint is damaged", where) from error


def _place(part: Any, shape: Sequence[int], where: str) -> tuple[slice, ...]:
    """Return the ranges of a slice in its tensor.

    Raises:
        ModelError: If it is not inside.
    """
    if len(part.sizes) != len(shape):
        raise _damaged("a slice has another rank than the tensor", where)
    ranges = []
    for span, size in zip(part.sizes, shape, strict=True):
        length = span.length if span.WhichOneof("has_length") else size - span.start
        if not (span.start >= 0 and length >= 0 and span.start + length <= size):
            raise _damaged("a slice is outside the tensor", where)
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
