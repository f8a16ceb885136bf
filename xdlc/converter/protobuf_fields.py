"""Fields of protobuf messages in a mapped file, read or cut out without a schema.

A message is a row of (field number, wire type, payload).  Format: protobuf encoding guide.

``ProtobufFile`` reads the fields.  A repeated number without packing, one key before each value, is one field
of many values where its values have a fixed size.

``without_blobs`` walks only the paths from the model to its tensors, cuts each large blob out, and inserts a
short ticket in its place; a parser gets what remains.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from xdlc import ir
from xdlc.errors import ModelError
from xdlc.records import record

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_FIELDS = 1 << 20
LARGE = 1 << 10
RELEASED = 1 << 20
MAX_DEPTH = 64
_SIZES = {FIXED64: 8, FIXED32: 4}
_CHUNK = 1 << 16


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        value: Its value, if it is a varint.
        start: First byte of its payload.
        end: Byte after its payload; of several values with keys, after the last.
        values: Values of a fixed size, with a key of one byte before each but the first.
    """

    number: int
    wire: int
    value: int
    start: int
    end: int
    values: int = 1


class ProtobufFile:
    """A mapped file with protobuf messages.

    Args:
        format: Its format, for errors, like ``a Caffe model``.
    """

    def __init__(self, file: ir.MappedFile, format: str) -> None:
        self.file = file
        self._data = file.view(0, file.size)
        self._format = format
        self._left = MOST_FIELDS

    def fields(self, start: int = 0, end: int | None = None) -> Iterator[Field]:
        """Iterate over the fields of a message; default: the whole file.

        Raises:
            ModelError: If the bytes are no message, or the file has more than ``MOST_FIELDS`` fields.
        """
        data, end = self._data, self.file.size if end is None else end
        position = start
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise self._error(f"the file has more than {MOST_FIELDS} fields")
            begin = position
            key, position = self._varint(position, end)
            number, wire = key >> 3, key & 7
            if not number:
                raise self._error(f"byte {begin} starts no field")
            if wire == VARINT:
                value, position = self._varint(position, end)
                yield Field(number, wire, value, begin, position)
                continue
            if wire == BYTES:
                size, position = self._varint(position, end)
            elif wire in _SIZES:
                size = _SIZES[wire]
            else:
                raise self._error(f"byte {begin} starts no known field")
            payload, position = position, position + size
            if position > end:
                raise self._error(f"the field at byte {begin} ends {position - end} bytes too late")
            count = 1
            if wire in _SIZES and payload == begin + 1:
                count += self._repeats(position, end, data[begin], size + 1)
                position += (count - 1) * (size + 1)
            yield Field(number, wire, 0, payload, position, count)

    def text(self, field: Field, most: int = 1 << 16) -> str:
        """Return the payload of a field of text.

        Raises:
            ModelError: If it has another wire type, or more than ``most`` bytes.
        """
        if field.end - field.start > most:
            raise self._error(f"the text at byte {field.start} has {field.end - field.start} bytes")
        self.require(field, BYTES)
        return bytes(self._data[field.start : field.end]).decode("utf-8", "backslashreplace")

    def signed(self, field: Field) -> int:
        """Return a varint as a signed integer of 64 bits.

        Raises:
            ModelError: If it has another wire type.
        """
        self.require(field, VARINT)
        return field.value - (1 << 64) if field.value >> 63 else field.value

    def integers(self, field: Field) -> list[int]:
        """Return the values of a repeated integer field: one, or several if packed.

        Raises:
            ModelError: If it has another wire type.
        """
        if field.wire == VARINT:
            return [self.signed(field)]
        self.require(field, BYTES)
        values, position = [], field.start
        while position < field.end:
            value, position = self._varint(position, field.end)
            values.append(value - (1 << 64) if value >> 63 else value)
            self._left -= 1
            if self._left < 0:
                raise self._error(f"the file has more than {MOST_FIELDS} values")
        return values

    def lazy_bytes(self, field: Field) -> ir.TensorData:
        """Return the payload of a bytes field as uint8, without reading it.

        Raises:
            ModelError: If it has another wire type.
        """
        self.require(field, BYTES)
        return ir.MappedData(self.file, field.start, (field.end - field.start,), np.uint8)

    def lazy_reals(self, field: Field, wire: int = FIXED32) -> ir.TensorData:
        """Return the floats or doubles of a repeated field, without reading them.

        They are in one dimension, whether they are packed or have a key each.

        Raises:
            ModelError: If it has another wire type, or a part of a value.
        """
        dtype, size = (np.dtype("<f4"), 4) if wire == FIXED32 else (np.dtype("<f8"), 8)
        nbytes = field.end - field.start
        if field.wire == BYTES and nbytes % size == 0:
            return ir.MappedData(self.file, field.start, (nbytes // size,), dtype)
        self.require(field, wire)
        if field.values == 1:
            return ir.MappedData(self.file, field.start, (1,), dtype)
        return _Spaced(self.file, field.start, (field.values,), dtype)

    def require(self, field: Field, wire: int) -> None:
        """Refuse a field of another wire type.

        Raises:
            ModelError: If it has one.
        """
        if field.wire != wire:
            raise self._error(
                f"field {field.number} at byte {field.start} has wire type {field.wire} instead of {wire}"
            )

    def _repeats(self, position: int, end: int, key: int, step: int) -> int:
        """Return how many values with the same key follow."""
        count, size = 0, 8
        while position + step <= end:
            rows = min((end - position) // step, size)
            keys = np.ndarray((rows,), np.uint8, self._data, position, (step,))
            others = np.flatnonzero(keys != key)
            if len(others):
                return count + int(others[0])
            self.file.release(position, rows * step if size == _CHUNK else 0)
            count, position, size = count + rows, position + rows * step, min(size * 8, _CHUNK)
        return count

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        try:
            value, position = varint(self._data, position, end)
        except ValueError as error:
            raise self._error(str(error)) from None
        return value & 0xFFFFFFFFFFFFFFFF, position

    def _error(self, reason: str) -> ModelError:
        return _broken(self._format, reason, str(self.file.path))


class _Spaced(ir.TensorData):
    """Values in a file with a key of one byte before each but the first.

    Args:
        start: First byte of the first value.
    """

    __slots__ = ("_file", "_start")
    has_rows = True

    def __init__(self, file: ir.MappedFile, start: int, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self._file = file
        self._start = start
        self.shape = tuple(shape)
        self.dtype = dtype

    def rows(self, start: int, stop: int) -> np.ndarray:
        values = (stop - start) * math.prod(self.shape[1:])
        begin, nbytes = self._range(start, stop)
        view = self._file.view(begin, nbytes)
        found = np.ndarray((values,), self.dtype, view, 0, (self.dtype.itemsize + 1,))
        return found.reshape(stop - start, *self.shape[1:])

    def release_rows(self, start: int, stop: int) -> None:
        self._file.release(*self._range(start, stop))

    def _range(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first byte of some rows, and their number of bytes."""
        row = math.prod(self.shape[1:]) * (self.dtype.itemsize + 1)
        return self._start + start * row, (stop - start) * row - 1

    def numpy(self) -> np.ndarray:
        array = np.empty(math.prod(self.shape), self.dtype)
        flat = self.reshape(array.shape)
        for start in range(0, len(array), _CHUNK):
            stop = min(start + _CHUNK, len(array))
            array[start:stop] = flat.rows(start, stop)
            flat.release_rows(start, stop)
        return array.reshape(self.shape)

    def reshape(self, shape: Sequence[int]) -> ir.TensorData:
        return _Spaced(self._file, self._start, shape, self.dtype)


@record(frozen=True)
class Layout:
    """Where a protobuf format has its large blobs.

    Attributes:
        format: The format, for errors, like ``an ONNX file``.
        root: Kind of the whole message.
        paths: By kind of message, the fields that hold messages with blobs, and the kinds of these.
        blobs: By kind of message, the field that holds a blob.
    """

    format: str
    root: str
    paths: Mapping[str, Mapping[int, str]]
    blobs: Mapping[str, int]


@record
class Blobs:
    """The ranges that were cut out; the field of a blob contains a ticket instead.

    Attributes:
        release: Called with each range that the scan is done with: touching a page may map megabytes
            around it.
        token: Marks the tickets of this scan; a file cannot forge it.
        ranges: Offset and size of each blob.
    """

    release: Callable[[int, int], None]
    token: bytes = field(default_factory=lambda: os.urandom(16))
    ranges: list[tuple[int, int]] = field(default_factory=list)
    _done: int = 0

    def ticket(self, offset: int, nbytes: int) -> bytes:
        """Record a range and return its ticket."""
        self.ranges.append((offset, nbytes))
        if offset + nbytes - self._done >= RELEASED:
            self.release(0, offset + nbytes)  # from the start: a touch may map earlier pages again
            self._done = offset + nbytes
        return self.token + (len(self.ranges) - 1).to_bytes(8, "little")

    def find(self, raw_data: bytes) -> tuple[int, int] | None:
        """Return (offset, size) if ``raw_data`` is a ticket."""
        if len(raw_data) == len(self.token) + 8 and raw_data.startswith(self.token):
            return self.ranges[int.from_bytes(raw_data[len(self.token) :], "little")]
        return None


def without_blobs(
    data: memoryview,
    layout: Layout,
    where: str,
    release: Callable[[int, int], None] = lambda offset, nbytes: None,
) -> tuple[bytes, Blobs]:
    """Return a serialized model with tickets for large blobs, and their ranges.

    Args:
        layout: Where the format has blobs.
        where: Its name, for errors.
        release: Called with offset and size of ranges that the scan is done with.

    Raises:
        ModelError: If the bytes are not a protobuf message.
    """
    blobs = Blobs(release)
    try:
        return b"".join(_strip(data, 0, len(data), layout, layout.root, blobs, 0)), blobs
    except (IndexError, ValueError) as error:
        raise _broken(layout.format, str(error), where) from error


def _strip(
    data: memoryview, start: int, end: int, layout: Layout, kind: str, blobs: Blobs, depth: int
) -> list[bytes]:
    if depth > MAX_DEPTH:
        raise ValueError(f"messages nest deeper than {MAX_DEPTH}")
    paths, blob = layout.paths.get(kind, {}), layout.blobs.get(kind)
    pieces: list[bytes] = []
    kept = position = start  # [kept, position) is copied as it is
    while position < end:
        field_start = position
        key, position = varint(data, position, end)
        wire = key & 7
        if wire == VARINT:
            _, position = varint(data, position, end)
            continue
        if wire in (FIXED64, FIXED32):
            position += 8 if wire == FIXED64 else 4
        elif wire == BYTES:
            size, position = varint(data, position, end)
            payload, position = position, position + size
            child = paths.get(key >> 3)
            if size >= LARGE and position <= end:
                if child is not None:
                    inner = b"".join(_strip(data, payload, position, layout, child, blobs, depth + 1))
                elif key >> 3 == blob:
                    inner = blobs.ticket(payload, size)
                else:
                    continue
                pieces.append(bytes(data[kept:field_start]))
                pieces.append(_encoded(key) + _encoded(len(inner)))
                pieces.append(inner)
                kept = position
        else:
            raise ValueError(f"byte {field_start} starts no known field")
        if position > end:
            raise ValueError(f"the field at byte {field_start} ends {position - end} bytes too late")
    pieces.append(bytes(data[kept:end]))
    return pieces


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return an integer of at most 70 bits, and the byte after it.

    Raises:
        ValueError: If none ends before ``end``.
    """
    value = shift = 0
    while True:
        if position >= end or shift > 63:
            raise ValueError(f"no integer ends at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _broken(format: str, reason: str, where: str) -> ModelError:
    return ModelError(
        f"the file is not {format}, or is truncated ({reason})",
        where=where,
        fix="check that the path names a complete file",
    )
