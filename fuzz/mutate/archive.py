"""Mutations of zip archives: contents and names of entries, headers."""

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

Entries = dict[str, bytes]
Change = Callable[[random.Random, str, bytes, bytes], bytes]


def entries_of(data: bytes) -> Entries:
    """Return the entries of an archive, whose checksums may be wrong or missing."""
    entries = {}
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for entry in file.infolist():
            entry.CRC = None  # type: ignore[assignment]  # not checked then
            entries[entry.filename] = file.read(entry)
    return entries


def packed(entries: Entries) -> bytes:
    """Return an archive of entries."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in entries.items():
            file.writestr(name if name.strip("\0") else "x", content)
    return made.getvalue()


def contained(entries: Entries) -> bytes:
    """Return a DLC of entries, which has the records of zip64."""
    file = io.BytesIO()
    archive = ArchiveWriter(file)
    named = {name.replace("\0", "") or "x": content for name, content in entries.items()}
    for name, content in named.items():  # others can be written by damage alone
        archive.add(name, [content])
    archive.close(())
    return file.getvalue()


def mutate_zip(
    rng: random.Random,
    data: bytes,
    change: Change,
    write: Callable[[Entries], bytes] = packed,
    donor: bytes = b"",
) -> bytes:
    """Return an archive with a few changes of entries or headers."""
    try:
        entries, others = entries_of(data), entries_of(donor or data)
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError, zlib.error):
        return mutate_bytes(rng, data, donor)
    for _ in range(rng.choice((1, 1, 1, 2))):
        name, kind = rng.choice(list(entries) or [""]), rng.random()
        taken = rng.choice(list(others) or [""])
        if kind < 0.08:
            entries[rng.choice((*TEXTS, taken))] = entries.pop(name, b"")
        elif kind < 0.14:
            entries[rng.choice((taken, name))] = others.get(taken, b"")
        else:
            entries[name] = change(rng, name, entries.get(name, b""), others.get(name, b""))
    archive = write({name.encode("utf-8", "replace").decode(): held for name, held in entries.items()})
    kind = rng.random()
    return (
        _damaged(rng, archive)
        if kind < 0.1
        else mutate_bytes(rng, archive, donor)
        if kind < 0.15
        else archive
    )


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Return an archive with a few wrong numbers in its headers."""
    out, known = bytearray(data), re.finditer(b"PK(\1\2|\3\4|\5\6|\6[\6\7])", data)
    heads = [match.start() for match in known]
    for _ in range(rng.choice((1, 1, 2)) if heads else 0):
        size, at = rng.choice((2, 2, 4)), rng.choice(heads) + 2 * rng.randrange(2, 22)
        near = int.from_bytes(out[at : at + size], "little")
        out[at : at + size] = integer(rng, 8 * size, near).to_bytes(size, "little")
    return bytes(out)
