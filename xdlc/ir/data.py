"""Lazy tensor data: the place of a weight's bytes, or how to compute them.

Three kinds exist: a range of a mapped file, an array, and a transform of other data.  A range that
needs no change is copied from file to file by the kernel; a transform is computed on each use, and its
result is not kept.
"""

from __future__ import annotations

import bisect
import math
import mmap
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from xdlc.errors import ContainerError, ModelError, StorageError
from xdlc.ir.dtype import UINT8, DType
from xdlc.ir.files import COPY_CHUNK, Target, any_nan, copy_range, open_file, unread

if TYPE_CHECKING:
    import numpy as np

Array = Any  # numpy.ndarray of any dtype
SUM_CHUNK = 1 << 22  # bytes that are summed at a time
_AHEAD = 1 << 25
"""Bytes that the disk reads while earlier ones are summed."""
ROWS_CHUNK = 1 << 22  # bytes of rows that are computed and written at a time
_WIDER = 2
"""How much larger than a result data has to be that is not held as a whole for it."""


class TensorData(ABC):
    """Elements of a tensor: little-endian, row-major, dense.

    Attributes:
        shape: Shape of the array that ``numpy()`` returns.
        has_rows: Whether ``rows`` costs no more than the elements that it returns.
    """

    __slots__ = ("_type", "shape")
    shape: tuple[int, ...]
    _type: np.dtype[Any] | DType
    has_rows: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the numpy dtype, of a type of QNN on first use."""
        if isinstance(self._type, DType):
            self._type = self._type.numpy
        return self._type

    @dtype.setter
    def dtype(self, dtype: np.dtype[Any] | DType) -> None:
        self._type = dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes when written."""
        return math.prod(self.shape) * self._type.itemsize

    @property
    def nbytes_read(self) -> int:
        """Most bytes that any data holds which the elements are computed from."""
        return self.nbytes

    @abstractmethod
    def numpy(self) -> Array:
        """Return the elements as an array, which callers must not change."""

    def tolist(self) -> Any:
        """Return the elements as nested lists, or as a number without axes."""
        return self.numpy().tolist()

    def peek(self) -> Any:
        """Return ``tolist()`` without comparing CRC-32, which reads a whole entry."""
        return self.tolist()

    def content(self) -> memoryview:
        """Return the bytes; bytes of a file or an array are not copied."""
        import numpy

        whole: Array = numpy.ascontiguousarray(self.numpy())
        return memoryview(whole.reshape(-1).view(numpy.uint8))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the elements for pickle, because files and functions may be unavailable."""
        return ArrayData, (self.numpy(),)

    def __deepcopy__(self, _memo: dict[int, Any]) -> TensorData:
        """Return the data itself, which is immutable."""
        return self

    def rows(self, start: int, stop: int) -> Array:
        """Return a range of the first axis, for which callers have checked the shape."""
        return self.numpy()[start:stop]

    def write_to(self, file: Target) -> None:
        """Append the bytes to ``file``, a binary file or a checksum."""
        if self.has_rows and self.shape and self.nbytes_read > ROWS_CHUNK:
            step = max(1, ROWS_CHUNK * self.shape[0] // self.nbytes_read)
            for start in range(0, self.shape[0], step):
                stop = min(start + step, self.shape[0])
                _write(self.rows(start, stop), file)
                self.release_rows(start, stop)
        else:
            _write(self.numpy(), file)

    def release(self) -> None:  # noqa: B027 - most data has nothing to release
        """Return memory used by reading to the operating system where possible."""

    def release_rows(self, start: int, stop: int) -> None:  # noqa: B027
        """Return memory used by reading a range of the first axis."""

    def transform(
        self,
        function: Callable[[Array], Array],
        *,
        shape: tuple[int, ...] | None = None,
        dtype: np.dtype[Any] | type | None = None,
        by_rows: bool = False,
        factors: float | TensorData | None = None,
    ) -> TensorData:
        """Return ``function`` applied to this data, computed when needed.

        Args:
            function: From the array to the new array; pure.
            shape: Shape of the result; default: unchanged.
            dtype: Dtype of the result; default: unchanged.
            by_rows: Whether the function computes each element of the first axis from the same one, and so
                may get a range of them.
            factors: What the function multiplies the values by: one number, or data with one per output
                channel of the layer that reads them; 1.0 if it changes their order, shape or type, or
                puts zeros between them; None if it computes something else.
        """
        wanted = self.shape if shape is None else shape
        return Transform([self], function, wanted, dtype or self.dtype, by_rows=by_rows, factors=factors)

    def transpose(self, perm: Sequence[int]) -> TensorData:
        """Return the data with axis ``perm[i]`` as axis i."""
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return self
        shape = tuple(map(self.shape.__getitem__, order))
        moving = [axis for axis in order if self.shape[axis] != 1]
        if moving == sorted(moving):
            return self.reshape(shape)  # only axes of size 1 move: same bytes
        by_rows = order[0] == 0
        return self.transform(lambda array: array.transpose(order), shape=shape, by_rows=by_rows, factors=1.0)

    def reshape(self, shape: Sequence[int]) -> TensorData:
        """Return the same bytes under another shape.

        Raises:
            ValueError: If it has another number of elements.
        """
        new_shape = tuple(shape)
        if new_shape == self.shape:
            return self
        if math.prod(new_shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape data of shape {list(self.shape)} to {list(new_shape)}")
        if new_shape[:1] == self.shape[:1] and 0 not in new_shape:
            return self.transform(
                lambda array: array.reshape((-1, *new_shape[1:])),
                shape=new_shape,
                by_rows=bool(new_shape),
                factors=1.0,
            )
        return Reshaped(self, new_shape)

    def cast(self, dtype: np.dtype[Any] | type) -> TensorData:
        """Return the values converted to another numpy dtype."""
        import numpy

        wanted = numpy.dtype(dtype)
        if wanted == self.dtype:
            return self
        return self.transform(lambda a: a.astype(wanted), dtype=wanted, by_rows=True, factors=1.0)


class ArrayData(TensorData):
    """Data that is in memory already."""

    __slots__ = ("_array",)
    has_rows = True

    def __init__(self, array: Array) -> None:
        import numpy

        given = numpy.asarray(array)
        little = given.dtype.newbyteorder("<") if given.dtype.byteorder == ">" else given.dtype
        self._array = given.astype(little, copy=False)
        self.shape = tuple(given.shape)
        self._type = little

    def numpy(self) -> Array:
        return self._array


class MappedFile:
    """A file opened for reading; its ranges become tensor data.

    Raises:
        StorageError: If the file cannot be opened.
    """

    __slots__ = ("_map", "_sums", "file", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._sums: list[tuple[int, int, int, str]] = []
        self.file: IO[bytes] | None = None
        self._map: mmap.mmap | memoryview
        try:
            self.file = open_file(path)  # lives as long as the data taken from it
            self.size = os.fstat(self.file.fileno()).st_size
            self._map = (
                mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else memoryview(b"")
            )
        except (OSError, ValueError) as error:
            raise unread(error, str(path)) from error

    def __del__(self) -> None:
        file = getattr(self, "file", None)  # opening may have failed
        if file is not None:
            file.close()

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Return a read-only view of a range that the caller has checked.

        Raises:
            StorageError: If the file has become shorter, so that its pages cannot be read.
        """
        if self.file is not None and os.fstat(self.file.fileno()).st_size < self.size:
            fix = "try again when no other process writes the file"
            raise StorageError("the file became shorter while xdlc read it", where=str(self.path), fix=fix)
        return memoryview(self._map)[offset : offset + nbytes]

    def expect(self, offset: int, nbytes: int, crc: int, where: str) -> None:
        """State the CRC-32 of a range for ``check``; ranges come in ascending order."""
        self._sums.append((offset, nbytes, crc, where))

    def check(self, offset: int) -> None:
        """Check the range at an offset against its CRC-32, if stated.

        Raises:
            ContainerError: If they differ.
        """
        place = bisect.bisect_right(self._sums, (offset, self.size)) - 1
        if place < 0:
            return
        start, nbytes, crc, where = self._sums[place]
        if offset >= start + nbytes:
            return
        crc_of_bytes = 0
        for at in range(start, start + nbytes, SUM_CHUNK):
            count = min(SUM_CHUNK, start + nbytes - at)
            if nbytes > COPY_CHUNK and (at - start) % _AHEAD == 0:
                self._read_ahead(at + _AHEAD, min(_AHEAD, start + nbytes - at - _AHEAD))
            crc_of_bytes = zlib.crc32(self.view(at, count), crc_of_bytes)
            if nbytes > COPY_CHUNK:
                self.release(at, count)
        if crc_of_bytes != crc:
            raise ContainerError(
                f"the data have the CRC-32 {crc_of_bytes:08x} instead of {crc:08x}, so they are damaged",
                where=where,
                fix="get the file again",
                code="XD602",
            )
        self._sums[place] = start, 0, 0, where  # no length changes: other threads look ranges up meanwhile

    def _read_ahead(self, offset: int, nbytes: int) -> None:
        """Let the disk read a range while the processor works on an earlier one."""
        if isinstance(self._map, mmap.mmap) and nbytes > 0 and hasattr(mmap, "MADV_WILLNEED"):
            start = offset // mmap.PAGESIZE * mmap.PAGESIZE
            with suppress(OSError):  # advice alone
                self._map.madvise(mmap.MADV_WILLNEED, start, offset + nbytes - start)

    def release(self, offset: int, nbytes: int) -> None:
        """Let the kernel drop the pages of a range."""
        if isinstance(self._map, mmap.mmap) and nbytes and hasattr(self._map, "madvise"):
            start = offset // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, start, offset + nbytes - start)


class MemoryFile(MappedFile):
    """A file in memory, like a container inside a record.

    Args:
        name: What errors call it.
        content: Its bytes.
    """

    __slots__ = ()

    def __init__(self, name: str, content: memoryview) -> None:
        self.path = Path(name)
        self._sums = []
        self.file = None
        self.size = len(content)
        self._map = content


class MappedData(TensorData):
    """A range of a mapped file.

    Args:
        source: The file; the caller has checked that the range is inside.
        offset: First byte.
        shape: Shape of the array.
        dtype: Its type of QNN, or its numpy dtype, little-endian.

    Raises:
        ModelError: If the range is not inside the file.
    """

    __slots__ = ("_offset", "_source")
    has_rows = True

    def __init__(
        self, source: MappedFile, offset: int, shape: Sequence[int], dtype: np.dtype[Any] | DType | type
    ) -> None:
        self._source = source
        self._offset = offset
        self.shape = tuple(map(int, shape))
        if isinstance(dtype, DType):
            self._type = dtype
        else:
            import numpy

            self._type = numpy.dtype(dtype)
        if offset < 0 or offset + self.nbytes > source.size:
            raise ModelError(
                f"the file has {source.size} bytes, but the model needs {offset} to {offset + self.nbytes}",
                where=str(source.path),
                fix="get the file again: it is truncated or belongs to another model",
            )

    @property
    def location(self) -> tuple[MappedFile, int]:
        """The file and the first byte."""
        return self._source, self._offset

    def numpy(self) -> Array:
        import numpy

        self._source.check(self._offset)
        view = self._source.view(self._offset, self.nbytes)
        return numpy.frombuffer(view, self.dtype).reshape(self.shape)

    def tolist(self) -> Any:
        self._source.check(self._offset)
        return self.peek()

    def peek(self) -> Any:
        stored, view = self._type, self._source.view(self._offset, self.nbytes)
        if isinstance(stored, DType):
            return _nested(stored.numbers(view), self.shape)
        import numpy

        return numpy.frombuffer(view, stored).reshape(self.shape).tolist()

    def content(self) -> memoryview:
        self._source.check(self._offset)
        return self._source.view(self._offset, self.nbytes)

    def write_to(self, file: Target) -> None:
        self._source.check(self._offset)
        copy_range(self._source, self._offset, self.nbytes, file)

    def release(self) -> None:
        self._source.release(self._offset, self.nbytes)

    def release_rows(self, start: int, stop: int) -> None:
        row = self.nbytes // self.shape[0]
        self._source.release(self._offset + start * row, (stop - start) * row)

    def reshape(self, shape: Sequence[int]) -> TensorData:
        if tuple(shape) == self.shape:
            return self
        result = MappedData(self._source, self._offset, shape, self._type)
        if result.nbytes != self.nbytes:
            raise ValueError(f"cannot reshape {self.shape} to {tuple(shape)}")
        return result


class Transform(TensorData):
    """A pure function of other data or its rows, computed at each use.

    Attributes:
        bases: The data that the function is given.
        factors: What it multiplies the first by; see ``TensorData.transform``.
    """

    __slots__ = ("_function", "bases", "factors", "has_rows")

    def __init__(
        self,
        bases: Sequence[TensorData],
        function: Callable[..., Array],
        shape: Sequence[int],
        dtype: np.dtype[Any] | type,
        *,
        by_rows: bool = False,
        factors: float | TensorData | None = None,
    ) -> None:
        import numpy

        self.factors = factors
        self.bases = tuple(bases)
        self.has_rows = by_rows and all(base.has_rows for base in self.bases)
        self._function = function
        self.shape = tuple(map(int, shape))
        self._type = numpy.dtype(dtype)

    @property
    def nbytes_read(self) -> int:
        """Most bytes that any data holds which the elements are computed from."""
        return max(self.nbytes, *(base.nbytes_read for base in self.bases))

    def numpy(self) -> Array:
        import numpy

        if self.has_rows and self.shape and self.nbytes_read > max(ROWS_CHUNK, _WIDER * self.nbytes):
            return self._by_rows()
        bases = [base.numpy() for base in self.bases]
        with numpy.errstate(all="ignore"):  # infinities and NaN are values like others
            result = numpy.asarray(self._function(*bases))
        if tuple(result.shape) != self.shape:
            raise ValueError(
                f"the transform returned an array of shape {result.shape} instead of {self.shape}"
            )
        return result.astype(self.dtype, copy=False)

    def _by_rows(self) -> Array:
        """Return the elements, computed from some rows at a time."""
        import numpy

        result = numpy.empty(self.shape, self.dtype)
        step = max(1, ROWS_CHUNK * self.shape[0] // self.nbytes_read)
        for start in range(0, self.shape[0], step):
            stop = min(start + step, self.shape[0])
            result[start:stop] = self.rows(start, stop)
            self.release_rows(start, stop)
        return result

    def rows(self, start: int, stop: int) -> Array:
        import numpy

        parts = [base.rows(start, stop) for base in self.bases]
        with numpy.errstate(all="ignore"):
            return numpy.asarray(self._function(*parts)).astype(self.dtype, copy=False)

    def release(self) -> None:
        for base in self.bases:
            base.release()

    def release_rows(self, start: int, stop: int) -> None:
        for base in self.bases:
            base.release_rows(start, stop)


class RowRange(TensorData):
    """A range of the first axis of other data."""

    __slots__ = ("_start", "base", "has_rows")

    def __init__(self, base: TensorData, start: int, stop: int) -> None:
        self.base, self._start, self.has_rows = base, start, base.has_rows
        self.shape, self.dtype = (stop - start, *base.shape[1:]), base.dtype

    def numpy(self) -> Array:
        return self.base.rows(self._start, self._start + self.shape[0])

    def rows(self, start: int, stop: int) -> Array:
        return self.base.rows(self._start + start, self._start + stop)

    def release(self) -> None:
        self.base.release_rows(self._start, self._start + self.shape[0])

    def release_rows(self, start: int, stop: int) -> None:
        self.base.release_rows(self._start + start, self._start + stop)


class Reshaped(TensorData):
    """The bytes of other data with another shape."""

    __slots__ = ("base",)

    def __init__(self, base: TensorData, shape: tuple[int, ...]) -> None:
        self.base, self.shape, self.dtype = base, shape, base.dtype

    def numpy(self) -> Array:
        return self.base.numpy().reshape(self.shape)

    def reshape(self, shape: Sequence[int]) -> TensorData:
        return self.base.reshape(shape)

    def write_to(self, file: Target) -> None:
        self.base.write_to(file)

    def release(self) -> None:
        self.base.release()


class Elided(TensorData):
    """Data that a text form omits; any use of the values is an error."""

    __slots__ = ("digest",)

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any] | type, digest: str) -> None:
        import numpy

        self.shape = tuple(shape)
        self.dtype = numpy.dtype(dtype)
        self.digest = digest

    def __reduce__(self) -> tuple[Any, ...]:
        return Elided, (self.shape, self.dtype, self.digest)

    def numpy(self) -> Array:
        raise ModelError(
            f"the text form omits the values of the tensor (sha256 {self.digest})",
            fix="print the model with data='inline'",
        )


def _nested(numbers: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return numbers in row-major order as nested lists; none are an empty list."""
    if not numbers:
        return []
    if not shape:
        return numbers[0]
    step = math.prod(shape[1:])
    return [_nested(numbers[step * row : step * (row + 1)], shape[1:]) for row in range(shape[0])]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of a dtype, bfloat16 too, may be NaN."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16")


def has_nan(data: TensorData) -> bool:
    """Return whether an element is NaN; this reads all elements."""
    return is_float(data.dtype) and any_nan(data.numpy())


def numbers_data(numbers: Sequence[float], dtype: DType) -> TensorData:
    """Return numbers of a type, other than bfloat16, as one-dimensional data."""
    return MappedData(MemoryFile("numbers", memoryview(dtype.content(numbers))), 0, (len(numbers),), dtype)


def raw_data(data: bytes) -> TensorData:
    """Return bytes as a one-dimensional uint8 array."""
    return MappedData(MemoryFile("bytes", memoryview(data)), 0, (len(data),), UINT8)


def packed(data: TensorData) -> TensorData:
    """Return integers of up to four bits as two a byte, the even one in the low half."""
    import numpy

    def pack(array: Array) -> Array:
        halves = array.reshape(-1).astype(numpy.uint8) & 15
        if halves.size % 2:
            halves = numpy.append(halves, numpy.uint8(0))
        return halves[::2] | halves[1::2] << 4

    row = math.prod(data.shape[1:])
    if data.has_rows and data.shape and row and row % 2 == 0:
        shape = data.shape[0], row // 2
        by_rows = data.transform(
            lambda rows: pack(rows).reshape(-1, shape[1]), shape=shape, dtype=numpy.uint8, by_rows=True
        )
        return by_rows.reshape((math.prod(shape),))
    return data.transform(pack, shape=((math.prod(data.shape) + 1) // 2,), dtype=numpy.uint8)


def _write(array: Array, file: Target) -> None:
    import numpy

    whole: Array = numpy.ascontiguousarray(array)
    file.write(memoryview(whole.reshape(-1).view(numpy.uint8)))
