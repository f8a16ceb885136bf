"""Zip archives of PyTorch, whose records are ranges of the file.

torch stores records without compression, each at a multiple of 64 bytes, below a folder of any name
(caffe2/serialize/inline_container.h).
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.weights import Window
from xdlc.errors import ModelError
from xdlc.ir.zip_files import open_zip

AGAIN = "save the model again"
_LOCAL_HEADER = 30  # bytes of a local file header before the name (APPNOTE.TXT 4.3.7)
_MOST_TEXT = 1 << 26
_MOST_MEMORY = 400 << 20
_COST = {b"{": 240, b"[": 72, b",": 64}
"""Bytes that values of JSON take by the marks that they have."""


class Archive:
    """A zip archive of PyTorch: a mapped file from ``start``, or a file at ``path``.

    Raises:
        ModelError: If it is not a complete archive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        source: ir.MappedFile | None = None,
        start: int = 0,
        size: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.source = source or ir.MappedFile(self.path)
        self._start = start
        self._end = start + size if size is not None else self.source.size
        try:
            window = Window(lambda count, at: self.source.view(at, count), start, self._end - start)
            with open_zip(window) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, OSError, RuntimeError, ValueError, LookupError, struct.error) as error:
            raise self.damaged(str(error)) from error
        top = entries[0].filename.partition("/")[0] + "/" if entries else ""
        skipped = len(top) if all(entry.filename.startswith(top) for entry in entries) else 0
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename[skipped:]
            if self._entries.setdefault(name, entry) is not entry:
                raise self.damaged(f"the archive has two records {name!r}")
        if sum(entry.compress_size for entry in entries) > self._end - start:
            raise self.damaged("the records of the archive overlap")
        if "byteorder" in self._entries and self.read("byteorder") != b"little":
            problem = "the file was saved on a big-endian machine, which xdlc does not read"
            raise ModelError(problem, where=str(self.path), fix="save the model on a little-endian machine")

    def inner(self, name: str) -> Archive:
        """Return the archive that a record is."""
        return Archive(self.path, self.source, *self.record(name))

    def damaged(self, reason: str) -> ModelError:
        return ModelError(f"the archive is damaged: {reason}", where=str(self.path), fix=AGAIN)

    def names(self, start: str = "", end: str = "") -> list[str]:
        """Return the records, without the archive's folder, that match prefix and suffix."""
        return [name for name in self._entries if name.startswith(start) and name.endswith(end)]

    def record(self, name: str) -> tuple[int, int]:
        """Return first byte and number of bytes of a record.

        Raises:
            ModelError: If it is missing, compressed or not inside the file.
        """
        entry = self._entry(name)
        if entry.compress_type != zipfile.ZIP_STORED:
            problem = f"record {name!r} is compressed"
            raise ModelError(problem, where=str(self.path), fix="pass the file as torch wrote it")
        return self._place(entry), entry.file_size

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise self.damaged(f"the archive has no record {name!r}")
        return self._entries[name]

    def _place(self, entry: zipfile.ZipInfo) -> int:
        """Return the first byte of a record that is inside the file."""
        name = entry.filename
        start = self._start + entry.header_offset + _LOCAL_HEADER
        if not self._start + _LOCAL_HEADER <= start <= self._end:
            raise self.damaged(f"record {name!r} is outside the file")
        header = bytes(self.source.view(start - _LOCAL_HEADER, _LOCAL_HEADER))
        start += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        if header[:4] != b"PK\x03\x04" or start + entry.compress_size > self._end:
            raise self.damaged(f"record {name!r} is outside the file")
        if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            raise self.damaged(f"record {name!r} has two sizes")
        return start

    def read(self, name: str) -> bytes:
        """Return the content of a record of text, which may be compressed.

        Raises:
            ModelError: If it is missing, damaged or too long.
        """
        entry = self._entry(name)
        start, size = self._place(entry), entry.file_size
        if size > _MOST_TEXT:
            raise self.damaged(f"record {name!r} has {size} bytes, which is too many")
        held = bytes(self.source.view(start, entry.compress_size))
        if entry.compress_type == zipfile.ZIP_STORED:
            return held
        try:
            text = zlib.decompressobj(-zlib.MAX_WBITS).decompress(held, size + 1)
        except zlib.error as error:
            raise self.damaged(f"record {name!r}: {error}") from error
        if len(text) != size:
            raise self.damaged(f"record {name!r} has another size than the directory of the archive")
        return text

    def parsed(self, name: str) -> Any:
        """Return the value of a record of JSON."""
        text = self.read(name)
        cost = sum(text.count(mark) * nbytes for mark, nbytes in _COST.items())
        cost += len(text) * (2 if text.isascii() else 5)
        if cost > _MOST_MEMORY:
            raise self.damaged(f"record {name!r} requires {cost >> 20} MB of memory")
        try:
            return json.loads(text)
        except RecursionError as error:
            raise self.damaged(f"record {name!r} nests too deep") from error
        except ValueError as error:
            raise self.damaged(f"record {name!r} is not valid JSON: {error}") from error
