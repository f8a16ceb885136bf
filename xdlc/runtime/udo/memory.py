"""Memory that a session and its worker share, and its layout.

It has no name in any file system, and its size is fixed.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from collections.abc import Iterable
from functools import cache
from typing import Any

from xdlc.errors import StorageError
from xdlc.worker.temporary import temporary_files

Array = Any  # numpy.ndarray

ALIGNMENT = 64
_FAILED = ctypes.c_void_p(-1).value


def layout(sizes: Iterable[int]) -> tuple[list[int], int]:
    """Return the offset of each buffer in one memory, and the size of the memory.

    Args:
        sizes: Bytes of each buffer.

    Example:
        >>> layout([10, 4])
        ([0, 64], 128)
    """
    places, at = [], 0
    for size in sizes:
        places.append(at)
        at += size
        at += -at % ALIGNMENT
    return places, at


class Memory:
    """A piece of shared memory.

    Args:
        size: Bytes.
        file: Descriptor of the file that holds it, which is closed; default: a new one, which stays open
            until ``close``, to be handed over.
        writable: Whether this process may write it.

    Attributes:
        size: Bytes.
        file: The descriptor while it is open, else -1; none is kept for what is mapped.
        address: Where it begins.

    Raises:
        StorageError: If there is not so much memory.
    """

    def __init__(self, size: int, file: int | None = None, *, writable: bool = True) -> None:
        self.size, self.file = max(size, 1), -1
        self.file = _new_file(self.size) if file is None else file
        try:
            if os.fstat(self.file).st_size < self.size:
                raise StorageError(
                    f"shared memory has {os.fstat(self.file).st_size} bytes instead of {self.size}"
                )
            with temporary_files():
                self.address, self._map = _mapped(self.file, self.size, writable=writable)
        except BaseException:
            self.close()
            raise
        if file is not None:
            self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; mappings stay valid while they are referenced."""
        if self.file >= 0:
            os.close(self.file)
        self.file = -1

    def array(self, place: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return the elements at a place."""
        import numpy

        count = 1
        for dim in shape:
            count *= dim
        if count == 0:
            return numpy.zeros(shape, dtype)
        return numpy.frombuffer(self._map, dtype, count, place).reshape(shape)


@cache
def _system() -> ctypes.CDLL:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    system.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return system


def _mapped(file: int, size: int, *, writable: bool) -> tuple[int, memoryview]:
    """Map a file; return the address and the bytes, which keep the mapping alive.

    Python's own ``mmap`` would keep a descriptor for each map.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = _system().mmap(None, size, protection, mmap.MAP_SHARED, file, 0)
    if address is None or address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    held = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(held, _system().munmap, address, size).atexit = False
    found = memoryview(held).cast("B")
    return address, found if writable else found.toreadonly()


def _new_file(size: int) -> int:
    most = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    if size > most:
        raise StorageError(
            f"a kernel needs {size} bytes of shared memory, but this machine has {most}",
            fix="make the tensors of UDOs smaller",
        )
    with temporary_files():
        file = _unnamed()
        try:
            os.ftruncate(file, size)
            if not hasattr(os, "memfd_create"):  # else the disk may fill up when it is written
                os.posix_fallocate(file, 0, size)
            else:
                fcntl.fcntl(
                    file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
                )
        except BaseException:
            os.close(file)
            raise
    return file


def _unnamed() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("xdlc-udo", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
