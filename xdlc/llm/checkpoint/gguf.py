"""GGUF files: typed metadata, and tensors of ggml's types.

The format is that of ggml's docs/gguf.md, versions 2 and 3, little-endian: a header, metadata by key, a
directory of tensors, and their data, aligned.  All counts, lengths and offsets are checked against the file
before anything is made of them.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.json_fields import shown
from xdlc.llm.checkpoint.gguf_blocks import LAYOUTS, Layout

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_KEYS = 1 << 14
_MOST_NAME = 1 << 16
_MOST_TEXT = 1 << 24
"""Bytes of a text; a tokenizer's template is the longest."""
_MOST_ELEMENTS = 1 << 21
"""Elements of all arrays; those of Gemma's tokenizer are 1.3 million."""
_MOST_TENSORS = 1 << 16
_MOST_RANK = 4
_MOST_ALIGNMENT = 1 << 20
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    _BOOL: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
"""Types of metadata that are numbers."""
_AGAIN = "the file is damaged or truncated: get it again"


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file.

    Attributes:
        shape: Its shape, the longest stride first, as in numpy.
        offset: First byte in the file.
    """

    name: str
    shape: tuple[int, ...]
    layout: Layout
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) // self.layout.elements * self.layout.bytes


@dataclass(frozen=True, slots=True)
class Gguf:
    """A file: its metadata and tensors by name."""

    file: ir.MappedFile
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    @property
    def where(self) -> str:
        return str(self.file.path)


def read_gguf(path: Path) -> Gguf:
    """Read metadata and directory of a file.

    Raises:
        ModelError: If a part is not valid, or outside of the file.
        UnsupportedOp: If its version, or the type of a tensor, is not supported.
        StorageError: If it cannot be read.
    """
    file = ir.MappedFile(path)
    reader = _Reader(file)
    if bytes(reader.take(4)) != MAGIC:
        raise reader.fault("is not a GGUF file")
    (version,) = reader.unpack("<I")
    if version not in _VERSIONS:
        form = f"version {version}" if version < 1 << 16 else "big-endian numbers"
        fix = "convert the source checkpoint with a recent llama.cpp, for little-endian machines"
        raise UnsupportedOp(
            f"is GGUF of {form}; xdlc supports little-endian versions 2 and 3", where=str(path), fix=fix
        )
    tensors, keys = reader.unpack("<QQ")
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise reader.fault(
            f"states {tensors} tensors and {keys} keys; limits are {_MOST_TENSORS} and {_MOST_KEYS}"
        )
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.text(_MOST_NAME)
        if key in metadata:
            raise reader.fault(f"has the key {shown(key)} twice")
        metadata[key] = reader.value(*reader.unpack("<I"))
    parts = metadata.get("split.count", 1)
    if parts not in (0, 1):
        fix = "merge its parts: `llama-gguf-split --merge FIRST_PART OUTPUT`"
        raise UnsupportedOp(f"is one of {parts!r} parts of a model", where=str(path), fix=fix)
    return Gguf(file, metadata, _directory(reader, tensors, metadata.get("general.alignment", 32)))


def _directory(reader: _Reader, count: int, alignment: Any) -> dict[str, GgufTensor]:
    """Return the tensors by name, whose ranges are in the file and do not overlap."""
    if type(alignment) is not int or not 8 <= alignment <= _MOST_ALIGNMENT or alignment % 8:
        raise reader.fault(
            f"has the alignment {alignment!r}, but needs a multiple of 8 up to {_MOST_ALIGNMENT}"
        )
    entries = [(reader.text(_MOST_NAME), reader.shape(), *reader.unpack("<IQ")) for _ in range(count)]
    begin = -(-reader.at // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, shape, kind, offset in entries:
        where = f"{reader.where}: {shown(name)}"
        layout = LAYOUTS.get(kind)
        if layout is None:
            raise UnsupportedOp(
                f"the tensor has ggml's type {kind}; xdlc supports "
                f"{', '.join(supported.name for supported in LAYOUTS.values())}",
                where=where,
                fix="use another quantization of the model, like Q4_0, Q8_0, Q4_K_M or F16",
            )
        if name in tensors:
            raise reader.fault(f"has a tensor {shown(name)} twice")
        if shape[-1] % layout.elements:
            problem = f"the tensor has rows of {shape[-1]} elements in blocks of {layout.elements}"
            raise ModelError(problem, where=where, fix=_AGAIN)
        tensors[name] = tensor = GgufTensor(name, shape, layout, begin + offset)
        if offset % alignment or tensor.offset + tensor.nbytes > reader.size:
            problem = (
                f"the tensor has {tensor.nbytes} bytes from {tensor.offset}, but the file has {reader.size}"
            )
            raise ModelError(problem, where=where, fix=_AGAIN)
    at = begin
    for tensor in sorted(tensors.values(), key=lambda entry: entry.offset):
        if tensor.offset < at:
            raise reader.fault(f"has tensors that overlap at {shown(tensor.name)}")
        at = tensor.offset + tensor.nbytes
    return tensors


class _Reader:
    """Position in a file, whose parts are read in order."""

    def __init__(self, file: ir.MappedFile) -> None:
        self._view, self.at, self.size = file.view(0, file.size), 0, file.size
        self.where = str(file.path)
        self._elements = 0

    def fault(self, problem: str) -> ModelError:
        return ModelError(f"{problem}, before byte {self.at}", where=self.where, fix=_AGAIN)

    def take(self, count: int) -> memoryview:
        if count > self.size - self.at:
            raise self.fault(f"the file ends inside a value of {count} bytes")
        self.at += count
        return self._view[self.at - count : self.at]

    def unpack(self, form: str) -> tuple[Any, ...]:
        """Return the next numbers, by a format of struct."""
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self, most: int) -> str:
        (length,) = self.unpack("<Q")
        if length > most:
            raise self.fault(f"has a string of {length} bytes; xdlc reads at most {most}")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise self.fault(f"has a string that is not UTF-8 ({error.reason})") from error

    def value(self, kind: int, is_inner: bool = False) -> Any:
        """Return the next value of metadata: a number, a string or a list of them."""
        if kind == _STRING:
            return self.text(_MOST_TEXT)
        if kind == _ARRAY and not is_inner:
            inner, count = self.unpack("<IQ")
            self._elements += count
            if self._elements > _MOST_ELEMENTS:
                raise self.fault(f"has an array of {count} elements; all arrays may have {_MOST_ELEMENTS}")
            if inner in _NUMBERS:
                return self._numbers(inner, count)
            return [self.value(inner, is_inner=True) for _ in range(count)]
        if kind not in _NUMBERS:
            raise self.fault(f"has a value of the unknown type {kind}{' in an array' * is_inner}")
        return self._numbers(kind, 1)[0]

    def _numbers(self, kind: int, count: int) -> list[Any]:
        dtype = np.dtype(_NUMBERS[kind])
        values = np.frombuffer(self.take(count * dtype.itemsize), dtype)
        return list((values != 0).tolist() if kind == _BOOL else values.tolist())

    def shape(self) -> tuple[int, ...]:
        """Return the next shape, turned into the order of numpy."""
        (rank,) = self.unpack("<I")
        if not 1 <= rank <= _MOST_RANK:
            raise self.fault(f"has a tensor of {rank} axes")
        dims = self.unpack(f"<{rank}Q")
        if min(dims) < 1 or math.prod(dims) >= 1 << 48:
            raise self.fault(f"has a tensor of shape {list(dims)}")
        return tuple(reversed(dims))
