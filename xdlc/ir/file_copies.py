"""Copies of ranges between files, with their CRC-32 and NaN."""

from __future__ import annotations

import functools
import mmap
import os
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import numpy as np

    from xdlc.ir.data import MappedFile

COPY_CHUNK = 1 << 26
BUFFER = 1 << 18  # fits into the cache of a core
WRITEBACK = 1 << 24  # bytes after which the disk begins to write
SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


class SummedFile:
    """A file for appending that knows its CRC-32, and whether floats of it are NaN.

    Attributes:
        crc: The sum.
        floats: Type of the floats that are appended now, None for other data.
        has_nan: Whether one of them is NaN; callers reset it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.crc = 0
        self.floats: np.dtype[Any] | None = None
        self.has_nan = False

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        self.add(content)
        self.file.write(content)

    def add(self, content: bytes | bytearray | memoryview) -> None:
        """Update the checksum with appended bytes."""
        self.crc = zlib.crc32(content, self.crc)
        if self.floats is not None and not self.has_nan:
            import numpy

            count = len(content) // self.floats.itemsize
            self.has_nan = any_nan(numpy.frombuffer(content, self.floats, count))


Target = IO[bytes] | SummedFile
"""A file that data is appended to."""


def any_nan(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array has NaN; 16-bit floats are compared as integers."""
    import numpy

    if array.dtype.itemsize == 2:
        infinity = int(numpy.array(numpy.inf, array.dtype).view(numpy.uint16))
        largest = (array.view(numpy.int16).max(initial=0), array.view(numpy.uint16).max(initial=0))
        return bool(largest[0] > infinity or largest[1] > 0x8000 + infinity)
    return bool(numpy.isnan(numpy.maximum.reduce(array, axis=None, initial=-numpy.inf)))


def copy_range(source: MappedFile, offset: int, nbytes: int, file: Target) -> None:
    """Append a range of ``source`` to ``file`` without holding it in memory.

    Between two files the kernel copies if both ranges have the same alignment to pages; otherwise it would
    touch every page twice, and a small buffer that stays in the cache is a quarter faster; what is summed
    goes through it too.  Any other target is written in chunks of the mapped bytes.
    """
    end = offset + nbytes
    origin, summed = source.file, None
    if isinstance(file, SummedFile):
        summed, file = file, file.file
    try:
        target = file.fileno()
        file.flush()
        position = file.tell()
    except (OSError, AttributeError):
        origin = None
    if origin is None:
        _write_chunks(source, offset, end, summed or file)
        return
    alike = (offset - position) % mmap.PAGESIZE == 0 and summed is None
    buffer = memoryview(bytearray(0 if alike else BUFFER))
    pending = position
    while offset < end:
        try:
            if alike:
                copied = os.copy_file_range(
                    origin.fileno(), target, min(COPY_CHUNK, end - offset), offset, position
                )
            else:
                read = os.preadv(origin.fileno(), [buffer[: end - offset]], offset)
                copied = os.pwrite(target, buffer[:read], position)
                if summed is not None:
                    summed.add(buffer[:copied])
        except OSError as error:
            if error.errno in _NO_KERNEL_COPY:
                break
            raise
        if not copied:
            break
        offset += copied
        position += copied
        if position - pending >= WRITEBACK:
            _start_writeback(target, pending, position - pending)
            pending = position
    file.seek(position)
    _write_chunks(source, offset, end, summed or file)


def _write_chunks(source: MappedFile, offset: int, end: int, file: Target) -> None:
    while offset < end:
        step = min(COPY_CHUNK, end - offset)
        file.write(source.view(offset, step))
        source.release(offset, step)
        offset += step


def _start_writeback(descriptor: int, offset: int, nbytes: int) -> None:
    """Start writing copied bytes to disk, so that the final flush is shorter."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, nbytes, SYNC_FILE_RANGE_WRITE)


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's ``sync_file_range``, which Python's os module lacks, or None."""
    import ctypes

    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is None:
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return cast(Callable[[int, int, int, int], int], found)


def _no_kernel_copy() -> frozenset[int]:
    import errno

    return frozenset((errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF))


_NO_KERNEL_COPY = _no_kernel_copy()
