"""Mutations of zip archives: their entries by what these hold, their names, their headers."""

from __future__ import annotations

import io
import random
import re
import zipfile
import zlib
from collections.abc import Callable

from fuzz.mutate.plain import mutate_bytes
from fuzz.mutate.values import TEXTS, integer
from xdlc.container.archive import ArchiveWriter

Write = Callable[[dict[str, bytes]], bytes]
Change = Callable[[random.Random, str, bytes, bytes], bytes]


def entries_of(data: bytes) -> dict[str, bytes]:
    """Return the entries of an archive, whose checksums may be wrong or missing."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for entry in file.infolist():
            entry.CRC = None  # type: ignore[assignment]  # not checked then
            found[entry.filename] = file.read(entry)
    return found


def packed(entries: dict[str, bytes]) -> bytes:
    """Return an archive of entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in entries.items():
            file.writestr(name if name.strip("\0") else "x", content)
    return made.getvalue()


def contained(entries: dict[str, bytes]) -> bytes:
    """Return a DLC of entries, which has the records of zip64."""
    made = io.BytesIO()
    archive = ArchiveWriter(made)
    for name, content in entries.items():
        archive.add(name or "x", [content])
    archive.close(())
    return made.getvalue()


def mutate_zip(
    rng: random.Random, data: bytes, change: Change, write: Write = packed, other: bytes = b""
) -> bytes:
    """Return an archive with a few changes.

    Args:
        rng: Source of chance.
        data: The archive.
        change: Returns the content of an entry, by name, with changes.
        write: Returns the archive of entries.
        other: Another archive, for its entries.
    """
    if rng.random() < 0.08:
        return mutate_bytes(rng, data, other)
    try:
        entries, others = entries_of(data), entries_of(other or data)
    except (zipfile.BadZipFile, NotImplementedError, zlib.error):
        return mutate_bytes(rng, data, other)
    for _ in range(rng.choice((1, 1, 1, 2))):
        name = rng.choice(list(entries) or [""])
        kind = rng.random()
        if kind < 0.04:
            entries.pop(name, None)
        elif kind < 0.08:
            entries[rng.choice((*TEXTS, *others))] = entries.pop(name, b"")
        elif kind < 0.14:
            taken = rng.choice(list(others))
            entries[taken if rng.random() < 0.5 else name] = others[taken]
        else:
            entries[name] = change(rng, name, entries.get(name, b""), others.get(name, b""))
    made = write({name.encode("utf-8", "replace").decode(): held for name, held in entries.items()})
    return _damaged(rng, made) if rng.random() < 0.12 else made


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Return an archive with a few wrong numbers in its headers."""
    out, known = bytearray(data), re.finditer(b"PK(\1\2|\3\4|\5\6|\6[\6\7])", data)
    heads = [match.start() for match in known]
    for _ in range(rng.choice((1, 1, 2)) if heads else 0):
        size, at = rng.choice((2, 2, 4)), rng.choice(heads) + 2 * rng.randrange(2, 22)
        near = int.from_bytes(out[at : at + size], "little")
        out[at : at + size] = integer(rng, 8 * size, near).to_bytes(size, "little")
    return bytes(out)
