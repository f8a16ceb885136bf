"""The order in which Google's own flatbuffer builder lays out tables, which wrote all files of format 3.

Contents of a table come before the table itself, in the order of its fields, and everything is written from
the end of the buffer towards its start; no string is shared, equal vtables are.  A file of format 3 that is
read and written again is thereby the same file.  Format 4 has a writer of its own, ``flatbuffer_encode``.
"""

from __future__ import annotations

import struct
from typing import Any

from xdlc.container.flatbuffer import FORMATS, SIZES
from xdlc.container.flatbuffer_encode import LIMIT, Part, Stream
from xdlc.errors import ContainerError
from xdlc.ir.data import TensorData
from xdlc.schema.table import Field, Table

OFFSET = 4  # bytes of an offset, and of a vector's count


def build_parts(
    root: Table, *, by_name: str = "", fix: str = "split the model into several files"
) -> list[Part]:
    """Return a flatbuffer of ``root`` and all below it, as parts that follow each other.

    Scalars that have their default and fields that are None are left out.

    Args:
        root: The root table; its byte vectors may be ``Stream``s, which become parts of their own.
        by_name: Field of the root whose tables are written in the order given but listed by their names.
        fix: What to do about a result that is too large, for the error.

    Raises:
        ContainerError: If the result passes the 2 GiB that 32-bit offsets can span.
    """
    builder = _Builder(by_name)
    place = builder.table(root)
    builder.align(builder.widest, 2 * OFFSET)
    builder.push(root.IDENTIFIER)
    builder.push(struct.pack("<I", builder.size + OFFSET - place))
    if builder.size >= LIMIT:
        raise ContainerError(
            f"the content takes {builder.size} bytes, more than the 2 GiB of a flatbuffer", fix=fix
        )
    return builder.parts()


class _Builder:
    """Grows towards the start; the place of what is written is its distance from the end."""

    def __init__(self, by_name: str) -> None:
        self.by_name = by_name
        self.pieces: list[bytes | TensorData] = []  # the last of the buffer first
        self.size = 0
        self.widest = OFFSET
        self.vtables: dict[bytes, int] = {}

    def push(self, piece: bytes | TensorData) -> None:
        self.pieces.append(piece)
        self.size += piece.nbytes if isinstance(piece, TensorData) else len(piece)

    def align(self, width: int, ahead: int = 0) -> None:
        """Write zeros so that after ``ahead`` more bytes the place is a multiple of ``width``."""
        padding = -(self.size + ahead) % width
        if padding:
            self.push(bytes(padding))
        self.widest = max(self.widest, width)

    def parts(self) -> list[Part]:
        """Return the pieces in the order of the buffer, neighbours joined."""
        found: list[Part] = []
        joined: list[bytes] = []
        for piece in reversed(self.pieces):
            if isinstance(piece, TensorData):
                found += [b"".join(joined), piece]
                joined = []
            else:
                joined.append(piece)
        return [*found, b"".join(joined)]

    def reference(self, place: int) -> bytes:
        """Return the offset, from where it is about to be written, of something written before."""
        return struct.pack("<I", self.size + OFFSET - place)

    def string(self, text: str) -> int:
        raw = text.encode("utf-8")
        self.align(OFFSET, len(raw) + 1)
        self.push(struct.pack("<I", len(raw)) + raw + b"\0")
        return self.size

    def vector(self, values: Any, field: Field) -> int:
        element, kind = field.element or "", field.kind
        if kind == "mapped" or element == "ubyte":
            return self.octets(values, SIZES[element])
        if element in FORMATS:
            raw = struct.pack(f"<{len(values)}{FORMATS[element]}", *values)
            return self.octets(raw, SIZES[element])
        places = [self.string(value) if element == "string" else self.table(value) for value in values]
        if field.name == self.by_name and element == "table":
            order = sorted(range(len(values)), key=lambda index: values[index].name.encode("utf-8"))
            places = [places[index] for index in order]
        self.align(OFFSET)
        for place in reversed(places):
            self.push(self.reference(place))
        self.push(struct.pack("<I", len(places)))
        return self.size

    def octets(self, values: Any, width: int) -> int:
        count = len(values)
        self.align(OFFSET, count)
        self.align(width, count)
        self.push(values.data if isinstance(values, Stream) else bytes(values))
        self.push(struct.pack("<I", count // width))
        return self.size

    def table(self, table: Table) -> int:
        values: dict[Field, Any] = {}
        for field in table.FIELDS:
            value = getattr(table, field.name)
            if value == field.default if field.kind in FORMATS else value is None:
                continue
            if field.kind == "string":
                value = self.string(value)
            elif field.kind == "table":
                value = self.table(value)
            elif field.kind not in FORMATS:
                value = self.vector(value, field)
            values[field] = value
        return self.fields(values)

    def fields(self, values: dict[Field, Any]) -> int:
        """Write a table: wide fields behind narrow ones, of one width those of high slots behind."""
        start = self.size
        places: dict[int, int] = {}
        widths = {field: SIZES.get(field.kind, OFFSET) for field in values}
        for field in sorted(values, key=lambda field: (widths[field], field.slot), reverse=True):
            self.align(widths[field])
            code = FORMATS.get(field.kind)
            raw = struct.pack(f"<{code}", values[field]) if code else self.reference(values[field])
            self.push(raw)
            places[field.slot] = self.size
        self.align(OFFSET)
        place = self.size + OFFSET
        slots = range(4, max(places, default=2) + 2, 2)
        offsets = [place - places[slot] if slot in places else 0 for slot in slots]
        vtable = struct.pack(f"<HH{len(offsets)}H", 4 + 2 * len(offsets), place - start, *offsets)
        known = self.vtables.get(vtable)
        if known is None:
            known = self.vtables[vtable] = place + len(vtable)
            self.push(struct.pack("<i", len(vtable)))
            self.push(vtable)
        else:
            self.push(struct.pack("<i", known - place))
        return place
