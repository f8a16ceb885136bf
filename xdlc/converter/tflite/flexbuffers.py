"""Flexbuffers: schemaless options of custom operators, from untrusted files.

Values are written before what refers to them: the root is last, with its type and width in the two bytes
after it, and offsets count backwards (flexbuffers.h of google/flatbuffers).
"""

from __future__ import annotations

import struct
from typing import Any

_DEPTH = 32
_MOST = 1 << 16
"""Values that one buffer may denote: shared ones count each time."""
_INLINE = {0: "null", 1: "q", 2: "Q", 3: "d", 26: "bool"}
_INDIRECT = {6: "q", 7: "Q", 8: "d"}
_KEY, _STRING, _MAP, _VECTOR, _BLOB = 4, 5, 9, 10, 25
_TYPED = {11: 1, 12: 2, 13: 3, 14: _KEY, 15: _STRING, 36: 26}
"""Types of the elements of typed vectors, by the type of the vector."""
_FIXED = {16 + 3 * (size - 2) + kind: (kind + 1, size) for size in (2, 3, 4) for kind in range(3)}
"""Types and numbers of the elements of vectors of fixed size, by the type of the vector."""
_CODES = {
    **{("q", 1 << power): code for power, code in enumerate("bhiq")},
    **{("Q", 1 << power): code for power, code in enumerate("BHIQ")},
    **{("d", 1 << power): code for power, code in enumerate("Befd") if power},
}


def decoded(data: bytes) -> Any:
    """Return a flexbuffer's value: None, bool, int, float, str, bytes, lists, maps.

    Raises:
        ValueError: If it breaks the format's rules, nests too deep, or denotes too many values.
    """
    if len(data) < 3:
        raise ValueError(f"a flexbuffer has at least 3 bytes, not {len(data)}")
    packed, width = data[-2:]
    if width not in (1, 2, 4, 8):
        raise ValueError(f"its root is {width} bytes wide")
    return _Reader(data).value(len(data) - 2 - width, width, packed, 0)


def _text(data: bytes) -> str | bytes:
    """Return a string's content: writers store serialized messages as strings too."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = _MOST

    def number(self, kind: str, position: int, width: int) -> Any:
        """Return a number of a kind: ``q`` signed, ``Q`` unsigned, ``d`` floating point."""
        if position < 0 or position + width > len(self._data) or (kind, width) not in _CODES:
            raise ValueError(f"it has a number of {width} bytes at byte {position} of {len(self._data)}")
        return struct.unpack_from("<" + _CODES[kind, width], self._data, position)[0]

    def target(self, position: int, width: int) -> int:
        """Return the position that an offset refers to."""
        found = int(position - self.number("Q", position, width))
        if not 0 <= found <= position:  # equal for an empty vector before it
            raise ValueError(f"it refers to byte {found} from byte {position}")
        return found

    def count(self, position: int, width: int, size: int) -> int:
        """Return the size of a vector, checked to be in the buffer at ``size`` bytes each."""
        found = int(self.number("Q", position - width, width))
        if found * size > len(self._data) - position:
            raise ValueError(f"it has {found} elements at byte {position} of {len(self._data)}")
        return found

    def value(self, position: int, width: int, packed: int, depth: int) -> Any:
        """Return a value of a packed type, at a position, in a vector of a width."""
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise ValueError(f"it nests deeper than {_DEPTH}, or denotes more than {_MOST} values")
        kind, own = packed >> 2, 1 << (packed & 3)
        if kind in _INLINE:
            code = _INLINE[kind]
            if code == "null":
                return None
            return (
                bool(self.number("Q", position, width))
                if code == "bool"
                else self.number(code, position, width)
            )
        place = self.target(position, width)
        if kind in _INDIRECT:
            return self.number(_INDIRECT[kind], place, own)
        if kind == _KEY:
            return self.key(place)
        if kind in (_STRING, _BLOB):
            held = self._data[place : place + self.count(place, own, 1)]
            return _text(held) if kind == _STRING else held
        if kind == _MAP:
            names = self.vector(
                self.target(place - 3 * own, own), self.number("Q", place - 2 * own, own), _KEY, depth
            )
            values = self.vector(place, own, None, depth)
            if len(names) != len(values) or len(set(names)) != len(names):
                raise ValueError(f"it has {len(names)} keys for {len(values)} values")
            return dict(zip(names, values, strict=True))
        if kind == _VECTOR:
            return self.vector(place, own, None, depth)
        if kind in _TYPED:
            return self.vector(place, own, _TYPED[kind], depth)
        if kind in _FIXED:
            return self.elements(place, own, *_FIXED[kind], depth)
        raise ValueError(f"it has a value of type {kind}")

    def key(self, place: int) -> str:
        """Return a zero-terminated text."""
        end = self._data.find(b"\0", place)
        if end < 0:
            raise ValueError(f"the key at byte {place} has no end")
        return str(self._data[place:end], "utf-8")

    def vector(self, place: int, width: int, kind: int | None, depth: int) -> list[Any]:
        """Return a vector's elements; untyped vectors store types after the elements."""
        count = self.count(place, width, width + (kind is None))
        if kind is not None:
            return self.elements(place, width, kind, count, depth)
        types = self._data[place + count * width :][:count]
        return [
            self.value(place + index * width, width, packed, depth + 1) for index, packed in enumerate(types)
        ]

    def elements(self, place: int, width: int, kind: int, count: int, depth: int) -> list[Any]:
        """Return elements of one type."""
        packed = kind << 2
        return [self.value(place + index * width, width, packed, depth + 1) for index in range(count)]
