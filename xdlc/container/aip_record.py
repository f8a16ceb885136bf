"""AIP records (``aip.metadataN``): sections of layers for HTA and HVX.

The layout was found from records of SNPE 1.42 and 1.48, which it covers to the last byte.  Fields with
uninitialized memory of the writer, "garbage" here, are skipped when a record is read, and zero when one is
written.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NoReturn

from xdlc.errors import ContainerError
from xdlc.records import record

HEADER = struct.Struct("<4s4sI4sII")
SECTION = struct.Struct("<IIIIII16x")
BUFFER = struct.Struct("<IIIIII")
DIMENSION = struct.Struct("<IIII16x")
AXES = ("height", "width", "channel")
OUTPUT_BIT = 0x1000
MAX_U32 = 0xFFFFFFFF
MAX_ITEMS = 1 << 14

VENDOR_RECORDS = ("aip.metadata0", "aip.metadata1")
OWN_RECORD = "xdlc.aip.metadata0"
"""The record of xdlc's sections in a container of format 4; it has the same layout."""
OWN_FLAVOUR = 0x58
"""Flavour of xdlc's records: a loader of the vendor's flavours skips them."""


class Engine(IntEnum):
    """Engine of a section."""

    HTA = 0
    HNN = 1


@record(frozen=True)
class Dimension:
    """One axis of an HTA buffer, innermost first.

    Attributes:
        axis: ``height``, ``width`` or ``channel``.
        size: Elements along it.
        padded: Channel count with padding (flavour 1), or the size again (flavour 2).
        unknown: A word between them, 0 in all known records.
    """

    axis: str
    size: int
    padded: int
    unknown: int = 0


@record(frozen=True)
class AipBuffer:
    """A tensor that enters or leaves a section.

    Attributes:
        id: ``layer << 16 | index``, with 0x1000 set for outputs.
        dimensions: Axes of the tensor in HTA's memory; empty for HNN.
        unknown: A word of HTA buffers, 0 in all known records; 0 for HNN, where it is garbage.
    """

    name: str
    is_output: bool
    layer: int
    id: int
    dimensions: tuple[Dimension, ...] = ()
    unknown: int = 0


@record(frozen=True)
class Section:
    """A run of layers on one engine.

    Attributes:
        first: Id of its first layer.
        last: Id of its last layer.
        binary: Payload for HTA: compiled code, or xdlc's sub-graph; empty for HNN.
    """

    engine: Engine
    first: int
    last: int
    buffers: tuple[AipBuffer, ...]
    binary: bytes | memoryview = b""


@record(frozen=True)
class AipRecord:
    """All sections of a model for one flavour of HTA compiler.

    Attributes:
        version: Version of the record, like ``1.2.0.0``.
        compiler: Version of the HTA compiler.
        flavour: 1 or 2 for the vendor's compilers.
        sections: Runs of layers in order.
        unknown: A field of the form of a version, ``1.0.0.0`` in all known records.
    """

    version: str
    compiler: str
    flavour: int
    sections: tuple[Section, ...]
    unknown: str = "1.0.0.0"


def is_aip(name: str) -> bool:
    """Return whether a record contains sections of the vendor or of xdlc."""
    return name.startswith("aip.metadata") or name == OWN_RECORD


def is_about_sections(name: str) -> bool:
    """Return whether a record contains sections, or facts about sections."""
    return is_aip(name) or name.startswith("xdlc.aip.")


def buffer_id(layer: int, index: int, *, is_output: bool) -> int:
    """Return the vendor's buffer id of a layer's ``index``-th input or output."""
    return layer << 16 | (OUTPUT_BIT if is_output else 0) | index


def parse_aip(data: bytes | memoryview, *, where: str) -> AipRecord:
    """Return the content of an AIP record.

    Args:
        data: The whole record; payloads of sections stay parts of it.

    Raises:
        ContainerError: If a count, size or value breaks the layout, or bytes are left over.
    """
    return _Reader(data, where).record()


def _version(raw: bytes) -> str:
    return ".".join(str(part) for part in reversed(raw))


class _Reader:
    def __init__(self, data: bytes | memoryview, where: str) -> None:
        self.data = memoryview(data)
        self.items = 0
        self.where = where
        self.position = 0

    def record(self) -> AipRecord:
        version, compiler, flavour, unknown, count, size = self.take(HEADER, "header")
        if size != len(self.data):
            raise self.fail(f"states a size of {size} bytes, but has {len(self.data)}")
        if count > len(self.data) // SECTION.size:
            raise self.fail(f"states {count} sections, more than its {len(self.data)} bytes hold")
        sections = tuple([self.section() for _ in range(count)])
        if self.position != len(self.data):
            raise self.fail(f"has {len(self.data) - self.position} bytes after its last section")
        return AipRecord(_version(version), _version(compiler), flavour, sections, _version(unknown))

    def fail(self, problem: str) -> ContainerError:
        return ContainerError(problem, where=self.where, fix="get the file again: the record is damaged")

    def take(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise self.fail(f"has more than {MAX_ITEMS} sections, buffers and dimensions")
        return form.unpack(self.bytes(form.size, what))

    def bytes(self, size: int, what: str) -> memoryview:
        if size > len(self.data) - self.position:
            raise self.fail(f"ends at byte {len(self.data)} inside its {what} of {size} bytes")
        self.position += size
        return self.data[self.position - size : self.position]

    def section(self) -> Section:
        engine, first, last, count, described, compiled = self.take(SECTION, "section")
        if engine not in (Engine.HTA, Engine.HNN):
            raise self.fail(f"has a section for engine {engine}; only 0 (HTA) and 1 (HNN) are known")
        end = self.position + described
        if count * BUFFER.size > described:
            raise self.fail(f"states {count} buffers, more than its {described} bytes hold")
        buffers = tuple([self.buffer(Engine(engine)) for _ in range(count)])
        if self.position != end:
            raise self.fail(
                f"states {described} bytes of buffers, but the buffers end {self.position - end} bytes later"
            )
        return Section(Engine(engine), first, last, buffers, self.bytes(compiled, "binary"))

    def buffer(self, engine: Engine) -> AipBuffer:
        direction, layer, length, id, unknown, rank = self.take(BUFFER, "buffer")
        if engine is Engine.HNN:
            unknown = rank = 0
        if direction > 1:
            raise self.fail(f"has a buffer of direction {direction}; only 0 (in) and 1 (out) are known")
        try:
            name = str(self.bytes(length, "buffer name"), "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("has a buffer name that is not UTF-8") from error
        if rank > (len(self.data) - self.position) // DIMENSION.size:
            raise self.fail(f"states {rank} dimensions for buffer {name!r}, more than its bytes hold")
        dimensions = tuple([self.dimension(name) for _ in range(rank)])
        return AipBuffer(name, direction == 1, layer, id, dimensions, unknown)

    def dimension(self, name: str) -> Dimension:
        axis, size, unknown, padded = self.take(DIMENSION, "dimension")
        if axis >= len(AXES):
            raise self.fail(f"has axis {axis} in buffer {name!r}; only 0 to 2 are known")
        return Dimension(AXES[axis], size, padded, unknown)


def write_aip(record: AipRecord) -> bytes:
    """Return the bytes of a record; only unused bytes differ from the bytes read.

    Raises:
        ContainerError: If a value does not fit its field: names the section and the buffer.
    """
    where = "AIP record"
    body = b"".join([_section(held, f"section {index}") for index, held in enumerate(record.sections)])
    version, compiler, unknown = (
        _packed_version(text, where) for text in (record.version, record.compiler, record.unknown)
    )
    size = HEADER.size + len(body)
    return _pack(HEADER, where, version, compiler, record.flavour, unknown, len(record.sections), size) + body


def _packed_version(text: str, where: str) -> bytes:
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() and int(part) < 256 for part in parts):
        _refuse(f"has version {text!r}, not 4 numbers below 256", where)
    return bytes(int(part) for part in reversed(parts))


def _section(section: Section, where: str) -> bytes:
    described = b"".join([_buffer(held, section.engine, where) for held in section.buffers])
    sizes = len(section.buffers), len(described), len(section.binary)
    head = _pack(SECTION, where, int(section.engine), section.first, section.last, *sizes)
    return head + described + section.binary


def _buffer(buffer: AipBuffer, engine: Engine, where: str) -> bytes:
    where = f"{where}: buffer {buffer.name!r}"
    name = buffer.name.encode("utf-8")
    if engine is Engine.HNN and (buffer.dimensions or buffer.unknown):
        _refuse("has dimensions, which buffers of HNN sections do not have", where)
    dimensions = []
    for held in buffer.dimensions:
        if held.axis not in AXES:
            _refuse(f"has the axis {held.axis!r}; valid axes are {', '.join(AXES)}", where)
        words = held.size, held.unknown, held.padded
        dimensions.append(_pack(DIMENSION, where, AXES.index(held.axis), *words))
    fields = int(buffer.is_output), buffer.layer, len(name), buffer.id, buffer.unknown, len(dimensions)
    head = _pack(BUFFER, where, *fields)
    return head + name + b"".join(dimensions)


def _pack(form: struct.Struct, where: str, *values: int | bytes) -> bytes:
    for value in values:
        if isinstance(value, int) and not 0 <= value <= MAX_U32:
            _refuse(f"has the number {value}, but supports only 0 to {MAX_U32}", where)
    return form.pack(*values)


def _refuse(problem: str, where: str) -> NoReturn:
    raise ContainerError(problem, where=where, fix="this is a bug: please report it with the model")
