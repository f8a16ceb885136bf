"""Worker: the child process that reads HDF5 files with h5py.

Started by ``hdf5``.  It follows no link to another file, and reads no dataset whose elements are there.
"""

from __future__ import annotations

import io
import math
import os
import resource
import signal
import socket
import sys
from typing import Any, BinaryIO

import h5py
import numpy as np

from xdlc.converter.hdf5 import AGAIN, unreadable
from xdlc.errors import ModelError, UnsupportedOp, XdlcError
from xdlc.runtime.child import words_of
from xdlc.runtime.udo import wire

_UNSTORED = 1 << 26
"""Most bytes of a dataset whose elements are not in the file, or packed more tightly than by ``_RATIO``."""
_RATIO = 64
_DEPTH = 64
"""Most components of a path."""
_OBJECTS = 1 << 16
"""Most groups and datasets."""
_PIECE = 1 << 24
_MEMORY = 1 << 29
_LETTERS = 1 << 25
"""Most characters of all attributes."""
_FILTERS = {1, 2, 3, 4, 32000}
"""Deflate, shuffle, checksum, szip and LZF: filters that h5py has (HDF5's registry of filters)."""


def main(line: socket.socket) -> None:
    """Serve requests until the parent closes the line."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY if most < 0 else min(_MEMORY, most), most))
    while True:
        try:
            request, (source, target) = wire.receive(line)
        except (wire.ClosedError, ValueError):
            os._exit(0)
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        with open(target, "wb") as unpacked:
            window: Any = io.BufferedReader(_Window(source, request["start"], request["size"]), 1 << 16)
            answer = _Content(request["where"], request["size"], unpacked).read(window)
        os.close(source)
        signal.setitimer(signal.ITIMER_PROF, 0)
        wire.send(line, answer)


class _Content:
    """What a file holds.

    Attributes:
        groups: Attributes that are texts or lists of texts, by path of the group.
        datasets: Shape, type and place of each dataset by path; the place is in the file, or in the unpacked.
        errors: Words of the error of a path, of which nothing is known then.
    """

    def __init__(self, where: str, size: int, unpacked: BinaryIO) -> None:
        self.groups: dict[str, dict[str, str | list[str]]] = {}
        self.datasets: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, dict[str, Any]] = {}
        self._where, self._size, self._unpacked = where, size, unpacked
        self._letters, self._bytes = _LETTERS, max(_UNSTORED, _RATIO * size)
        self._has_block, self._seen = False, set[int]()

    def read(self, window: Any) -> dict[str, Any]:
        """Return the content of a file as what JSON can hold."""
        left: list[tuple[str, Any]] = [("", window)]
        while left:
            path, held = left.pop()
            try:
                left += self._object(path, held) if path else self._top(held)
            except XdlcError as error:
                self.errors[path] = words_of(error)
            except Exception as error:  # those of h5py have no common base
                self.errors[path] = words_of(
                    unreadable(repr(path) if path else "the file", error, self._where)
                )
            if len(self.groups) + len(self.datasets) + len(self.errors) > _OBJECTS:
                self.errors[""] = words_of(unreadable("the file", "it has too many objects", self._where))
                break
        return {"groups": self.groups, "datasets": self.datasets, "errors": self.errors}

    def _top(self, window: Any) -> list[tuple[str, Any]]:
        file = h5py.File(window, "r")
        self._has_block = file.userblock_size > 0
        return self._object("", file)

    def _object(self, path: str, held: Any) -> list[tuple[str, Any]]:
        """Take over a group or dataset; return what a group holds."""
        if path.count("/") > _DEPTH:
            return []
        if isinstance(held, tuple):
            group, name = held
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                problem = f"{path!r} is a link to another place"
                raise ModelError(problem, where=self._where, fix="save the model again")
            held = group[name]
        if isinstance(held, h5py.Dataset):
            self.datasets[path] = self._dataset(held, f"{self._where}: {path}")
        if not isinstance(held, h5py.Group):
            return []
        address = h5py.h5o.get_info(held.id).addr
        if address in self._seen:
            return []
        self._seen.add(address)
        self.groups[path] = dict(filter(None, (self._attribute(held, key) for key in held.attrs)))
        return [(f"{path}/{name}" if path else name, (held, name)) for name in held]

    def _attribute(self, group: Any, key: str) -> tuple[str, str | list[str]] | None:
        value = group.attrs[key]
        is_many = isinstance(value, np.ndarray)
        texts = [
            each.decode() if isinstance(each, bytes) else each
            for each in (value.reshape(-1).tolist() if is_many else [value])
        ]
        if not all(isinstance(each, str) for each in texts):
            return None
        self._letters -= sum(map(len, (key, *texts)))
        if self._letters < 0:
            raise ValueError("its attributes are too long")
        return key, texts if is_many else str(texts[0])

    def _dataset(self, dataset: Any, where: str) -> dict[str, Any]:
        """Return shape, type and place of a dataset, unpacked if its elements are not stored as they are."""
        shape, dtype = dataset.shape, dataset.dtype
        name = "" if dtype.kind not in "fiub" else dtype.newbyteorder("<").str
        if dtype.kind == "V" and dtype.itemsize == 2 and not dtype.names:  # as h5py stores ml_dtypes' type
            name = "bfloat16"
        if not name or shape is None:
            raise UnsupportedOp(f"its elements are {dtype}, not numbers", where=where, fix=AGAIN)
        properties = dataset.id.get_create_plist()
        if properties.get_external_count() or dataset.is_virtual:
            problem = "its elements are in another file"
            raise ModelError(problem, where=where, fix="save the model again, as one file")
        filters = {properties.get_filter(index)[0] for index in range(properties.get_nfilters())}
        if not filters <= _FILTERS:
            problem = f"is compressed with filter {min(filters - _FILTERS)}"
            raise UnsupportedOp(problem, where=where, fix="save the model again")
        nbytes = math.prod(shape) * dtype.itemsize
        offset = dataset.id.get_offset() if dataset.chunks is None else None
        found = {"shape": list(shape), "dtype": name, "nbytes": nbytes}
        if offset is not None and not self._has_block and dtype.byteorder != ">" and nbytes:
            if offset + nbytes > self._size:
                raise ModelError("is truncated", where=where, fix=AGAIN)
            return {**found, "offset": offset, "unpacked": False}
        self._bytes -= nbytes
        if nbytes > max(_UNSTORED, _RATIO * dataset.id.get_storage_size()) or self._bytes < 0:
            problem = f"states {list(shape)} elements and stores {dataset.id.get_storage_size()} bytes"
            raise ModelError(problem, where=where, fix=AGAIN)
        found |= {"offset": self._unpacked.tell(), "unpacked": True}
        rows = max(1, _PIECE // max(1, nbytes // max(1, shape[0]))) if shape else 0
        for start in range(0, shape[0] if shape else 1, rows or 1):
            part = np.asarray(dataset[start : start + rows] if shape else dataset[()])
            part = part if name == "bfloat16" else part.astype(name, copy=False)
            self._unpacked.write(np.ascontiguousarray(part).tobytes())
        return found


class _Window(io.RawIOBase):
    """A range of a file as a file of its own, for reading."""

    def __init__(self, file: int, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = os.pread(self._file, max(0, min(len(buffer), self._size - self._at)), self._start + self._at)
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
