"""Writer of flexbuffers for tests: every number is 8 bytes wide."""

from __future__ import annotations

import struct
from typing import Any

_NUMBERS = {bool: (26, "Q"), int: (1, "q"), float: (3, "d")}


def flexbuffer(value: Any) -> bytes:
    """Return a flexbuffer of numbers, texts, bytes, lists and maps of these."""
    out = bytearray()

    def aligned() -> int:
        out.extend(bytes(-len(out) % 8))
        return len(out)

    def held(content: bytes, end: bytes = b"") -> int:
        aligned()
        out.extend(struct.pack("<Q", len(content)))
        place = len(out)
        out.extend(content + end)
        return place

    def write(item: Any) -> tuple[int, Any, bool]:
        """Return type, content, and whether the content is a place instead of a number."""
        if type(item) in _NUMBERS:
            return _NUMBERS[type(item)][0], struct.pack("<" + _NUMBERS[type(item)][1], item), False
        if isinstance(item, str | bytes):
            data = item.encode() if isinstance(item, str) else item
            return 5, held(data, b"\0"), True
        if isinstance(item, list):
            return 10, vector([write(each) for each in item]), True
        names = sorted(item)
        places = []
        for name in names:
            places.append(len(out))
            out.extend(name.encode() + b"\0")
        keys = vector([(4, place, True) for place in places], types=False)
        values = [write(item[name]) for name in names]
        place = aligned()
        out.extend(struct.pack("<QQ", place - keys, 8))
        return 9, vector(values), True

    def vector(items: list[tuple[int, Any, bool]], types: bool = True) -> int:
        aligned()
        out.extend(struct.pack("<Q", len(items)))
        place = len(out)
        for _, content, is_place in items:
            out.extend(struct.pack("<Q", len(out) - content) if is_place else content)
        if types:
            out.extend(bytes((kind << 2) | 3 for kind, _, _ in items))
        return place

    kind, content, is_place = write(value)
    aligned()
    out.extend(struct.pack("<Q", len(out) - content) if is_place else content)
    return bytes([*out, (kind << 2) | 3, 8])
