"""HDF5 files with weights: attributes, and datasets as lazy data.

The HDF5 library ends or never ends on some damaged files: a child process (``hdf5_worker``) describes a file,
whose elements are read from the file itself, or from a temporary one where they are compressed.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import threading
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.weights import mapped
from xdlc.errors import ModelError, UsageError
from xdlc.runtime.child import error_of, temporary_files
from xdlc.runtime.udo.worker_process import DiedError, Process

_SECONDS = 2.0
_BYTES_PER_SECOND = 2e7
_LATEST = 10
"""How much longer a file may take than its processor time."""
AGAIN = "the file is damaged: get it again, or save the model again"
_LOCK = threading.Lock()
_child: Process | None = None


def unreadable(what: str, error: BaseException | str, where: str) -> ModelError:
    """Return the error of a part of a file that a library cannot read."""
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return ModelError(f"{what} cannot be read: {reason}", where=where, fix=AGAIN)


def _described(source: int, target: int, where: str, start: int, size: int) -> dict[str, Any]:
    """Return what a range of an open file holds; elements that are compressed go to the other file."""
    global _child
    seconds = _SECONDS + size / _BYTES_PER_SECOND
    request = {"where": where, "start": start, "size": size, "seconds": seconds}
    with _LOCK:
        if _child is None or _child.owner != os.getpid() or not _child.is_alive:
            _child = Process("xdlc.converter.hdf5_worker")
        return _child.ask(request, [source, target], timeout=_LATEST * seconds)


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
        if importlib.util.find_spec("h5py") is None:
            problem = "HDF5 files need h5py, which is not installed"
            raise UsageError(problem, where=where, fix=f"pip install 'xdlc[{extra}]'")
        self.where, self.size = where, size
        self._source, self._start = source, start
        assert source.file is not None
        with temporary_files(), tempfile.NamedTemporaryFile(prefix="xdlc-", suffix=".h5") as target:
            try:
                found = _described(source.file.fileno(), target.fileno(), where, start, size)
            except DiedError as error:
                problem = f"the file cannot be read: the HDF5 library {error.how}"
                raise ModelError(problem, where=where, fix=AGAIN) from error
            self._unpacked = ir.MappedFile(target.name)
        self._groups, self._datasets, self._errors = found["groups"], found["datasets"], found["errors"]
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
        """Return an attribute of the file as text; None if it has none."""
        value = self._groups[""].get(name)
        return value if isinstance(value, str) else None

    def has(self, path: str) -> bool:
        """Return whether there is a group or dataset of a path."""
        path = self._check(path)
        return path in self._groups or path in self._datasets

    def names(self, path: str, attribute: str) -> list[str]:
        """Return an attribute of a group that lists names; one too long for HDF5 is in numbered parts.

        Raises:
            ModelError: If there is no such group or attribute.
        """
        held = self._groups.get(self._check(path))
        if held is None:
            raise ModelError(f"has no group {path!r}", where=self.where, fix=AGAIN)
        if attribute in held:
            parts = [held[attribute]]
        else:
            parts = [held[f"{attribute}{part}"] for part in range(len(held)) if f"{attribute}{part}" in held]
        return [name for part in parts for name in ([part] if isinstance(part, str) else part)]

    def label(self, path: str) -> str | None:
        """Return the attribute ``name`` of a group, in which Keras 3 records the name of a layer."""
        value = self._groups.get(self._check(path), {}).get("name")
        return value if isinstance(value, str) else None

    def data(self, path: str) -> ir.TensorData | None:
        """Return the elements of a dataset, lazy; None if there is none.

        Raises:
            ModelError: If it is damaged, or its elements are in another file.
            UnsupportedOp: If its type is none of numbers.
        """
        path = self._check(path)
        found = self._datasets.get(path)
        if found is None:
            return None
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16 if found["dtype"] == "bfloat16" else found["dtype"])
        source, start = (self._unpacked, 0) if found["unpacked"] else (self._source, self._start)
        where = f"{self.where}: {path}"
        return mapped(source, start + found["offset"], found["nbytes"], found["shape"], dtype, where)
