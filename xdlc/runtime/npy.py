"""Reader of .npy files from untrusted sources.

The form is that of NumPy's enhancement proposal 1: eight bytes of magic and version, the length of the
header, and a literal of Python, which is not evaluated here: it has the keys descr, fortran_order and shape.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import IO, Any, NamedTuple

from xdlc.errors import StorageError
from xdlc.ir.files import open_file

Array = Any  # numpy.ndarray of any dtype
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16
_MOST_RANK = 32
_FIX = "check the path; write the file with numpy.save or numpy.savez"
_VALUE = r"""['"]([<>|=]?[a-zA-Z?]\d{0,4})['"]|(True|False)|\(([\d\s,]{0,1000})\)"""
_FIELD = re.compile(rf"""\s*['"](descr|fortran_order|shape)['"]\s*:\s*(?:{_VALUE})\s*(?:,|(?=\}}))""")


class Header(NamedTuple):
    """Shape, order and numpy dtype of an array."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: Any


def read_header(file: IO[bytes], where: str) -> Header:
    """Read the header of an array from a file, and leave the file at the first value.

    Args:
        file: At its start.
        where: The file, and the array in it, for errors.

    Raises:
        StorageError: If there is no header, or one of another form.
        OSError: What reading the file raises.
    """
    import numpy as np

    start = file.read(8)
    width = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}.get(start[6:])
    if start[:6] != _MAGIC or width is None:
        raise unreadable(where, "it does not begin like an .npy file of version 1 to 3")
    length = int.from_bytes(file.read(width), "little")
    if length > _MOST_HEADER:
        raise unreadable(where, f"its header has {length} bytes")
    found = _fields(file.read(length).decode("latin-1"))
    if found is None:
        raise unreadable(where, "its header is not that of an array of numbers")
    descr, order, dims = found
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise unreadable(where, f"there is no data type {descr!r}") from None
    shape = tuple(int(dim[:20]) for dim in dims.replace(",", " ").split())
    if len(shape) > _MOST_RANK or max(*shape, 1, math.prod(shape) * dtype.itemsize) >= 1 << 62:
        raise unreadable(where, f"it has {len(shape)} dimensions, or too many elements")
    return Header(shape, order == "True", dtype)


def _fields(text: str) -> tuple[str, str, str] | None:
    """Return the texts of dtype, order and shape; None if the header has another form."""
    text = text.strip(" \n")
    fields: dict[str, str] = {}
    place = 1
    while match := _FIELD.match(text, place):
        fields[match[1]] = next(value for value in match.groups()[1:] if value is not None)
        place = match.end()
    if text[:1] != "{" or text[place:].strip() != "}" or len(fields) != 3:
        return None
    return fields["descr"], fields["fortran_order"], fields["shape"]


def load(path: Path) -> Array:
    """Return the array in an .npy file; its values are read when they are used.

    Raises:
        StorageError: If the file cannot be read, or is shorter than its header has it.
    """
    import numpy as np

    where = os.fspath(path)
    try:
        with open_file(path) as file:
            shape, is_fortran, dtype = read_header(file, where)
            if dtype.hasobject or not dtype.itemsize:
                raise unreadable(where, f"its values have type {dtype}, which is no number")
            nbytes, start = math.prod(shape) * dtype.itemsize, file.tell()
            if os.fstat(file.fileno()).st_size - start < nbytes:
                raise unreadable(where, f"it ends before the {nbytes} bytes of its values")
            if not nbytes:  # which mmap refuses
                return np.empty(shape, dtype)
            return np.memmap(file, dtype, "r", start, shape, "F" if is_fortran else "C")
    except (OSError, ValueError) as error:
        raise unreadable(where, getattr(error, "strerror", None) or str(error)) from error


def unreadable(where: str, reason: str) -> StorageError:
    """Return the error of an array that cannot be read."""
    return StorageError(f"cannot be read as an array: {reason}", where=where, fix=_FIX)
