"""Mutations of flatbuffers by their schema."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Iterator
from typing import Any

from fuzz.mutate.plain import mutate_bytes, mutate_text
from fuzz.mutate.values import FLOATS, TEXTS, integer
from xdlc.container.flatbuffer import decode
from xdlc.container.flatbuffer_encode import encode
from xdlc.errors import XdlcError
from xdlc.schema.table import Blob, Table

_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def mutate_tables(rng: random.Random, data: bytes, root: type[Table], donor: bytes = b"") -> bytes:
    """Return a flatbuffer with a few changes of its tables, rarely of its bytes."""
    try:
        found = decode(data if rng.random() < 0.9 else b"", root, "seed")
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(rng, list(_tables(found)))
        return bytes(encode(found))
    except (XdlcError, struct.error, UnicodeEncodeError, OverflowError):
        return mutate_bytes(rng, data, donor)


def _tables(table: Any, depth: int = 0) -> Iterator[Any]:
    yield table
    for field in table.FIELDS if depth < 12 else ():
        value = getattr(table, field.name)
        is_many = field.kind == "vector" and field.element == "table" and value
        for each in value if is_many else [value] if isinstance(value, Table) else ():
            yield from _tables(each, depth + 1)


def _single(rng: random.Random, kind: str, near: Any, known: list[Any]) -> Any:
    """Return a scalar or text in place of another, maybe one of the same field."""
    if known and rng.random() < 0.3:
        return rng.choice(known)
    if kind == "string":
        return (
            rng.choice((rng.choice(TEXTS), mutate_text(rng, near or ""))).encode("utf-8", "replace").decode()
        )
    if kind in ("float", "double"):
        return rng.choice(FLOATS)
    if kind == "bool":
        return rng.random() < 0.5
    near = near if isinstance(near, int) else None
    return integer(rng, _BITS[kind.removeprefix("u")], near, signed=not kind.startswith("u"))


def _change(rng: random.Random, tables: list[Any]) -> None:
    """Change one field of one of some tables in place."""
    # The types of tables have the same chance, not the tables: most of them are tensors.
    chosen = rng.choice(sorted({type(row) for row in tables if row.FIELDS}, key=lambda kind: kind.__name__))
    same = [row for row in tables if type(row) is chosen]
    table = rng.choice(same)
    present = [row for row in table.FIELDS if getattr(table, row.name) not in (None, row.default)]
    field = rng.choice(present if present and rng.random() < 0.7 else table.FIELDS)
    value, values = getattr(table, field.name), [getattr(row, field.name) for row in same]
    if field.kind in ("table", "union"):
        new: Any = rng.choice((None, rng.choice(values)))
    elif field.kind in ("mapped", "vector64") or field.element == "ubyte":
        new = rng.choice((None, Blob(memoryview(mutate_bytes(rng, bytes(value or b""))))))
    elif field.kind == "vector":
        new = _items(rng, field.element, list(value if value is not None else ()), values)
    else:
        new = _single(rng, field.kind, value, values)
    setattr(table, field.name, new)


def _items(rng: random.Random, element: str, items: list[Any], known: list[Any]) -> list[Any]:
    """Return the items of a vector with a change."""
    others = [each for held in known for each in (held if held is not None else ())]
    at, kind = rng.randrange(len(items) + 1), rng.randrange(5)
    if kind == 0:
        del items[at : at + 1]
    elif kind == 1 and others:
        items[at : at + rng.choice((0, 1))] = [copy.copy(rng.choice(others))] * rng.choice((1, 1, 2, 30))
    elif kind == 2:
        rng.shuffle(items)
    elif element != "table":
        items[at : at + 1] = [_single(rng, element, items[at] if at < len(items) else None, others)]
    return items
