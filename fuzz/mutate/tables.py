"""Mutations of flatbuffers by their schema."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Iterator
from typing import Any

from fuzz.mutate.plain import mutate_bytes, mutate_numbers, mutate_text
from fuzz.mutate.values import FLOATS, TEXTS, integer
from xdlc.container.flatbuffer import decode
from xdlc.container.flatbuffer_encode import encode
from xdlc.errors import XdlcError
from xdlc.schema.table import Blob, Table

_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
_BLOBS = ("mapped", "vector64")


def mutate_tables(rng: random.Random, data: bytes, root: type[Table], other: bytes = b"") -> bytes:
    """Return a flatbuffer with a few changes of its tables, rarely of its bytes."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, data, other)
    try:
        found = decode(data, root, "seed")
    except XdlcError:
        return mutate_bytes(rng, data, other)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(rng, list(_tables(found)))
    try:
        return bytes(encode(found))
    except (XdlcError, struct.error, UnicodeEncodeError, OverflowError):
        return mutate_bytes(rng, data, other)


def _tables(table: Any, depth: int = 0) -> Iterator[Any]:
    yield table
    for field in table.FIELDS if depth < 12 else ():
        value = getattr(table, field.name)
        if isinstance(value, Table):
            yield from _tables(value, depth + 1)
        elif field.kind == "vector" and field.element == "table":
            for each in value or ():
                yield from _tables(each, depth + 1)


def _scalar(rng: random.Random, kind: str, near: Any = None) -> Any:
    if kind in ("float", "double"):
        return rng.choice(FLOATS)
    if kind == "bool":
        return rng.random() < 0.5
    bits = _BITS[kind.removeprefix("u")]
    return integer(rng, bits, near if isinstance(near, int) else None, signed=not kind.startswith("u"))


def _text(rng: random.Random, held: str | None, known: list[Any]) -> str:
    new = rng.choice((rng.choice(TEXTS), rng.choice(known) or "", mutate_text(rng, held or "")))
    return new.encode("utf-8", "replace").decode()


def _change(rng: random.Random, tables: list[Any]) -> None:
    """Change one field of one of some tables in place."""
    # The types of tables have the same chance, not the tables: most of them are tensors.
    kinds = sorted({type(each) for each in tables}, key=lambda kind: kind.__name__)
    chosen = rng.choice(kinds)
    same = [each for each in tables if type(each) is chosen and each.FIELDS]
    if not same:
        return
    table = rng.choice(same)
    present = [each for each in table.FIELDS if getattr(table, each.name) not in (None, each.default)]
    field = rng.choice(present if present and rng.random() < 0.7 else table.FIELDS)
    value, known = getattr(table, field.name), [getattr(each, field.name) for each in same]
    if field.kind == "string":
        new: Any = _text(rng, value, known)
    elif field.kind in ("table", "union"):
        new = rng.choice((None, rng.choice(known)))
    elif field.kind in _BLOBS or (field.kind == "vector" and field.element == "ubyte"):
        change = rng.choice((mutate_bytes, mutate_numbers))
        new = rng.choice((None, Blob(memoryview(change(rng, bytes(value or b""))))))
    elif field.kind == "vector":
        new = _items(rng, field.element or "", list(value if value is not None else ()), known)
    else:
        new = rng.choice((_scalar(rng, field.kind, value), rng.choice(known)))
    setattr(table, field.name, new)


def _items(rng: random.Random, element: str, items: list[Any], known: list[Any]) -> list[Any]:
    """Return the items of a vector with a change."""
    others = [each for held in known for each in (held if held is not None else ())]
    kind = rng.randrange(6)
    at = rng.randrange(len(items)) if items else 0
    if kind == 0 and items:
        del items[at]
    elif kind == 1 and others:
        items[at:at] = [copy.copy(rng.choice(others))] * rng.choice((1, 1, 2, 30))
    elif kind == 2:
        rng.shuffle(items)
    elif kind == 3 and others:
        items[at : at + 1] = [copy.copy(rng.choice(others))]
    elif element == "string":
        items[at : at + 1] = [_text(rng, items[at] if items else "", others or [""])]
    elif element != "table":
        items[at : at + rng.choice((0, 1, 1, 1))] = [_scalar(rng, element, items[at] if items else None)]
    return items
