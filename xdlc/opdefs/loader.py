"""Definitions of native operations, and the supplements of backends."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from xdlc.errors import ModelError, UsageError, nearest_names
from xdlc.ir.files import read_bytes
from xdlc.opdefs import xml_elements
from xdlc.opdefs.model import Collection, OpDef, Supplement
from xdlc.opdefs.xml_elements import dtype_of

__all__ = ["BACKENDS", "NATIVE_PACKAGE", "all_types", "dtype_of", "find", "read_collection", "supplement"]

NATIVE_PACKAGE = "qti.aisw"
BACKENDS = ("cpu", "gpu", "htp", "hta")
MAX_XML_BYTES = 16 << 20

_DATA = Path(__file__).parent / "data"


@cache
def all_types() -> tuple[str, ...]:
    """Return the types of all native operations, sorted."""
    return tuple(sorted(name[:-4] for name in os.listdir(_DATA / "ops") if name.endswith(".xml")))


def find(type: str, package: str = NATIVE_PACKAGE) -> OpDef | None:
    """Return the definition of a native operation; None if it is not known."""
    if package != NATIVE_PACKAGE or type not in all_types():
        return None
    return _native(type)


@cache
def _native(type: str) -> OpDef:
    return read_collection(_DATA / "ops" / f"{type}.xml").opdefs[0]


@cache
def supplement(backend: str) -> Supplement:
    """Return the supplement of a backend to the native operations.

    Raises:
        UsageError: If the backend is not known.
    """
    name = backend.lower()
    if name not in BACKENDS:
        raise UsageError(
            f"unknown backend {backend!r}",
            fix=nearest_names(backend, BACKENDS) or f"use one of {', '.join(BACKENDS)}",
        )
    path = _DATA / "backends" / f"{name}.xml"
    return Supplement(name, read_collection(path).supplements)


def read_collection(path: str | os.PathLike[str]) -> Collection:
    """Return definitions from xdlc's own XML; for other files use ``xml_reader``.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If it is not XML, or lacks what the definitions need.
    """
    where = os.fspath(path)
    try:
        return xml_elements.collection(ElementTree.fromstring(read_content(path)))
    except ElementTree.ParseError as error:
        raise ModelError(f"the file is not well-formed XML: {error}", where=where) from error
    except ValueError as error:
        raise ModelError(f"the file breaks the OpDef schema: {error}", where=where) from error


def read_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file.

    Raises:
        StorageError: If it cannot be read.
        ModelError: If it is too large to be a definition of operations.
    """
    content = read_bytes(path, MAX_XML_BYTES)
    if len(content) > MAX_XML_BYTES:
        raise ModelError(f"the file is larger than {MAX_XML_BYTES >> 20} MiB", where=os.fspath(path))
    return content
