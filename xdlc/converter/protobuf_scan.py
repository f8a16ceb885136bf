"""Scan of a protobuf file for large byte blobs, which remain unparsed.

A protobuf message is a row of (field number, wire type, payload).  The scan walks only the paths from
the model to its tensors, cuts each large blob out, and inserts a short ticket in its place; a parser
gets what remains.  Format: protobuf encoding guide.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdlc.errors import ModelError

LARGE = 1 << 10
RELEASED = 1 << 20
MAX_DEPTH = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class Blobs:
    """The ranges that were cut out; the field of a blob contains a ticket instead.

    Attributes:
        release: Called with each range that the scan is done with: touching a page may map megabytes
            around it.
        token: Marks the tickets of this scan; a file cannot forge it.
        ranges: Offset and size of each blob.
    """

    release: Callable[[int, int], None]
    token: bytes = field(default_factory=lambda: secrets.token_bytes(16))
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
        raise ModelError(
            f"is not {layout.format}, or is truncated ({error})",
            where=where,
            fix="check that the path names a complete file",
        ) from error


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
        key, position = _varint(data, position, end)
        wire = key & 7
        if wire == _VARINT:
            _, position = _varint(data, position, end)
            continue
        if wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        elif wire == _BYTES:
            size, position = _varint(data, position, end)
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


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
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


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
