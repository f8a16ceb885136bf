"""Zip archives of PyTorch, whose records are ranges of the file.

torch stores records without compression, each at a multiple of 64 bytes, below a folder of any name
(caffe2/serialize/inline_container.h).
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.errors import ModelError

AGAIN = "save the model again"
_LOCAL_HEADER = 30  # bytes of a local file header before the name (APPNOTE.TXT 4.3.7)
_MOST_RECORDS = 1 << 17
_MOST_DIRECTORY = 1 << 26
_MOST_TEXT = 1 << 27


class Archive:
    """A zip archive of PyTorch.

    Args:
        path: The file.

    Attributes:
        path: The file.
        source: The mapped file.

    Raises:
        ModelError: If it is no whole archive.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.source = ir.MappedFile(self.path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                if self.source.size - archive.start_dir > _MOST_DIRECTORY:
                    raise self.damaged("its directory is too long")
                entries = archive.infolist()
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, ValueError, LookupError) as error:
            raise self.damaged(str(error)) from error
        except NotImplementedError as error:
            raise self.damaged(f"it needs a newer zip: {error}") from error
        if len(entries) > _MOST_RECORDS:
            raise self.damaged(f"it has {len(entries)} records")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            name = entry.filename.partition("/")[2]
            if self._entries.setdefault(name, entry) is not entry:
                raise self.damaged(f"it has two records {name!r}")

    def damaged(self, reason: str) -> ModelError:
        """Return the error of an archive that is damaged."""
        return ModelError(f"the archive is damaged: {reason}", where=str(self.path), fix=AGAIN)

    def names(self, start: str = "", end: str = "") -> list[str]:
        """Return the records, without the folder of the archive, by how their names start and end."""
        return [name for name in self._entries if name.startswith(start) and name.endswith(end)]

    def record(self, name: str) -> tuple[int, int]:
        """Return first byte and number of bytes of a record.

        Raises:
            ModelError: If it is missing, compressed or not inside the file.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise self.damaged(f"it has no record {name!r}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            problem = f"record {name!r} is compressed or encrypted"
            raise ModelError(problem, where=str(self.path), fix="give the file as torch writes it")
        if entry.header_offset + _LOCAL_HEADER > self.source.size:
            raise self.damaged(f"record {name!r} is outside the file")
        header = bytes(self.source.view(entry.header_offset, _LOCAL_HEADER))
        start = entry.header_offset + _LOCAL_HEADER
        start += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        if header[:4] != b"PK\x03\x04" or start + entry.file_size > self.source.size:
            raise self.damaged(f"record {name!r} is outside the file")
        return start, entry.file_size

    def read(self, name: str) -> bytes:
        """Return the content of a record of text.

        Raises:
            ModelError: As of ``record``, and if it is too long.
        """
        start, size = self.record(name)
        if size > _MOST_TEXT:
            raise self.damaged(f"record {name!r} has {size} bytes")
        return bytes(self.source.view(start, size))

    def parsed(self, name: str) -> Any:
        """Return the value of a record of JSON.

        Raises:
            ModelError: As of ``read``, and if it is no JSON.
        """
        try:
            return json.loads(self.read(name))
        except RecursionError as error:
            raise self.damaged(f"record {name!r} nests too deep") from error
        except ValueError as error:
            raise self.damaged(f"record {name!r} is no JSON: {error}") from error
