"""Messages of protobuf by field number."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return an integer as protobuf encodes it."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes | str | int) -> bytes:
    """Return a field of bytes, or of an integer."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    data = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(data)) + data
