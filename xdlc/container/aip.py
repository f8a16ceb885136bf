"""Reads AIP records (``aip.metadataN``): which layers run on HTA or HVX, and HTA's compiled code.

The layout is ours, worked out from records of SNPE 1.42 and 1.48, all of which it covers to the last
byte.  Fields that hold what happened to be in the writer's memory are left out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from xdlc.errors import ContainerError

HEADER = struct.Struct("<4s4sI4sII")
SECTION = struct.Struct("<IIIIII16x")
BUFFER = struct.Struct("<IIII4xI")
DIMENSION = struct.Struct("<IIII16x")
AXES = ("height", "width", "channel")


class Engine(IntEnum):
    """What runs a section."""

    HTA = 0
    HNN = 1


@dataclass(frozen=True, slots=True)
class Dimension:
    """One axis of an HTA buffer, innermost first.

    Attributes:
        axis: ``height``, ``width`` or ``channel``.
        extent: Elements along it.
        padded: Channel count with padding (flavour 1), or the extent again (flavour 2).
    """

    axis: str
    extent: int
    padded: int


@dataclass(frozen=True, slots=True)
class AipBuffer:
    """A tensor that enters or leaves a section.

    Attributes:
        name: Name of the buffer in the model.
        is_output: Direction.
        layer: Id of its layer.
        id: ``layer << 16 | index``, with 0x1000 set for outputs.
        dimensions: Axes of the tensor in HTA's memory; empty for HNN.
    """

    name: str
    is_output: bool
    layer: int
    id: int
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A run of layers on one engine.

    Attributes:
        engine: What runs it.
        first: Id of its first layer.
        last: Id of its last layer.
        buffers: What enters and leaves it.
        binary: Compiled code for HTA; empty for HNN.
    """

    engine: Engine
    first: int
    last: int
    buffers: tuple[AipBuffer, ...]
    binary: bytes


@dataclass(frozen=True, slots=True)
class AipRecord:
    """All layers of a model for one flavour of HTA compiler.

    Attributes:
        version: Version of the record, like ``1.2.0.0``.
        compiler: Version of the HTA compiler.
        flavour: 1 or 2.
        sections: Runs of layers in order.
    """

    version: str
    compiler: str
    flavour: int
    sections: tuple[Section, ...]


def parse_aip(data: bytes, *, where: str) -> AipRecord:
    """Return what an AIP record says.

    Args:
        data: The whole record.
        where: File and entry, for errors.

    Raises:
        ContainerError: If a count, size or value breaks the layout, or bytes are left over.
    """
    reader = _Reader(data, where)
    version, compiler, flavour, _, count, size = reader.take(HEADER, "header")
    if size != len(data):
        raise reader.fail(f"says that it has {size} bytes, has {len(data)}")
    if count > len(data) // SECTION.size:
        raise reader.fail(f"announces {count} sections")
    sections = tuple([reader.section() for _ in range(count)])
    if reader.position != len(data):
        raise reader.fail(f"has {len(data) - reader.position} bytes behind its last section")
    return AipRecord(_version(version), _version(compiler), flavour, sections)


def _version(raw: bytes) -> str:
    return ".".join(str(part) for part in reversed(raw))


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        self.position = 0

    def fail(self, problem: str) -> ContainerError:
        return ContainerError(problem, where=self.where, fix="the record is damaged: get the file again")

    def take(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        return form.unpack(self.bytes(form.size, what))

    def bytes(self, size: int, what: str) -> bytes:
        if size > len(self.data) - self.position:
            raise self.fail(f"ends at byte {len(self.data)} inside its {what}, which takes {size} bytes")
        self.position += size
        return self.data[self.position - size : self.position]

    def section(self) -> Section:
        engine, first, last, count, described, compiled = self.take(SECTION, "section")
        if engine not in (Engine.HTA, Engine.HNN):
            raise self.fail(f"has a section for engine {engine}, only 0 (HTA) and 1 (HNN) are known")
        end = self.position + described
        if count * BUFFER.size > described:
            raise self.fail(f"announces {count} buffers in {described} bytes")
        buffers = tuple([self.buffer(Engine(engine)) for _ in range(count)])
        if self.position != end:
            raise self.fail(f"describes buffers in {described} bytes, but they end {self.position - end} off")
        return Section(Engine(engine), first, last, buffers, self.bytes(compiled, "binary"))

    def buffer(self, engine: Engine) -> AipBuffer:
        direction, layer, length, id, rank = self.take(BUFFER, "buffer")
        try:
            name = self.bytes(length, "buffer name").decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("has a buffer name that is not UTF-8") from error
        dimensions = []
        if engine is Engine.HTA:
            if rank > (len(self.data) - self.position) // DIMENSION.size:
                raise self.fail(f"announces {rank} dimensions for buffer {name!r}")
            for _ in range(rank):
                axis, extent, _, padded = self.take(DIMENSION, "dimension")
                if axis >= len(AXES):
                    raise self.fail(f"has axis {axis} in buffer {name!r}, only 0 to 2 are known")
                dimensions.append(Dimension(AXES[axis], extent, padded))
        return AipBuffer(name, direction == 1, layer, id, tuple(dimensions))
