"""HDF5 files with weights: attributes, and datasets as lazy data.

The HDF5 library ends or never ends on some damaged files: a child process describes a file, whose
elements are read from the file itself, or from a temporary one where they are compressed.  The module is the
service of that process, too: ``commands`` has what it does.  It follows no link to another file, and reads no
dataset whose elements are there.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import tempfile
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from xdlc import ir
from xdlc.converter.weights import Window, mapped
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError
from xdlc.worker.content import error_of, words_of
from xdlc.worker.process import ChildDiedError, SharedWorker
from xdlc.worker.temporary import temporary_files

_SECONDS = 2.0
_BYTES_PER_SECOND = 2e7
_LATEST = 10
"""How much longer a file may take than its processor time."""
AGAIN = "get the file or save the model again: the file is damaged"
_MEMORY = 1 << 29
"""Bytes of memory that it may use."""
_WORKER = SharedWorker("xdlc.converter.hdf5")
_UNSTORED = 1 << 26
"""Most bytes of a dataset whose elements are not stored, or packed more than ``_RATIO``."""
_RATIO = 64
_DEPTH = 64
"""Most components of a path."""
_OBJECTS = 1 << 16
"""Most groups and datasets."""
_PIECE = 1 << 24
_LETTERS = 1 << 25
"""Most characters of all attributes."""
_FILTERS = {1, 2, 3, 4, 32000}
"""Deflate, shuffle, checksum, szip and LZF: filters that h5py has (HDF5's registry of filters)."""


def unreadable(what: str, error: BaseException | str, where: str) -> ModelError:
    """Return the error for a part of a file that a library cannot read."""
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ModelError(f"{what} cannot be read: {reason}", where=where, fix=AGAIN)


def _described(source: int, target: int, where: str, start: int, size: int) -> dict[str, Any]:
    """Return the content of a range of a file; compressed elements are unpacked."""
    seconds = _SECONDS + size / _BYTES_PER_SECOND
    request = {"do": "describe", "where": where, "start": start, "size": size}
    limits = {"seconds": seconds, "memory": _MEMORY}
    return _WORKER.ask({**request, **limits}, [source, target], timeout=_LATEST * seconds)


class Hdf5:
    """An HDF5 file, maybe inside another file.

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
        if importlib.util.find_spec("h5py") is None:
            problem = "HDF5 files need h5py, which is not installed"
            raise UsageError(problem, where=where, fix=f"pip install 'xdlc[{extra}]'")
        self.where, self.size = where, size
        self._source, self._start = source, start
        assert source.file is not None
        with temporary_files(), tempfile.NamedTemporaryFile(prefix="xdlc-", suffix=".h5") as target:
            try:
                description = _described(source.file.fileno(), target.fileno(), where, start, size)
            except ChildDiedError as error:
                problem = f"the file cannot be read: the HDF5 library {error.how}{error.tail}"
                raise ModelError(problem, where=where, fix=AGAIN) from error
            self._unpacked = ir.MappedFile(target.name)
        self._groups, self._datasets = description["groups"], description["datasets"]
        self._errors = description["errors"]
        self._check("")

    def _check(self, path: str) -> str:
        """Return a path without slashes at its ends.

        Raises:
            XdlcError: If it, or a group around it, cannot be read.
        """
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts) + 1) if self._errors else ():
            if words := self._errors.get("/".join(parts[:count])):
                raise error_of(words)
        return "/".join(parts)

    def text(self, name: str) -> str | None:
        """Return an attribute of the file as text; None if it is missing."""
        value = self._groups[""].get(name)
        return value if isinstance(value, str) else None

    def has(self, path: str) -> bool:
        """Return whether a path is a group or a dataset."""
        path = self._check(path)
        return path in self._groups or path in self._datasets

    def names(self, path: str, attribute: str) -> list[str]:
        """Return an attribute of a group that lists names, joined from its parts.

        Raises:
            ModelError: If there is no such group or attribute.
        """
        attributes = self._groups.get(self._check(path))
        if attributes is None:
            raise ModelError(f"the file has no group {path!r}", where=self.where, fix=AGAIN)
        if attribute in attributes:
            parts = [attributes[attribute]]
        else:
            keys = (f"{attribute}{part}" for part in range(len(attributes)))
            parts = [attributes[key] for key in keys if key in attributes]
        return [name for part in parts for name in ([part] if isinstance(part, str) else part)]

    def label(self, path: str) -> str | None:
        """Return the ``name`` of a group, which Keras 3 records for a layer."""
        value = self._groups.get(self._check(path), {}).get("name")
        return value if isinstance(value, str) else None

    def data(self, path: str) -> ir.TensorData | None:
        """Return the elements of a dataset, lazy; None without a dataset.

        Raises:
            ModelError: If it is damaged, or its elements are in another file.
            UnsupportedOp: If its elements are not numbers.
        """
        path = self._check(path)
        dataset = self._datasets.get(path)
        if dataset is None:
            return None
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16 if dataset["dtype"] == "bfloat16" else dataset["dtype"])
        source, start = (self._unpacked, 0) if dataset["unpacked"] else (self._source, self._start)
        where = f"{self.where}: {path}"
        return mapped(source, start + dataset["offset"], dataset["nbytes"], dataset["shape"], dtype, where)


def commands() -> dict[str, Any]:
    """Return the functions of the process by request."""
    return {"describe": _describe}


def _describe(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    source, target = files
    try:
        with open(target, "wb") as unpacked:
            window: Any = io.BufferedReader(
                Window(partial(os.pread, source), request["start"], request["size"]), 1 << 16
            )
            return _Content(request["where"], request["size"], unpacked).read(window)
    finally:
        os.close(source)


class _Content:
    """Content of an HDF5 file.

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
        """Return the content of a file as JSON values."""
        left: list[tuple[str, Any]] = [("", window)]
        while left:
            path, item = left.pop()
            try:
                left += self._object(path, item) if path else self._top(item)
            except XdlcError as error:
                self.errors[path] = words_of(error)
            except Exception as error:  # those of h5py have no common base
                self.errors[path] = words_of(
                    unreadable(repr(path) if path else "the file", error, self._where)
                )
            if len(self.groups) + len(self.datasets) + len(self.errors) > _OBJECTS:
                self.errors[""] = words_of(
                    unreadable("the file", "the file has too many objects", self._where)
                )
                break
        return {"groups": self.groups, "datasets": self.datasets, "errors": self.errors}

    def _top(self, window: Any) -> list[tuple[str, Any]]:
        import h5py

        file = h5py.File(window, "r")
        self._has_block = file.userblock_size > 0
        return self._object("", file)

    def _object(self, path: str, item: Any) -> list[tuple[str, Any]]:
        """Record a group or dataset; return the members of a group."""
        import h5py

        if path.count("/") > _DEPTH:
            return []
        if isinstance(item, tuple):
            group, name = item
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                problem = f"{path!r} is a link to another place"
                raise ModelError(problem, where=self._where, fix="save the model again")
            item = group[name]
        if isinstance(item, h5py.Dataset):
            self.datasets[path] = self._dataset(item, f"{self._where}: {path}")
        if not isinstance(item, h5py.Group):
            return []
        address = h5py.h5o.get_info(item.id).addr
        if address in self._seen:
            return []
        self._seen.add(address)
        self.groups[path] = dict(filter(None, (self._attribute(item, key) for key in item.attrs)))
        return [(f"{path}/{name}" if path else name, (item, name)) for name in item]

    def _attribute(self, group: Any, key: str) -> tuple[str, str | list[str]] | None:
        value = group.attrs[key]
        is_many = isinstance(value, np.ndarray)
        texts = [
            text.decode() if isinstance(text, bytes) else text
            for text in (value.reshape(-1).tolist() if is_many else [value])
        ]
        if not all(isinstance(text, str) for text in texts):
            return None
        self._letters -= sum(map(len, (key, *texts)))
        if self._letters < 0:
            raise ValueError("the attributes are too long")
        return key, texts if is_many else str(texts[0])

    def _dataset(self, dataset: Any, where: str) -> dict[str, Any]:
        """Return shape, type and position of a dataset, unpacked if it is compressed."""
        shape, dtype = dataset.shape, dataset.dtype
        name = "" if dtype.kind not in "fiub" else dtype.newbyteorder("<").str
        if dtype.kind == "V" and dtype.itemsize == 2 and not dtype.names:  # as h5py stores ml_dtypes' type
            name = "bfloat16"
        if not name or shape is None:
            raise UnsupportedOp(f"the elements are {dtype}, not numbers", where=where, fix=AGAIN)
        properties = dataset.id.get_create_plist()
        if properties.get_external_count() or dataset.is_virtual:
            problem = "the elements are in another file"
            raise ModelError(problem, where=where, fix="save the model again as one file")
        filters = {properties.get_filter(index)[0] for index in range(properties.get_nfilters())}
        if not filters <= _FILTERS:
            problem = f"the data are compressed with the unsupported filter {min(filters - _FILTERS)}"
            raise UnsupportedOp(problem, where=where, fix="save the model again")
        nbytes = math.prod(shape) * dtype.itemsize
        offset = dataset.id.get_offset() if dataset.chunks is None else None
        description = {"shape": list(shape), "dtype": name, "nbytes": nbytes}
        if offset is not None and not self._has_block and dtype.byteorder != ">" and nbytes:
            if offset + nbytes > self._size:
                raise ModelError("the data are truncated", where=where, fix=AGAIN)
            return {**description, "offset": offset, "unpacked": False}
        self._bytes -= nbytes
        if nbytes > max(_UNSTORED, _RATIO * dataset.id.get_storage_size()) or self._bytes < 0:
            problem = f"the data have shape {list(shape)}, but {dataset.id.get_storage_size()} bytes"
            raise ModelError(problem, where=where, fix=AGAIN)
        description |= {"offset": self._unpacked.tell(), "unpacked": True}
        rows = max(1, _PIECE // max(1, nbytes // max(1, shape[0]))) if shape else 0
        for start in range(0, shape[0] if shape else 1, rows or 1):
            part = np.asarray(dataset[start : start + rows] if shape else dataset[()])
            part = part if name == "bfloat16" else part.astype(name, copy=False)
            self._unpacked.write(np.ascontiguousarray(part).tobytes())
        return description
