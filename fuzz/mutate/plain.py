"""Mutations of bytes without a known structure, and of text as tokens."""

from __future__ import annotations

import random
import re
import struct
from functools import lru_cache

from fuzz.mutate.values import FLOATS, INTEGERS, TEXTS, integer


def mutate_bytes(rng: random.Random, data: bytes, donor: bytes = b"") -> bytes:
    """Return bytes with a few changes: bits, numbers at limits, pieces."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        kind, at, size = rng.randrange(8), rng.randrange(len(out) + 1), rng.choice((1, 2, 4, 8))
        if kind == 0:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
        elif kind == 1 and donor:
            start, length = rng.randrange(len(donor)), rng.choice((1, 16, 64, 512))
            out[at : at + rng.choice((0, length))] = donor[start : start + length]
        elif kind == 2 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del out[at : at + rng.choice((size, 64, 1000, len(out) if rng.random() < 0.2 else 1))]
        elif kind == 4:
            out[at:at] = out[at : at + 4 * size] * rng.choice((1, 1, 2, 50))
        elif at + size <= len(out):
            at -= at % size if rng.random() < 0.6 else 0
            near = int.from_bytes(out[at : at + size], "little")
            number = integer(rng, 8 * size, near).to_bytes(size, "little")
            is_float = size == 4 and rng.random() < 0.4
            out[at : at + size] = struct.pack("<f", rng.choice(FLOATS)) if is_float else number
    return bytes(out)


@lru_cache(1024)
def tokens_of(text: str) -> tuple[str, ...]:
    """Return the words, numbers, spaces and marks of a text."""
    return tuple(re.findall(r"[A-Za-z_]\w*|-?\d[\w.+]*|\s+|\"[^\"\n]*\"|[^\w\s]", text))


def mutate_text(rng: random.Random, text: str, other: str = "") -> str:
    """Return a text with a few changed tokens: its own, a donor's or odd ones."""
    parts, known = list(tokens_of(text)), tokens_of(other) or tokens_of(text) or ("x",)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, kind = rng.randrange(len(parts) + 1), rng.randrange(7)
        new = rng.choice((rng.choice(known), rng.choice(TEXTS), str(rng.choice((*INTEGERS, *FLOATS)))))
        if kind == 0:
            del parts[at : at + rng.choice((1, 1, 2, 5, 30))]
        elif kind == 1:
            parts[at : at + rng.choice((0, 0, 1))] = [new]
        elif kind == 2 and parts:
            start, size = rng.randrange(len(parts)), rng.choice((1, 2, 5, 20, 60))
            parts[at:at] = parts[start : start + size] * rng.choice((1, 1, 2, 40))
        elif kind == 3 and at < len(parts):
            cut = rng.randrange(len(parts[at]) + 1)
            parts[at] = (
                parts[at][:cut] + chr(rng.choice((0, 9, 10, 13, 27, 34, 92, 0x2028))) + parts[at][cut:]
            )
        else:  # a token of one sort
            pattern = rng.choice((r"-?\d.*", r'[A-Za-z_].*|".*"'))
            places = [index for index, part in enumerate(parts) if re.fullmatch(pattern, part)]
            if places:
                index = rng.choice(places)
                parts[index] = f'"{new}"' if parts[index][:1] == '"' else new
    return "".join(parts)
