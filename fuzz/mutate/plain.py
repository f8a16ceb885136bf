"""Mutations of bytes without a known structure, and of text as tokens."""

from __future__ import annotations

import random
import re
import struct
from functools import lru_cache

from fuzz.mutate.values import FLOATS, INTEGERS, TEXTS, integer


def mutate_bytes(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return bytes with a few changes: bits, integers at limits, pieces removed, repeated, exchanged."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(9 if len(out) > 8 else 2)
        if kind == 0:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 64)))
        elif kind == 1 and other:
            start, size = rng.randrange(len(other)), rng.choice((1, 4, 16, 64, 512))
            out[at : at + rng.choice((0, size))] = other[start : start + size]
        elif kind == 2:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif kind == 3:
            out[rng.randrange(len(out))] = rng.randrange(256)
        elif kind in (4, 5):
            size = rng.choice((1, 2, 4, 8))
            at = rng.randrange(len(out) - 8)
            at -= at % size if rng.random() < 0.6 else 0
            near = int.from_bytes(out[at : at + size], "little")
            out[at : at + size] = integer(rng, 8 * size, near).to_bytes(size, "little")
        elif kind == 6:
            del out[at : at + rng.choice((1, 2, 4, 8, 64, 1000))]
        elif kind == 7:
            start = rng.randrange(len(out))
            out[at:at] = out[start : start + rng.choice((1, 4, 8, 32, 256))] * rng.choice((1, 1, 2, 50))
        elif rng.random() < 0.2:
            del out[at:]
    return bytes(out)


def mutate_numbers(rng: random.Random, data: bytes) -> bytes:
    """Return bytes in which some aligned numbers of one size are replaced."""
    out, size = bytearray(data), rng.choice((1, 2, 4, 8))
    for _ in range(rng.choice((1, 2, 5))):
        if len(out) < size:
            break
        at = rng.randrange(len(out) // size) * size
        value = integer(rng, 8 * size).to_bytes(size, "little")
        if size == 4 and rng.random() < 0.5:
            value = struct.pack("<f", rng.choice(FLOATS))
        out[at : at + size] = value
    return bytes(out)


@lru_cache(1024)
def tokens_of(text: str) -> tuple[str, ...]:
    """Return the words, numbers, spaces and marks of a text."""
    return tuple(re.findall(r"[A-Za-z_]\w*|-?\d[\w.+]*|\s+|\"[^\"\n]*\"|[^\w\s]", text))


def mutate_text(rng: random.Random, text: str, other: str = "") -> str:
    """Return a text with a few changes of tokens; tokens come from it, from another text or are odd."""
    parts, known = list(tokens_of(text)), tokens_of(other) or tokens_of(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, kind = rng.randrange(len(parts) + 1), rng.randrange(8)
        new = rng.choice((*TEXTS, *map(str, INTEGERS), *map(str, FLOATS)))
        if kind == 0:
            del parts[at : at + rng.choice((1, 1, 2, 5, 30))]
        elif kind == 1:
            parts[at:at] = [new]
        elif kind == 2 and known:
            parts[at : at + rng.choice((0, 1))] = [rng.choice(known)]
        elif kind == 3 and parts:
            start, size = rng.randrange(len(parts)), rng.choice((1, 2, 5, 20, 60))
            parts[at:at] = parts[start : start + size] * rng.choice((1, 1, 2, 40))
        elif kind == 4 and parts:
            one, two = rng.randrange(len(parts)), rng.randrange(len(parts))
            parts[one], parts[two] = parts[two], parts[one]
        elif kind == 5:
            numbers = [index for index, part in enumerate(parts) if part.lstrip("-")[:1].isdigit()]
            if numbers:
                parts[rng.choice(numbers)] = str(rng.choice((*INTEGERS, *FLOATS)))
        elif kind == 6 and parts:
            index = min(at, len(parts) - 1)
            code = rng.choice((0, 9, 10, 13, 27, 34, 39, 60, 92, 127, 0xA0, 0x2028, 0xFFFF, 0x1F600))
            cut = rng.randrange(len(parts[index]) + 1)
            parts[index] = parts[index][:cut] + chr(code) + parts[index][cut:]
        else:
            words = [index for index, part in enumerate(parts) if part[:1] in '"_' or part.isidentifier()]
            if words:
                index = rng.choice(words)
                parts[index] = f'"{new}"' if parts[index][:1] == '"' else new
    return "".join(parts)
