"""The text of a configuration file, and what kind it is."""

from __future__ import annotations

import codecs
import os

from xdlc.errors import ModelError, StorageError

MAX_BYTES = 4 << 20
"""Largest configuration that is read; those of real packages have a few kilobytes."""

_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a configuration file.

    Raises:
        StorageError: If it cannot be read.
        ModelError: If it is larger than ``MAX_BYTES``.
    """
    where = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise StorageError(
            f"cannot be read: {reason or error}", where=where, fix="check the path and its permissions"
        ) from error
    if len(content) > MAX_BYTES:
        raise ModelError(
            f"is larger than {MAX_BYTES >> 20} MiB", where=where, fix="name a configuration of operations"
        )
    return content


def is_xml(content: bytes) -> bool:
    r"""Return whether a configuration is XML, judged by its first character.

    Example:
        >>> is_xml(b"\n<OpDefCollection>"), is_xml(b'{"UdoPackage_0": {}}'), is_xml(b"\xff\xfe<\x00")
        (True, False, True)
    """
    for bom in _BOMS:
        content = content.removeprefix(bom)
    return content[:4096].replace(b"\0", b"").lstrip().startswith(b"<")


def decoded(content: bytes, where: str) -> str:
    """Return the characters of a JSON text; a byte order mark of UTF-8 stays in it.

    Raises:
        ModelError: If it is not UTF-8; names the line.
    """
    wide = content.startswith(_BOMS[1:]) or b"\0" in content[:2]
    if wide:
        raise ModelError(
            "is UTF-16 or UTF-32: JSON is read as UTF-8", where=f"{where}:1", fix="save the file as UTF-8"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ModelError(
            f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8",
            where=f"{where}:{line}",
            fix="save the file as UTF-8",
        ) from error
