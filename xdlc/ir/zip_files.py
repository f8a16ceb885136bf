"""Zip archives of untrusted input, read by Python's zipfile within bounds."""

from __future__ import annotations

import struct
import zipfile
from io import RawIOBase
from typing import IO

MOST_ENTRIES = 1 << 16
_MOST_DIRECTORY = 1 << 23
_MOST_EXTRA = 1 << 10
"""Bytes of the extra fields of an entry, for which zipfile takes time in proportion to their square."""
_RECORD = 46
"""Bytes of a directory record before the name (APPNOTE.TXT 4.3.12)."""


class _Bounded:
    """A file whose zip directories are checked while zipfile opens it."""

    def __init__(self, file: IO[bytes] | RawIOBase) -> None:
        self._file = file
        self.is_opening = True
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self.close = file.close

    def read(self, size: int = -1) -> bytes:
        if not self.is_opening:
            return self._file.read(size)
        if size > _MOST_DIRECTORY:
            raise zipfile.BadZipFile(
                f"the directory of the archive has {size} bytes, more than {_MOST_DIRECTORY}"
            )
        data, position, count = self._file.read(size), 0, 0
        while data[position : position + 4] == b"PK\1\2" and position + _RECORD <= len(data):
            name, extra, comment = struct.unpack_from("<HHH", data, position + 28)
            position, count = position + _RECORD + name + extra + comment, count + 1
            if extra > _MOST_EXTRA or count > MOST_ENTRIES:
                raise zipfile.BadZipFile(
                    f"it has more than {MOST_ENTRIES} entries, or {_MOST_EXTRA} extra bytes for an entry"
                )
        return data


def open_zip(file: IO[bytes] | RawIOBase) -> zipfile.ZipFile:
    """Return the archive in a file; the caller closes the file.

    Raises:
        zipfile.BadZipFile: If it is not a zip file, or has too many entries or too long extra fields.
    """
    bounded = _Bounded(file)
    archive = zipfile.ZipFile(bounded)
    bounded.is_opening = False
    return archive
