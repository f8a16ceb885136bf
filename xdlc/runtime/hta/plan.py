"""Plans: integer-only programs for HTA sections, as ``xdlc.runtime.hta.form`` stores them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DTYPES = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "int32": 4, "uint32": 4, "int64": 8, "float32": 4}
"""Types of buffers and constants, with their bytes; float32 only for what a section gives to the caller."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A value and its place in the arena; buffers whose lives do not meet may share a place.

    Attributes:
        name: Name of the tensor; unique among ports, empty for what is inside an op.
        shape: Extents, channels last; none is 0.
        dtype: One of ``DTYPES``.
        offset: First byte in the arena, a multiple of 8.
        scale: real = (stored + zero) * scale; 0 for a buffer that is not quantized.
        zero: Offset of the encoding.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    scale: float = 0.0
    zero: int = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * DTYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Constant:
    """Packed weights, multipliers or a table.

    Attributes:
        shape: Extents.
        dtype: One of ``DTYPES``, but no float.
        offset: First byte in the constants of the plan, a multiple of 8.
    """

    shape: tuple[int, ...]
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * DTYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a plan.

    Attributes:
        kind: Name of the kernel.
        op: Name of the op that it stands for.
        inputs: Positions in the list of buffers.
        outputs: Positions in the list of buffers.
        constants: By the names that the kernel knows.
        settings: Integers, or lists of integers, by the names that the kernel knows.
    """

    kind: str
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[str, Constant]
    settings: Mapping[str, int | tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """An integer-only program for one section.

    Attributes:
        buffers: All values.
        inputs: Positions of the buffers that the caller fills.
        outputs: Positions of those that the caller gets.
        instructions: Steps in order.
        arena: Bytes that all buffers together take.
        constants: What constants refer to.
    """

    buffers: tuple[Buffer, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    arena: int
    constants: bytes

    def array(self, constant: Constant) -> Any:
        """Return a constant as an array."""
        import numpy

        count = math.prod(constant.shape)
        held = numpy.frombuffer(self.constants, constant.dtype, count, constant.offset)
        return held.reshape(constant.shape)
