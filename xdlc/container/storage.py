"""Loading and saving of whole containers."""

from __future__ import annotations

import io
import logging
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from xdlc.container import metadata
from xdlc.container.archive import (
    ALIGNMENT,
    CACHE_ALIGNMENT,
    SUMS,
    ArchiveWriter,
    Entry,
    entry_bytes,
    expect_sums,
    read_entries,
)
from xdlc.container.metadata import TRACE, read_trace, trace_text
from xdlc.container.read4 import DATA, ENCODINGS, MODEL, PARAMS, PREFIX, read_graphs
from xdlc.errors import ContainerError, StorageError
from xdlc.ir import MappedData, MappedFile, Model
from xdlc.ir.collection import collection_paused
from xdlc.ir.data import MemoryFile, TensorData
from xdlc.ir.dtype import UINT8
from xdlc.ir.files import checked_path, replace_file, together
from xdlc.records import record

_log = logging.getLogger(__name__)
MAGIC = 0x0AD5
FORMAT = "4.1"
ALIGNED_RECORDS = ("htp.cache.", "htp.shared.", "htp.metadata.")
CONTENT = (MODEL, PARAMS, DATA, ENCODINGS, TRACE, metadata.IO)
DIRECTORY_ORDER = (metadata.HISTORY, metadata.MAIN, MODEL, PARAMS, DATA, ENCODINGS)


def load(path: str | os.PathLike[str], *, crc: bool = True) -> Model:
    """Return the model in a DLC of format 3.0, 4.0 or 4.1 and later.

    Weights and records stay ranges of the mapped file; only the graphs are read.  Format 3 is read as one
    graph of package ``snpe``, see ``xdlc.container.read3``.

    Args:
        crc: Whether entries that have a CRC-32 are compared with it when their bytes are first used: errors
            are raised there.

    Raises:
        StorageError: If the file cannot be read.
        ContainerError: If it is not a DLC, or damaged: names the entry and the rule.
    """
    with collection_paused():
        return _load(MappedFile(path), crc=crc)


def load_bytes(content: memoryview, name: str) -> Model:
    """Return the model from the bytes of a DLC, like ``load``.

    Args:
        name: What errors call them.

    Raises:
        ContainerError: If they are no DLC, or damaged: names the entry and the rule.
    """
    with collection_paused():
        return _load(MemoryFile(name, content))


def _load(source: MappedFile, *, crc: bool = True) -> Model:
    entries = read_entries(source)
    if crc and SUMS.get():
        expect_sums(source, entries.values())
    model = Model()
    version = _version(source, entries)
    for name, entry in entries.items():
        where = f"{source.path}: entry {name!r}"
        if name == metadata.TEXT:
            metadata.read_text(entry_bytes(source, entry, most=metadata.MAX_LINES), model.metadata, where)
        elif metadata.is_history(name):
            metadata.read_history(entry_bytes(source, entry), model.metadata, where)
        elif metadata.is_main(name):
            metadata.read_main(entry_bytes(source, entry), model.metadata, where)
        elif name not in CONTENT:
            model.records[name] = MappedData(source, entry.offset, (entry.size,), UINT8)
    if version is None:
        if not model.records:
            raise ContainerError(
                f"has no entry {MODEL!r} and no caches: it is a zip file, not a DLC",
                where=str(source.path),
                code="XD601",
            )
        return model
    model.metadata["version"] = f"{version[0]}.{version[1]}"
    if version[0] == 3:
        from xdlc.container.read3 import read_layers

        read_layers(source, entries, model)
    else:
        read_graphs(source, entries, version, model)
    for name in (metadata.IO, TRACE):
        if name in entries:
            view, where = entry_bytes(source, entries[name]), f"{source.path}: entry {name!r}"
            if name == TRACE:
                read_trace(view, model, where)
            else:
                metadata.read_io(view, model, where, outputs=version[0] == 3)
    return model


def _version(source: MappedFile, entries: dict[str, Entry]) -> tuple[int, int] | None:
    """Return major and minor version of the entry ``model``; None without one."""
    entry = entries.get(MODEL)
    if entry is None:
        return None
    where = f"{source.path}: entry {MODEL!r}"
    if entry.size < PREFIX:
        raise ContainerError(f"has {entry.size} bytes", where=where, fix="get the file again")
    magic, major, minor, _ = struct.unpack("<HHHH", source.view(entry.offset, PREFIX))
    if magic != MAGIC:
        raise ContainerError(f"starts with {magic:#06x} instead of {MAGIC:#06x}", where=where)
    if major < 3:
        raise ContainerError(
            f"is of format {major}.{minor}; xdlc reads format 3.0, and 4.0 or newer",
            where=where,
            fix="convert the source model again",
            code="XD603",
        )
    return major, minor


@record(frozen=True)
class Description:
    """Version, size and entries of a container.

    Attributes:
        version: Format like ``4.1``; None without a model (caches only).
        entries: Its entries in directory order.
    """

    version: str | None
    size: int
    entries: tuple[Entry, ...]


def describe(path: str | os.PathLike[str]) -> Description:
    """Return version and entries of a DLC without reading its graphs.

    Raises:
        StorageError: If the file cannot be read.
        ContainerError: If it is not a DLC.
    """
    source = MappedFile(path)
    entries = read_entries(source)
    version = _version(source, entries)
    return Description(
        f"{version[0]}.{version[1]}" if version else None, source.size, tuple(entries.values())
    )


def save(model: Model, path: str | os.PathLike[str], *, version: str = FORMAT, crc: bool = True) -> None:
    """Write a model as a DLC with its files next to it, replaced in one step.

    Equal models have equal bytes.  Weights are streamed: memory holds the largest tensor that is
    not a range of a file, at most.

    Args:
        version: ``4.1``, or ``4.0`` for a file whose data is inside ``model.params``: viewers that do not
            read the entry ``model.params.bin`` show it, and it ends at 2 GiB.
        crc: Whether entries get their CRC-32; without, each has 0.

    Raises:
        UsageError: If the version is another.
        ContainerError: If something of the model cannot be stored in a DLC of this version.
        StorageError: If the file cannot be written; an existing file is left as it was.
    """
    with together():
        for name, content in model.files.items():
            file = Path(checked_path(path)).parent / name
            try:
                file.parent.mkdir(exist_ok=True)
            except OSError as error:
                problem = f"cannot be created: {error.strerror}"
                raise StorageError(problem, where=str(file.parent), fix="use an existing folder") from error
            replace_file(file, content)
        replace_file(path, _writer(model, version, crc=crc))


def model_bytes(model: Model) -> bytes:
    """Return a model as the bytes of a 4.1 DLC without CRC-32, to store in a record.

    Raises:
        ContainerError: If something of the model cannot be stored in a DLC.
    """
    file = io.BytesIO()
    _writer(model, FORMAT, crc=False)(file)
    return file.getvalue()


def _writer(model: Model, version: str, *, crc: bool) -> Callable[[IO[bytes]], None]:
    """Return a function that writes a model to a file as a DLC of format 4."""
    from xdlc.container.write4 import make_entries

    with collection_paused():
        contents = make_entries(model, version)

    def write(file: IO[bytes]) -> None:
        archive = ArchiveWriter(file, crc=crc and SUMS.get())
        if contents.data:
            archive.add(DATA, contents.data)
        archive.add(metadata.HISTORY, [metadata.history_text(model)])
        archive.add(metadata.MAIN, [metadata.main_text(model)])
        archive.add(MODEL, contents.model)
        archive.add(PARAMS, contents.params)
        if contents.encodings:
            archive.add(ENCODINGS, [contents.encodings])
        trace = trace_text(model)
        if trace is not None:
            archive.add(TRACE, [trace])
        if model.graphs:
            archive.add(metadata.IO, [metadata.io_text(model)])
        for name, data in model.records.items():
            aligned = name.startswith(ALIGNED_RECORDS)
            archive.add(name, [data], CACHE_ALIGNMENT if aligned else ALIGNMENT)
        archive.close(DIRECTORY_ORDER)
        if archive.with_nan:
            _warn_of_nan(model, archive.with_nan)

    return write


def _warn_of_nan(model: Model, parts: Sequence[TensorData]) -> None:
    """Log the weights that contain NaN, which is rarely intended."""
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if any(tensor.data is part for part in parts):
                _log.warning(
                    "weight %r of graph %r holds NaN: convert an earlier checkpoint of the training",
                    tensor.name,
                    graph.name,
                )
