"""Weights of a source model: ranges of mapped files, and separate files."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.errors import ModelError, damaged

_SHOWN = 80  # characters of a path in a message


def mapped(
    source: ir.MappedFile, offset: int, length: int | None, shape: Sequence[int], dtype: Any, where: str
) -> ir.TensorData:
    """Return a range of a file as lazy data.

    Args:
        offset: First byte, of any alignment.
        length: Number of bytes that the model states; None if it states none.
        dtype: Its numpy dtype, little endian in the file.
        where: Place of the tensor, for errors.

    Raises:
        ModelError: If the range does not fit the shape or the file.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if length is not None and length != nbytes:
        raise damaged(f"the tensor has {length} bytes, but {dtype.name}{list(shape)} needs {nbytes}", where)
    if offset + nbytes > source.size:
        raise ModelError(
            f"needs bytes {offset} to {offset + nbytes} of {source.path.name}, which has {source.size}",
            where=where,
            fix="get the data file again: it is truncated or belongs to another model",
        )
    return ir.MappedData(source, offset, tuple(shape), dtype)


def beside(model: Path, location: str, where: str) -> Path:
    """Return the path of a data file, which must be in the model's folder.

    A model that is a symbolic link has two: the link's folder, where its data are looked for first, and that
    of its target.  Caches of downloads keep files so: links beside each other to blobs beside each other.

    Args:
        location: Path of the file as the model states it, relative to its folder.
        where: Place of the reference, for errors.

    Raises:
        ModelError: If it is not a path, leaves the folder, does not exist, or has hard links.
    """
    folders = (model.parent.resolve(), model.resolve().parent)
    try:
        # what the path states, and the file itself once links are followed
        found = [(folder, folder / location, (folder / location).resolve()) for folder in folders]
        inside = [
            file
            for folder, stated, file in found
            if Path(os.path.normpath(stated)).is_relative_to(folder)
            and any(file.is_relative_to(each) for each in folders)
        ]
        near = next((file for file in inside if file.is_file()), None)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise ModelError(
            f"the external data {location[:_SHOWN]!r} are not a valid path: {type(error).__name__}",
            where=where,
            fix="move the data file to the model's folder, and name it there",
        ) from error
    if not location or not inside:
        raise ModelError(
            f"the external data {location!r} are outside the model's folder",
            where=where,
            fix="keep the data file in the model's folder; xdlc does not read outside it",
        )
    if near is None:
        raise ModelError(
            f"the external data file {location!r} does not exist",
            where=where,
            fix=f"put {location!r} next to {model.name}",
            code="XD303",
        )
    if near.stat().st_nlink > 1:
        raise ModelError(
            f"the external data file {location!r} has further names (hard links), maybe outside its folder",
            where=where,
            fix=f"copy the file: cp {quote(location)} copy && mv copy {quote(location)}",
        )
    return near


class Window(io.RawIOBase):
    """A range of a file as a readable file.

    Args:
        view: Returns a number of bytes from a position on, at most.
        start: First byte of the range.
        size: Its number of bytes.
    """

    def __init__(self, view: Callable[[int, int], bytes | memoryview], start: int, size: int) -> None:
        self._view, self._start, self._size, self._at = view, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0, self._at, self._size)[whence]
        if at < 0:
            raise OSError(f"byte {at} is before the start of the file")
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        part = self._view(max(0, min(len(buffer), self._size - self._at)), self._start + self._at)
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)
