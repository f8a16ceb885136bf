"""Zip layer of a DLC: entries are stored, aligned and summed.

Python's zipfile refuses the CRC of 0 that the vendor writes, copies through memory and cannot align data.
The layout written is the vendor's own (zip64 sizes everywhere, padding inside the local extra field); shorter
zip64 extras make the vendor's library abort.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import IO

from xdlc.errors import ContainerError
from xdlc.ir.data import MappedFile, TensorData, is_float
from xdlc.ir.files import SummedFile
from xdlc.records import record

LOCAL = struct.Struct("<4sHHHIIIIHH")
CENTRAL = struct.Struct("<4sHHHHIIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
END64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR = struct.Struct("<4sIQI")
EXTRA64 = struct.Struct("<HHQQQIIII")
CRC_PLACE = 14  # of the CRC in LOCAL
VERSION = 45
FULL = 0xFFFFFFFF
MAX_ENTRIES = 1 << 16
MAX_COMMENT = 0xFFFF
MAX_DIRECTORY = 1 << 26
MAX_CONTENT = 1 << 28
"""Bytes of an entry that is not tensor data; the reader of an entry may take less."""
ALIGNMENT = 8
SUMS: ContextVar[bool] = ContextVar("xdlc.crc", default=True)
"""Whether CRC-32 are written and compared at all."""
CACHE_ALIGNMENT = 4096


@record(frozen=True)
class Entry:
    """One stored entry.

    Attributes:
        offset: First byte of its data in the file.
        size: Bytes of data.
        crc: CRC-32 of its data; 0 if it is not known, as in the vendor's files.
    """

    name: str
    offset: int
    size: int
    crc: int = 0


def read_entries(source: MappedFile) -> dict[str, Entry]:
    """Return the entries by name, in the order of the central directory.

    Raises:
        ContainerError: If the file is not a zip, or breaks a rule of it: names the entry and the rule.
    """
    where = str(source.path)
    start, size, count, limit = _directory(source)
    if count > MAX_ENTRIES:
        raise _damaged(where, f"states {count} entries; xdlc supports at most {MAX_ENTRIES}")
    if size > MAX_DIRECTORY:
        raise _damaged(where, f"has a directory of {size} bytes; xdlc supports at most {MAX_DIRECTORY}")
    if count * CENTRAL.size > size:
        raise _damaged(where, f"states {count} entries, but the directory has only {size} bytes")
    directory = source.view(start, size)
    entries: dict[str, Entry] = {}
    spans: list[tuple[int, int, str]] = []
    position = 0
    for index in range(count):
        if position + CENTRAL.size > size:
            raise _damaged(where, f"the directory ends before entry {index} of {count}")
        fields = CENTRAL.unpack_from(directory, position)
        if fields[0] != b"PK\1\2":
            raise _damaged(where, f"has no directory record for entry {index} of {count}")
        name_end = position + CENTRAL.size + fields[9]
        extra_end = name_end + fields[10]
        if extra_end + fields[11] > size:
            raise _damaged(where, f"the directory ends inside entry {index} of {count}")
        raw = bytes(directory[position + CENTRAL.size : name_end])
        name = _name(raw, where)
        inside = f"{where}: entry {name!r}"
        packed, nbytes, offset = _wide(fields, bytes(directory[name_end:extra_end]), inside)
        if name in entries:
            raise _damaged(inside, "appears twice")
        if fields[3] & 1 or fields[4] != 0 or packed != nbytes:
            raise ContainerError(
                f"is compressed or encrypted (method {fields[4]}), but a DLC stores its entries",
                where=inside,
                fix="pack the file again with 'zip -0'",
            )
        data = _data_start(source, offset, raw, limit, inside)
        if data + nbytes > limit:
            raise _damaged(inside, f"has bytes {data} to {data + nbytes}, past the last data byte {limit}")
        spans.append((offset, data + nbytes, name))
        entries[name] = Entry(name, data, nbytes, fields[6])
        position = extra_end + fields[11]
    spans.sort()
    for (_, end, name), (offset, _, other) in itertools.pairwise(spans):
        if offset < end:
            raise _damaged(f"{where}: entry {other!r}", f"overlaps entry {name!r}")
    return entries


def entry_bytes(source: MappedFile, entry: Entry, skip: int = 0, most: int = MAX_CONTENT) -> memoryview:
    """Return the bytes of an entry, not copied.

    Args:
        skip: Bytes of a prefix to omit.
        most: Bytes that it may have.

    Raises:
        ContainerError: If it is shorter than its prefix, larger than ``most``, or damaged.
    """
    if not skip <= entry.size <= most:
        where = f"{source.path}: entry {entry.name!r}"
        raise _damaged(where, f"has {entry.size} bytes, expected {skip} to {most}")
    if most <= MAX_CONTENT:
        source.check(entry.offset)
    return source.view(entry.offset + skip, entry.size - skip)


def expect_sums(source: MappedFile, entries: Iterable[Entry]) -> None:
    """Compare the bytes of entries with their CRC-32 when they are first used."""
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if entry.crc and entry.size:
            source.expect(entry.offset, entry.size, entry.crc, f"{source.path}: entry {entry.name!r}")


def _damaged(where: str, problem: str) -> ContainerError:
    return ContainerError(problem, where=where, fix="get the file again: it is damaged")


def _directory(source: MappedFile) -> tuple[int, int, int, int]:
    """Return (offset, size, entry count, end of the data) of the central directory."""
    where = str(source.path)
    tail_start = max(0, source.size - END.size - MAX_COMMENT)
    tail = bytes(source.view(tail_start, source.size - tail_start))
    place = tail.rfind(b"PK\5\6")
    while place >= 0:
        if place + END.size <= len(tail):
            end = END.unpack_from(tail, place)
            if place + END.size + end[7] == len(tail):
                break
        place = tail.rfind(b"PK\5\6", 0, place)
    if place < 0:
        raise ContainerError(
            "has no end-of-directory record, so it is not a DLC (a DLC is a zip file) or is truncated",
            where=where,
            fix="check the path, or get the file again",
        )
    limit = tail_start + place
    _, _, _, _, count, size, start, _ = end
    at = limit - LOCATOR.size
    if at >= 0 and bytes(source.view(at, 4)) == b"PK\6\7":
        _, _, offset, _ = LOCATOR.unpack(source.view(at, LOCATOR.size))
        if offset + END64.size > at:
            raise _damaged(where, f"has its zip64 end record at byte {offset}, past byte {at}")
        mark, _, _, _, _, _, _, count, size, start = END64.unpack(source.view(offset, END64.size))
        if mark != b"PK\6\6":
            raise _damaged(where, f"has no zip64 end record at byte {offset}")
        limit = offset
    if start + size > limit:
        raise _damaged(where, f"has its directory at bytes {start} to {start + size}, past byte {limit}")
    return start, size, count, start


def _name(raw: bytes, where: str) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(where, f"has an entry name that is not UTF-8: {raw[:40]!r}") from error
    if not name or "\0" in name:
        raise _damaged(where, f"has an entry named {name!r}")
    return name


def _wide(fields: tuple[int, ...], extra: bytes, where: str) -> tuple[int, int, int]:
    """Return (stored size, size, header offset), from the zip64 field if needed."""
    packed, nbytes, offset = fields[7], fields[8], fields[15]
    if FULL not in (packed, nbytes, offset):
        return packed, nbytes, offset
    position = 0
    while position + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, position)
        position += 4
        if tag == 1:
            values = list(struct.unpack_from(f"<{min(length, len(extra) - position) // 8}Q", extra, position))
            try:
                nbytes = values.pop(0) if nbytes == FULL else nbytes
                packed = values.pop(0) if packed == FULL else packed
                offset = values.pop(0) if offset == FULL else offset
            except IndexError:
                break
            return packed, nbytes, offset
        position += length
    raise _damaged(where, "has no complete zip64 extra field for its size and offset")


def _data_start(source: MappedFile, offset: int, name: bytes, limit: int, where: str) -> int:
    if offset + LOCAL.size > limit:
        raise _damaged(where, f"has its header at byte {offset}, past the last data byte {limit}")
    fields = LOCAL.unpack(source.view(offset, LOCAL.size))
    if fields[0] != b"PK\3\4":
        raise _damaged(where, f"has no header at byte {offset}")
    if bytes(source.view(offset + LOCAL.size, fields[8])) != name:
        raise _damaged(where, f"has another name in its header at byte {offset}")
    return offset + LOCAL.size + int(fields[8]) + int(fields[9])


class ArchiveWriter:
    """Writer of entries in sequence, in the layout of format 4.

    Args:
        file: Buffered binary file at position 0.
        crc: Whether entries get their CRC-32, or 0, as the vendor writes it.

    Attributes:
        with_nan: Parts with floats of which one is NaN; not looked for without CRC-32, as bytes do not pass
            this process then.
    """

    def __init__(self, file: IO[bytes], *, crc: bool = True) -> None:
        self.with_nan: list[TensorData] = []
        self._file = file
        self._crc = crc
        self._position = 0
        self._written: dict[str, tuple[int, int, int]] = {}

    def add(
        self, name: str, parts: Sequence[bytes | bytearray | TensorData], alignment: int = ALIGNMENT
    ) -> None:
        """Append an entry whose content is ``parts``, concatenated.

        Tensor data is written and released part by part, so that memory holds one part at most.

        Raises:
            ContainerError: If the name is taken, or data has not the size that it announced.
            OSError: If writing fails.
        """
        raw = name.encode("utf-8")
        if name in self._written or not raw or len(raw) > 0xFFFF or "\0" in name:
            raise ContainerError(
                f"a DLC cannot have an entry named {name!r}",
                fix="give each record a short name of its own",
            )
        size = sum([part.nbytes if isinstance(part, TensorData) else len(part) for part in parts])
        header = LOCAL.size + len(raw) + EXTRA64.size
        padding = -(self._position + header) % alignment
        extra = EXTRA64.pack(1, EXTRA64.size - 4 + padding, size, size, 0, 0, padding, alignment, 0)
        self._file.write(
            LOCAL.pack(b"PK\3\4", VERSION, 0, 0, 0, 0, FULL, FULL, len(raw), len(extra) + padding)
            + raw
            + extra
            + bytes(padding)
        )
        begin, start = self._position, self._position + header + padding
        summed = SummedFile(self._file)
        target = summed if self._crc else self._file
        for part in parts:
            if isinstance(part, TensorData):
                dtype = part.dtype
                summed.floats = dtype if is_float(dtype) else None
                part.write_to(target)
                part.release()
                if summed.has_nan:
                    self.with_nan.append(part)
                    summed.has_nan = False
            else:
                summed.floats = None
                target.write(part)
        self._position = self._file.tell()
        self._written[name] = begin, size, summed.crc
        if self._crc:
            self._file.seek(begin + CRC_PLACE)
            self._file.write(struct.pack("<I", summed.crc))
            self._file.seek(self._position)
        if self._position != start + size:
            raise ContainerError(
                f"the data has {self._position - start} bytes instead of {size}",
                where=f"entry {name!r}",
                fix="this is a bug: please report it with the model",
            )

    def close(self, order: Sequence[str]) -> None:
        """Write the directory: first the existing entries of ``order``, then all others."""
        known = [name for name in order if name in self._written]
        names = list(dict.fromkeys((*known, *self._written)))
        out = bytearray()
        for name in names:
            raw = name.encode("utf-8")
            offset, size, crc = self._written[name]
            out += CENTRAL.pack(
                b"PK\1\2", VERSION, VERSION, 0, 0, 0, crc, FULL, FULL, len(raw), 44, 0, 0, 0, 0, FULL
            )
            out += raw + struct.pack("<HHQQQ16x", 1, 40, size, size, offset)
        self._file.write(bytes(out) + _ends(self._position, len(out), len(names)))


def _ends(start: int, size: int, count: int) -> bytes:
    """Return the end records of an archive whose directory is at ``start``."""
    end64 = END64.pack(b"PK\6\6", 44, VERSION, VERSION, 0, 0, count, count, size, start)
    locator = LOCATOR.pack(b"PK\6\7", 0, start + size, 1)
    few = min(count, 0xFFFF)
    return end64 + locator + END.pack(b"PK\5\6", 0, 0, few, few, min(size, FULL), FULL, 0)
