"""Compact immutable arrays of float32 or int32 numbers, without numpy."""

from __future__ import annotations

import array
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

_N = TypeVar("_N", int, float)
_FLOAT, _INT = "f", "i"


class Numbers(Sequence[_N], Generic[_N]):
    """Float32 or int32 numbers that do not change, four bytes each.

    They compare with any sequence, and numpy reads them without a copy.
    """

    __slots__ = ("_code", "_content")

    def __init__(self, code: str, content: bytes) -> None:
        self._code, self._content = code, content

    @property
    def content(self) -> bytes:
        """The bytes of the numbers."""
        return self._content

    def __len__(self) -> int:
        return len(self._content) // 4

    def _view(self) -> memoryview[Any]:
        return memoryview(self._content).cast("f" if self._code == _FLOAT else "i")

    @overload
    def __getitem__(self, index: int) -> _N: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_N, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        found: Any = self._view()[index]
        return tuple(found) if isinstance(index, slice) else found

    def __iter__(self) -> Iterator[_N]:
        return iter(self._view())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return (self._code, self._content) == (other._code, other._content)
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        found = numpy.frombuffer(self._content, f"{self._code}4")
        return found if dtype is None and not copy else found.astype(dtype or found.dtype, copy=bool(copy))


def floats(values: Iterable[float]) -> Numbers[float]:
    """Return numbers rounded to float32.

    Args:
        values: A sequence, or an array of any type.

    Raises:
        OverflowError: If one is finite and beyond float32.
    """
    found = _buffer(values, _FLOAT)
    if found is None:
        listed = [float(value) for value in values]
        found = struct.pack(f"={len(listed)}f", *listed)
    return Numbers(_FLOAT, found)


def integers(values: Iterable[int]) -> Numbers[int]:
    """Return integers in 32 bits.

    Args:
        values: A sequence, or an array of integers.

    Raises:
        OverflowError: If one does not fit.
    """
    found = _buffer(values, _INT)
    return Numbers(_INT, array.array(_INT, map(int, values)).tobytes() if found is None else found)


def _buffer(values: object, code: str) -> bytes | None:
    """Return the bytes of an object that has such numbers in a buffer, or None."""
    if isinstance(values, Numbers):
        return values.content if values._code == code else None
    try:
        view = memoryview(values)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return None
    return view.tobytes() if view.format == code else None
