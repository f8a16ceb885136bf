"""Mutations of protobuf messages, walked without a schema."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

from fuzz.mutate.plain import mutate_bytes
from fuzz.mutate.values import FLOATS, TEXTS, integer
from tests.support.protobuf import varint

Field = tuple[int, int, int | bytes]
LONGEST = 1 << 14
DEEPEST = 12


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position


@lru_cache(1 << 14)
def fields_of(data: bytes) -> tuple[Field, ...] | None:
    """Return number, wire type and value of each field; None if bytes are no message."""
    fields: list[Field] = []
    position = 0
    try:
        while position < len(data):
            key, position = _number(data, position)
            wire, value = key & 7, b""
            if wire == 0:
                number, position = _number(data, position)
                fields.append((key >> 3, wire, number))
                continue
            size = {1: 8, 5: 4}.get(wire, LONGEST)
            if wire == 2:
                size, position = _number(data, position)
            value = data[position : position + size]
            if not key >> 3 or wire not in (1, 2, 5) or len(value) != size:
                return None
            fields.append((key >> 3, wire, value))
            position += size
    except IndexError:
        return None
    return tuple(fields)


def message_of(fields: list[Field]) -> bytes:
    """Return the bytes of fields."""
    out = []
    for number, wire, value in fields:
        size = varint(len(value)) if wire == 2 and isinstance(value, bytes) else b""
        out += [varint(number << 3 | wire), size, varint(value) if isinstance(value, int) else value]
    return b"".join(out)


@lru_cache(1024)
def _below(data: bytes, depth: int = 0) -> tuple[Field, ...]:
    """Return all fields of a message and the messages in it."""
    found: list[Field] = []
    for field in (depth < DEEPEST and len(data) < LONGEST and fields_of(data)) or ():
        found.append(field)
        found += _below(field[2], depth + 1) if isinstance(field[2], bytes) and field[1] == 2 else ()
    return tuple(found[:2000])


def mutate_protobuf(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return a message with a few changes at any depth, also from a donor."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        data = _changed(rng, data, rng.choice((data, data, other)), 0)
    return data


def _changed(rng: random.Random, data: bytes, source: bytes, depth: int) -> bytes:
    fields = list(fields_of(data) or ()) if len(data) < LONGEST or not depth else []
    if not fields:
        return mutate_bytes(rng, data) if rng.random() < 0.6 else _text(rng)
    at, kind = rng.randrange(len(fields)), rng.randrange(9)
    number, wire, value = fields[at]
    if isinstance(value, bytes) and wire == 2 and value and depth < DEEPEST and rng.random() < 0.8:
        fields[at] = number, wire, _changed(rng, value, source, depth + 1)
    elif kind == 0:
        del fields[at]
    elif kind == 1:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 2, 30))
    elif kind == 2:
        rng.shuffle(fields)
    elif kind == 3:
        fields.insert(at, (rng.choice((number + 1, rng.randrange(1, 40))), wire, value))
    elif kind in (4, 5) and (known := _below(source)):
        same = [each for each in known if each[:2] == (number, wire)]
        fields[at : at + rng.choice((0, 1, 1))] = [rng.choice(same or known)]
    else:
        fields[at] = (number, *_value(rng, wire, value))
    return message_of(fields)


def _value(rng: random.Random, wire: int, value: int | bytes) -> tuple[int, int | bytes]:
    """Return a wire type and a value in place of those of a field."""
    if rng.random() < 0.05:
        return rng.choice(((0, integer(rng)), (2, _text(rng)), (5, bytes(4))))
    if isinstance(value, int):
        return wire, integer(rng, near=value)
    if wire == 2:
        return wire, mutate_bytes(rng, value) if rng.random() < 0.6 else _text(rng)
    number = integer(rng, 8 * len(value)).to_bytes(len(value), "little")
    return wire, rng.choice((number, struct.pack("<f" if wire == 5 else "<d", rng.choice(FLOATS))))


def _text(rng: random.Random) -> bytes:
    return rng.choice(TEXTS).encode("utf-8", "surrogatepass")
