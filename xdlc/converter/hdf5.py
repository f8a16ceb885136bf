"""HDF5 files with weights, read with h5py: attributes, and datasets as lazy data.

Links to other files are not followed, and neither are datasets whose elements are elsewhere.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from xdlc import ir
from xdlc.converter.weights import mapped
from xdlc.errors import ModelError, UnsupportedOp, UsageError

_T = TypeVar("_T")
_UNSTORED = 1 << 26
"""Most bytes of a dataset whose elements are not in the file, or packed more tightly than by ``_RATIO``."""
_RATIO = 64
_DEPTH = 64
"""Most components of a path."""
_FILTERS = {1, 2, 3, 4, 32000}
"""Deflate, shuffle, checksum, szip and LZF: filters that h5py has (HDF5's registry of filters)."""
_AGAIN = "the file is damaged: get it again, or save the model again"


def unreadable(what: str, error: BaseException, where: str) -> ModelError:
    """Return the error of a part of a file that a library cannot read."""
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ModelError(f"{what} cannot be read: {reason}", where=where, fix=_AGAIN)


class Hdf5:
    """An HDF5 file, or one inside another file.

    Args:
        source: The file that holds it.
        start: Its first byte there.
        size: Its number of bytes.
        where: Its place, for errors.
        extra: Extra of the package that installs h5py.

    Attributes:
        where: Its place, for errors.
        size: Its number of bytes.

    Raises:
        ModelError: If it is damaged.
        UsageError: If h5py is not installed.
    """

    def __init__(self, source: ir.MappedFile, start: int, size: int, where: str, extra: str) -> None:
        try:
            import h5py
        except ImportError as error:
            raise UsageError(
                "HDF5 files need h5py, which is not installed",
                where=where,
                fix=f"pip install 'xdlc[{extra}]'",
            ) from error
        self.where = where
        self._source = source
        self._start = start
        self.size = size
        self._h5py = h5py
        window = io.BufferedReader(_Window(source, start, size), 1 << 16)
        self._file = self._guarded("the file", lambda: h5py.File(window, "r"))

    def _guarded(self, what: str, action: Callable[[], _T]) -> _T:
        """Return what a function of h5py returns.

        Raises:
            ModelError: If the file is damaged there.
        """
        try:
            return action()
        except (
            OSError,
            RuntimeError,
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            MemoryError,
        ) as error:
            raise unreadable(what, error, self.where) from error

    def text(self, name: str) -> str | None:
        """Return an attribute of the file as text; None if it has none."""
        value = self._guarded(f"attribute {name}", lambda: self._file.attrs.get(name))
        if isinstance(value, bytes | np.bytes_):
            return self._guarded(f"attribute {name}", lambda: bytes(value).decode())
        return str(value) if isinstance(value, str) else None

    def has(self, path: str) -> bool:
        """Return whether there is a group or dataset of a path."""
        return self._find(path) is not None

    def names(self, path: str, attribute: str) -> list[str]:
        """Return an attribute of a group that lists names; one too long for HDF5 is in numbered parts.

        Raises:
            ModelError: If there is no such group or attribute.
        """
        group = self._find(path)
        if group is None:
            raise ModelError(f"has no group {path!r}", where=self.where, fix=_AGAIN)

        def read() -> list[str]:
            held = group.attrs
            if attribute in held:
                parts = [held[attribute]]
            else:
                parts = [
                    held[f"{attribute}{part}"] for part in range(len(held)) if f"{attribute}{part}" in held
                ]
            return [
                name.decode() if isinstance(name, bytes) else str(name)
                for part in parts
                for name in np.asarray(part).reshape(-1)
            ]

        return self._guarded(f"attribute {attribute} of {path!r}", read)

    def label(self, path: str) -> str | None:
        """Return the attribute ``name`` of a group, in which Keras 3 records the name of a layer."""
        group = self._find(path)
        value = None if group is None else self._guarded(f"{path!r}", lambda: group.attrs.get("name"))
        return value if isinstance(value, str) else None

    def data(self, path: str) -> ir.TensorData | None:
        """Return the elements of a dataset, lazy; None if there is none.

        Raises:
            ModelError: If it is damaged, or its elements are in another file.
            UnsupportedOp: If its type is none of numbers.
        """
        found = self._find(path)
        if found is None or not isinstance(found, self._h5py.Dataset):
            return None
        return self._guarded(f"dataset {path!r}", lambda: self._data(found, path))

    def _data(self, dataset: Any, path: str) -> ir.TensorData:
        where = f"{self.where}: {path}"
        shape, dtype = dataset.shape, dataset.dtype
        if dtype.kind == "V" and dtype.itemsize == 2 and not dtype.names:  # as h5py stores ml_dtypes' type
            import ml_dtypes

            dtype = np.dtype(ml_dtypes.bfloat16)
        elif dtype.kind not in "fiub" or shape is None:
            raise UnsupportedOp(f"its elements are {dtype}, not numbers", where=where, fix=_AGAIN)
        properties = dataset.id.get_create_plist()
        if properties.get_external_count() or dataset.is_virtual:
            raise ModelError(
                "its elements are in another file", where=where, fix="save the model again, as one file"
            )
        filters = {properties.get_filter(index)[0] for index in range(properties.get_nfilters())}
        if not filters <= _FILTERS:
            raise UnsupportedOp(
                f"is compressed with filter {min(filters - _FILTERS)}",
                where=where,
                fix="save the model again",
            )
        nbytes = math.prod(shape) * dtype.itemsize
        offset = dataset.id.get_offset() if dataset.chunks is None else None
        if offset is not None and self._file.userblock_size == 0 and dtype.byteorder != ">" and nbytes:
            if offset + nbytes > self.size:
                raise ModelError("is truncated", where=where, fix=_AGAIN)
            return mapped(self._source, self._start + offset, nbytes, shape, dtype, where)
        if nbytes > max(_UNSTORED, _RATIO * dataset.id.get_storage_size()):
            raise ModelError(
                f"states {list(shape)} elements and stores {dataset.id.get_storage_size()} bytes",
                where=where,
                fix=_AGAIN,
            )
        return _Read(partial(self._elements, dataset, dtype, path), shape, dtype)

    def _elements(self, dataset: Any, dtype: Any, path: str) -> ir.data.Array:
        array = self._guarded(f"dataset {path!r}", lambda: dataset[()])
        return np.asarray(array).view(dtype) if dtype.itemsize == 2 and dtype.kind == "V" else array

    def _find(self, path: str) -> Any:
        """Return the group or dataset of a path, by links inside the file alone; None if there is none.

        Raises:
            ModelError: If a link leads elsewhere.
        """
        parts = [part for part in path.split("/") if part]
        if len(parts) > _DEPTH:
            raise ModelError(f"path {path[:80]!r} has {len(parts)} components", where=self.where, fix=_AGAIN)
        found: Any = self._file
        for part in parts:
            if not isinstance(found, self._h5py.Group):
                return None
            link = self._guarded(f"{path!r}", partial(found.get, part, getlink=True))
            if link is None:
                return None
            if not isinstance(link, self._h5py.HardLink):
                raise ModelError(
                    f"{path!r} is a link to another place", where=self.where, fix="save the model again"
                )
            found = self._guarded(f"{path!r}", partial(found.__getitem__, part))
        return found


class _Read(ir.TensorData):
    """Elements that a function reads, on each use."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], ir.data.Array], shape: tuple[int, ...], dtype: Any) -> None:
        self._read = read
        self.shape = tuple(int(size) for size in shape)
        self.dtype = dtype.newbyteorder("<") if dtype.byteorder == ">" else dtype

    def numpy(self) -> ir.data.Array:
        return np.ascontiguousarray(self._read(), self.dtype).reshape(self.shape)


class _Window(io.RawIOBase):
    """A range of a file as a file of its own, for reading."""

    def __init__(self, source: ir.MappedFile, start: int, size: int) -> None:
        self._source = source
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._size - self._at))
        buffer[:count] = self._source.view(self._start + self._at, count)
        self._at += count
        return count
