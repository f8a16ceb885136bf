"""Files of Keras: the architecture, and weights as lazy ranges of the file.

A ``.keras`` file is a zip archive of ``config.json`` and ``model.weights.h5``, or a folder of these; an
``.h5`` file holds the architecture in the attribute ``model_config`` and the weights in the group
``model_weights``.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.hdf5 import Hdf5, unreadable
from xdlc.errors import ModelError
from xdlc.ir.files import open_file
from xdlc.ir.zip_files import open_zip
from xdlc.json_fields import json_value

METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
_TEXT_LIMIT = 1 << 24
"""Most bytes of an architecture as JSON."""
_RATIO = 64
"""How much larger than its compressed form a member of an archive may be."""
_AGAIN = "save the model again with model.save"
_LOCAL_HEADER = 30  # bytes of a local file header before the name (APPNOTE.TXT 4.3.7)


class KerasFile:
    """A file of Keras.

    Attributes:
        model: The serialized model: ``class_name``, ``config`` and more.
        weights: The HDF5 file with the weights.
        is_legacy: Whether the weights are by layer and name, in the group ``model_weights``.
        version: Version of Keras that wrote the file; empty if it states none.

    Raises:
        ModelError: If it is damaged or no whole model.
        UsageError: If h5py is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.is_legacy = False
        text: bytes | str
        stated: bytes | str
        if self.path.is_dir():
            text, stated = self._read_folder()
        else:
            source = ir.MappedFile(self.path)
            self.is_legacy = bytes(source.view(0, 4)) != b"PK\x03\x04"
            text, stated = self._read_hdf5(source) if self.is_legacy else self._read_archive(source)
        self.model = _parsed(text, str(path))
        version = stated if isinstance(stated, str) else _parsed(stated, str(path)).get("keras_version")
        self.version = str(version or "")
        if self.version.startswith("1."):
            raise ModelError("was saved by Keras 1", where=str(path), fix="save it again with Keras 2 or 3")

    def _read_hdf5(self, source: ir.MappedFile) -> tuple[str, str]:
        """Return the architecture and the version of Keras."""
        self.weights = Hdf5(source, 0, source.size, str(self.path), "keras")
        text = self.weights.text("model_config")
        if text is None:
            raise ModelError(
                "contains weights, but no architecture",
                where=str(self.path),
                fix="load it with model.load_weights, and save the model: model.save('model.keras')",
            )
        return text, self.weights.text("keras_version") or ""

    def _read_archive(self, source: ir.MappedFile) -> tuple[bytes, bytes]:
        """Return the architecture and the metadata."""
        with _damage(str(self.path)), open_file(self.path) as file, open_zip(file) as archive:
            members = {entry.filename: entry for entry in archive.infolist()}
            text = self._text(archive, members, CONFIG)
            stated = self._text(archive, members, METADATA) if METADATA in members else b"{}"
            self.weights = self._weights(archive, members, source)
        return text, stated

    def _read_folder(self) -> tuple[bytes, bytes]:
        """Return the architecture and the metadata of an archive that is unpacked."""
        source = ir.MappedFile(self.path / WEIGHTS)
        self.weights = Hdf5(source, 0, source.size, str(self.path / WEIGHTS), "keras")
        texts = []
        for name in (CONFIG, METADATA):
            held = ir.MappedFile(self.path / name) if (self.path / name).is_file() else None
            texts.append(b"{}" if held is None else bytes(held.view(0, min(held.size, _TEXT_LIMIT + 1))))
        return texts[0], texts[1]

    def _text(self, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
        entry = members.get(name)
        if entry is None:
            raise ModelError(f"has no {name}", where=str(self.path), fix=_AGAIN)
        if entry.file_size > _TEXT_LIMIT:
            raise ModelError(f"{name} has {entry.file_size} bytes", where=str(self.path), fix=_AGAIN)
        with archive.open(entry) as file:
            return file.read(_TEXT_LIMIT)

    def _weights(
        self, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], source: ir.MappedFile
    ) -> Hdf5:
        """Return the weights' member, mapped in place if it is stored uncompressed."""
        entry, where = members.get(WEIGHTS), f"{self.path}: {WEIGHTS}"
        if entry is None:
            raise ModelError(f"has no {WEIGHTS}", where=str(self.path), fix=_AGAIN)
        if entry.compress_type == zipfile.ZIP_STORED:
            header = bytes(source.view(entry.header_offset, _LOCAL_HEADER))
            archive.open(entry).close()  # checks the header
            start = entry.header_offset + _LOCAL_HEADER
            start += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            if start + entry.file_size > source.size or entry.file_size != entry.compress_size:
                raise ModelError("is truncated", where=where, fix=_AGAIN)
            return Hdf5(source, start, entry.file_size, where, "keras")
        if entry.file_size > max(entry.compress_size, 1 << 10) * _RATIO:
            raise ModelError(
                f"unpacks to {entry.file_size} bytes from {entry.compress_size}",
                where=where,
                fix="save the model again: weights are stored without compression",
            )
        unpacked = _unpacked(archive, entry)
        return Hdf5(unpacked, 0, unpacked.size, where, "keras")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> ir.MappedFile:
    """Return a member unpacked to an unnamed file, deleted after its last use."""
    with tempfile.NamedTemporaryFile(prefix="xdlc-", suffix=".h5") as target:
        left = entry.file_size
        with archive.open(entry) as file:
            while left > 0 and (block := file.read(min(1 << 20, left))):
                target.write(block)
                left -= len(block)
        target.flush()
        return ir.MappedFile(target.name)


def _parsed(text: bytes | str, where: str) -> dict[str, Any]:
    """Return the serialized model of a JSON text.

    Raises:
        ModelError: If it is not one.
    """
    if len(text) > _TEXT_LIMIT:
        raise ModelError(f"its architecture has {len(text)} bytes", where=where, fix=_AGAIN)
    try:
        model = json_value(text if isinstance(text, str) else text.decode())
    except ValueError as error:
        raise ModelError(f"its architecture is not valid JSON: {error}", where=where, fix=_AGAIN) from error
    if not isinstance(model, dict):
        raise ModelError("its architecture is not a JSON object", where=where, fix=_AGAIN)
    return model


@contextmanager
def _damage(where: str) -> Iterator[None]:
    """Turn errors of a damaged archive into ModelError.

    Raises:
        ModelError: In their place.
    """
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        ValueError,
        LookupError,
        io.UnsupportedOperation,
    ) as error:
        raise unreadable("the archive", error, where) from error
