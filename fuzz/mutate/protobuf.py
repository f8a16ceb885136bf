"""Mutations of protobuf messages, walked without a schema."""

from __future__ import annotations

import random
import struct
from functools import lru_cache

from fuzz.mutate.plain import mutate_bytes, mutate_numbers
from fuzz.mutate.values import FLOATS, TEXTS, integer

Field = tuple[int, int, int | bytes]
LONGEST = 1 << 14
DEEPEST = 12


def varint(value: int) -> bytes:
    """Return a varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@lru_cache(1 << 14)
def fields_of(data: bytes) -> tuple[Field, ...] | None:
    """Return number, wire type and value of each field; None if bytes are no message."""
    found: list[Field] = []
    position, end = 0, len(data)

    def number() -> int:
        nonlocal position
        value = shift = 0
        while position < end and shift < 70:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError

    try:
        while position < end:
            key = number()
            wire = key & 7
            if wire == 0:
                found.append((key >> 3, wire, number()))
                continue
            size = {1: 8, 5: 4}.get(wire) or (number() if wire == 2 else end + 1)
            if not key >> 3 or position + size > end:
                return None
            found.append((key >> 3, wire, data[position : position + size]))
            position += size
    except ValueError:
        return None
    return tuple(found)


def message_of(fields: list[Field]) -> bytes:
    """Return the bytes of fields."""
    out = []
    for number, wire, value in fields:
        out.append(varint(number << 3 | wire))
        if isinstance(value, int):
            out.append(varint(value))
        else:
            out += [varint(len(value)), value] if wire == 2 else [value]
    return b"".join(out)


@lru_cache(1024)
def _below(data: bytes, depth: int = 0) -> tuple[Field, ...]:
    """Return all fields of a message and the messages in it."""
    found: list[Field] = []
    for field in (depth < DEEPEST and len(data) < LONGEST and fields_of(data)) or ():
        found.append(field)
        if isinstance(field[2], bytes) and field[1] == 2:
            found += _below(field[2], depth + 1)
    return tuple(found[:2000])


def mutate_protobuf(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return a message with a few changes at any depth; fields come from it and from another one."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        data = _changed(rng, data, rng.choice((data, data, other)), 0)
    return data


def _changed(rng: random.Random, data: bytes, source: bytes, depth: int) -> bytes:
    found = fields_of(data) if len(data) < LONGEST or not depth else None
    if found is None or (not found and depth):
        return rng.choice((mutate_bytes, _other_text))(rng, data)
    fields = list(found)
    at = rng.randrange(len(fields)) if fields else 0
    number, wire, value = fields[at] if fields else (1, 0, 0)
    is_message = wire == 2 and isinstance(value, bytes) and value and fields_of(value) is not None
    if is_message and fields and depth < DEEPEST and rng.random() < 0.8:
        assert isinstance(value, bytes)
        fields[at] = number, wire, _changed(rng, value, source, depth + 1)
        return message_of(fields)
    kind = rng.randrange(10)
    if kind == 0 and fields:
        del fields[at]
    elif kind == 1 and fields:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 2, 30))
    elif kind == 2:
        rng.shuffle(fields)
    elif kind == 3:
        fields.insert(at, (rng.choice((number, number + 1, rng.randrange(1, 40))), wire, value))
    elif kind in (4, 5) and (known := _below(source)):
        same = [each for each in known if each[:2] == (number, wire)]
        fields[at : at + rng.choice((0, 1, 1))] = [rng.choice(same or known)]
    else:
        fields[at : at + 1] = [(number, *_value(rng, wire, value))]
    return message_of(fields)


def _value(rng: random.Random, wire: int, value: int | bytes) -> tuple[int, int | bytes]:
    """Return a wire type and a value in place of those of a field."""
    if rng.random() < 0.05:
        return rng.choice(
            ((0, integer(rng)), (2, rng.choice(TEXTS).encode("utf-8", "ignore")), (5, bytes(4)))
        )
    if isinstance(value, int):
        return wire, integer(rng, near=value)
    if wire != 2:
        code, bits = ("<f", 32) if wire == 5 else ("<d", 64)
        whole = integer(rng, bits).to_bytes(bits // 8, "little")
        return wire, rng.choice((struct.pack(code, rng.choice(FLOATS)), whole))
    return wire, rng.choice((mutate_bytes, mutate_numbers, _other_text))(rng, value)


def _other_text(rng: random.Random, _: bytes) -> bytes:
    return rng.choice(TEXTS).encode("utf-8", "surrogatepass")
