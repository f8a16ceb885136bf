"""Data types of tensors and scalar parameters, under QNN's numbers."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from xdlc.errors import ModelError
from xdlc.lazy import is_installed

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """A QNN data type; each type is a single object.

    Attributes:
        name: Name in the text form, like ``float32`` or ``ufixed8``.
        code: ``Qnn_DataType_t`` value of the public header QnnTypes.h.
        kind: One of ``int uint float sfixed ufixed bool string undefined``.
        bits: Width of one stored element; 0 for strings.
    """

    name: str
    code: int
    kind: str
    bits: int

    @cached_property
    def is_float(self) -> bool:
        """Whether values are floating point."""
        return self.kind == "float"

    @cached_property
    def is_fixed(self) -> bool:
        """Whether values are quantized (fixed point with an encoding)."""
        return self.kind in ("sfixed", "ufixed")

    @cached_property
    def is_integer(self) -> bool:
        """Whether values are plain integers."""
        return self.kind in ("int", "uint")

    @cached_property
    def is_signed(self) -> bool:
        """Whether values can be negative."""
        return self.kind in ("int", "sfixed", "float")

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest integer or quantized value of a type."""
        if self.kind in ("int", "sfixed"):
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    @property
    def float_info(self) -> Any:
        """Facts of a float type under the names of ``numpy.finfo``, also of bfloat16."""
        import ml_dtypes

        return ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]

    @property
    def largest(self) -> float:
        """Largest finite value of a floating-point type."""
        return float(self.float_info.max)

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Size in bytes of a tensor of ``shape``; 4-bit types pack two values a byte."""
        return (math.prod(shape) * self.bits + 7) // 8

    def stored_sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes in bytes that the data of a tensor may have.

        The vendor's writer stores 4-bit elements as it is given them, so that files with one a byte exist.
        """
        packed = self.nbytes(shape)
        return (packed, math.prod(shape)) if self.bits == 4 else (packed,)

    @cached_property
    def itemsize(self) -> int:
        """Bytes of a stored element, as of ``numpy``; a byte for two packed 4-bit values."""
        return max(self.bits, 8) // 8

    def numbers(self, content: memoryview) -> tuple[int | float | bool, ...]:
        """Return the numbers in little-endian bytes; packed 4-bit values stay a byte."""
        if self.name == "bfloat16":  # the upper half of a float32
            content = memoryview(b"".join(b"\0\0" + content[at : at + 2] for at in range(0, len(content), 2)))
            return struct.unpack(f"<{len(content) // 4}f", content)
        return struct.unpack(f"<{len(content) // self.itemsize}{self._struct_code}", content)

    def content(self, numbers: Sequence[float]) -> bytes:
        """Return the little-endian bytes of numbers, but of bfloat16."""
        return struct.pack(f"<{len(numbers)}{self._struct_code}", *numbers)

    @property
    def _struct_code(self) -> str:
        codes = {"float": " efd", "int": "bhiq", "sfixed": "bhiq", "uint": "BHIQ", "ufixed": "BHIQ"}
        return "B" if self.bits == 4 else codes.get(self.kind, "?")[self.itemsize.bit_length() - 1]

    @cached_property
    def array_code(self) -> str:
        """Code of ``numpy`` like ``<f4``, but for bfloat16, which has none.

        Raises:
            ModelError: For strings and the undefined type.
        """
        stem = {"int": "i", "sfixed": "i", "uint": "u", "ufixed": "u", "float": "f", "bool": "b"}.get(
            self.kind
        )
        if stem is None:
            raise ModelError(
                f"numpy has no type for {self.name}",
                fix="give tensors and their data a type of numbers or bools",
            )
        if self.bits == 4:
            return "u1"
        return f"{'<' if self.itemsize > 1 else ''}{stem}{self.itemsize}"

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype of a stored element; a byte for two packed 4-bit values.

        Raises:
            ModelError: For strings and the undefined type; for bfloat16 without ``ml_dtypes``.
        """
        import numpy

        if self.name == "bfloat16":
            if not is_installed("ml_dtypes"):
                raise ModelError("the package ml_dtypes is missing, which bfloat16 needs")
            import ml_dtypes

            bfloat16: np.dtype[Any] = numpy.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return numpy.dtype(self.array_code)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


def _table() -> dict[str, DType]:
    table: dict[str, DType] = {}

    def add(name: str, code: int, kind: str, bits: int) -> None:
        table[name] = DType(name, code, kind, bits)

    # QNN writes the width as hexadecimal digits below a family byte (public header QnnTypes.h).
    for kind, family, widths in (
        ("int", 0x00, (8, 16, 32, 64)),
        ("uint", 0x01, (8, 16, 32, 64)),
        ("float", 0x02, (16, 32, 64)),
        ("sfixed", 0x03, (4, 8, 16, 32)),
        ("ufixed", 0x04, (4, 8, 16, 32)),
    ):
        for bits in widths:
            add(f"{kind}{bits}", family << 8 | int(str(bits), 16), kind, bits)
    add("bfloat16", 0x0226, "float", 16)
    add("bool8", 0x0508, "bool", 8)
    add("string", 0x0608, "string", 0)
    add("undefined", 0x7FFFFFFF, "undefined", 0)
    return table


BY_NAME = _table()
BY_CODE = {dtype.code: dtype for dtype in BY_NAME.values()}

INT8, INT16, INT32, INT64 = (BY_NAME[f"int{n}"] for n in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (BY_NAME[f"uint{n}"] for n in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (BY_NAME[f"float{n}"] for n in (16, 32, 64))
BFLOAT16 = BY_NAME["bfloat16"]
SFIXED4, SFIXED8, SFIXED16, SFIXED32 = (BY_NAME[f"sfixed{n}"] for n in (4, 8, 16, 32))
UFIXED4, UFIXED8, UFIXED16, UFIXED32 = (BY_NAME[f"ufixed{n}"] for n in (4, 8, 16, 32))
BOOL8, STRING, UNDEFINED = BY_NAME["bool8"], BY_NAME["string"], BY_NAME["undefined"]

PLAIN = {UFIXED8: UINT8, UFIXED16: UINT16, UFIXED32: UINT32, SFIXED8: INT8, SFIXED16: INT16, SFIXED32: INT32}
"""Integer types that definitions of UDOs use for fixed point, as configurations of SNPE do."""

LARGEST_OF_BYTES = 0x7F7F
"""Largest 16-bit number whose two bytes are both signed: HTP multiplies them apart."""


def _named(name: str) -> DType:
    """Return the type of a name."""
    return BY_NAME[name]


@cache
def from_numpy(dtype: np.dtype[Any] | type) -> DType:
    """Return the plain (never fixed-point) type of a numpy dtype.

    Raises:
        TypeError: If QNN has no such type.
    """
    import numpy

    found = numpy.dtype(dtype)
    name = {"bool": "bool8"}.get(found.name, found.name)
    if name not in BY_NAME:
        raise TypeError(f"QNN has no data type for numpy {found}")
    return BY_NAME[name]
