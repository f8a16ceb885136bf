"""Tables of LevelDB's format with checksums: the index of tensor bundles.

The polynomial is Castagnoli's, 0x1EDC6F41, reflected (RFC 3720, appendix B.4).  The register after some bytes
is a linear function, over GF(2), of the register before and of the bytes: equal ranges of the data are
processed beside each other, and their registers combined.

Source: table_format.md of LevelDB; format_description.txt of snappy.  Blocks are limited, so that a small
file cannot expand to a large one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from xdlc.converter.protobuf_fields import varint
from xdlc.errors import ModelError

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_LANES, _SHORTEST = 13, 6
"""Binary logarithms of the most ranges beside each other, and of the least bytes of each."""
_SMALL = 1 << 10
_MASK_DELTA = 0xA282EAD8
"""Constant of the masked form of LevelDB's table format."""
Array = Any


def crc32c(data: memoryview) -> int:
    """Return the CRC-32C of some bytes."""
    register, table = _ONES, _table()
    while len(data) >= _SMALL:
        whole = len(data).bit_length() - 1
        lanes = min(_LANES, whole - _SHORTEST)
        words = np.frombuffer(data[: 1 << whole], "<u2").reshape(1 << lanes, -1)
        registers = np.zeros(1 << lanes, np.uint32)
        for column in range(words.shape[1]):
            registers = table[(registers ^ words[:, column]) & 0xFFFF] ^ (registers >> 16)
        for level in range(whole - lanes, whole):
            registers = _moved(level, registers[::2]) ^ registers[1::2]
        register = int(_moved(whole, np.array([register], np.uint32))[0] ^ registers[0])
        data = data[1 << whole :]
    narrow = table[:65536:256].tolist()
    for byte in data:
        register = narrow[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ _ONES


def masked(crc: int) -> int:
    """Return a CRC in the form in which tables and tensor bundles store it."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ONES


def matches(data: memoryview, stored: int) -> bool:
    """Return whether some bytes have a CRC that is stored in masked form."""
    return masked(crc32c(data)) == stored


@cache
def _table() -> Array:
    """Return the table of the register after two bytes, by its xor with these."""
    return _shifted(np.arange(65536, dtype=np.uint32), 16)


def _shifted(registers: Array, bits: int) -> Array:
    """Return registers after some bits of zero."""
    for _ in range(bits):
        registers = (registers >> 1) ^ (registers & 1) * np.uint32(_POLYNOMIAL)
    return registers


def _moved(exponent: int, registers: Array) -> Array:
    """Return registers after ``1 << exponent`` bytes of zero more."""
    bits = registers[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return np.bitwise_xor.reduce(bits * _columns(exponent), axis=1)


@cache
def _columns(exponent: int) -> Array:
    """Return the register after ``1 << exponent`` zero bytes, by the bit set before."""
    if exponent:
        return _moved(exponent - 1, _columns(exponent - 1))
    return _shifted(np.uint32(1) << np.arange(32, dtype=np.uint32), 8)


MAGIC = 0xDB4775248B80FB57
FOOTER = 48
MOST_BYTES = 1 << 26
"""Bytes that the blocks of a table hold at most, and that its keys do."""
MOST_ENTRIES = 1 << 18
_SNAPPY = 1


def entries(data: memoryview, where: str) -> dict[bytes, bytes]:
    """Return the values of a table by key.

    Raises:
        ModelError: If it is not a table, is damaged or too large.
    """
    try:
        return _entries(data)
    except (ValueError, IndexError, struct.error) as error:
        raise ModelError(
            f"the file is not a checkpoint index, or is damaged ({error})",
            where=where,
            fix="obtain the file again, or save the model again",
        ) from error


def _entries(data: memoryview) -> dict[bytes, bytes]:
    if len(data) < FOOTER or struct.unpack("<Q", data[-8:])[0] != MAGIC:
        raise ValueError("the footer is not the footer of a table")
    position = len(data) - FOOTER
    for _ in range(2):  # the range of the block of statistics
        _, position = varint(data, position, len(data))
    offset, position = varint(data, position, len(data))
    size, position = varint(data, position, len(data))
    left = [MOST_BYTES, MOST_ENTRIES]
    entries: dict[bytes, bytes] = {}
    for _, handle in _block(data, offset, size, left):
        place = memoryview(handle)
        offset, position = varint(place, 0, len(place))
        size, _ = varint(place, position, len(place))
        for key, value in _block(data, offset, size, left):
            entries[key] = value
    return entries


def _block(data: memoryview, offset: int, size: int, left: list[int]) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over keys and values of a block.

    Args:
        offset: First byte of the block.
        left: Bytes and entries that the table may still hold.
    """
    if offset + size + 5 > len(data) - FOOTER:
        raise ValueError(f"a block of {size} bytes at {offset} is out of bounds")
    (crc,) = struct.unpack_from("<I", data, offset + size + 1)
    if not matches(data[offset : offset + size + 1], crc):
        raise ValueError(f"the checksum of the block at {offset} is wrong")
    block = data[offset : offset + size]
    if data[offset + size] == _SNAPPY:
        block = memoryview(unpacked(block, left[0]))
    elif data[offset + size]:
        raise ValueError(f"the block at {offset} has an unknown compression")
    _take(left, 0, len(block))
    if len(block) < 4:
        raise ValueError(f"the block at {offset} is too short")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError(f"the block at {offset} has {restarts} restarts")
    position, key = 0, b""
    while position < end:
        shared, position = varint(block, position, len(block))
        unshared, position = varint(block, position, len(block))
        length, position = varint(block, position, len(block))
        begin = position + unshared
        if shared > len(key) or begin + length > end:
            raise ValueError(f"an entry of the block at {offset} is out of bounds")
        _take(left, 0, shared + unshared)
        _take(left, 1, 1)
        key = key[:shared] + bytes(block[position:begin])
        position = begin + length
        yield key, bytes(block[begin:position])


def _take(left: list[int], which: int, count: int) -> None:
    left[which] -= count
    if left[which] < 0:
        raise ValueError("the table is too large")


def unpacked(data: memoryview, limit: int) -> bytes:
    """Return snappy data decompressed.

    Args:
        limit: Bytes that the result has at most.
    """
    size, position = varint(data, 0, len(data))
    if size > limit:
        raise ValueError(f"a block expands to {size} bytes")
    out = bytearray()
    while position < len(data):
        tag = data[position]
        position += 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[position : position + extra], "little") + 1
                position += extra
            if position + length > len(data):
                raise ValueError("a literal exceeds its block")
            out += data[position : position + length]
            position += length
        else:
            if kind == 1:
                length, back = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[position]
                position += 1
            else:
                width = 2 if kind == 2 else 4
                back = int.from_bytes(data[position : position + width], "little")
                position += width
            if not 0 < back <= len(out):
                raise ValueError("a copy starts before its block")
            pattern = bytes(out[-back:][:length])
            out += (pattern * (length // len(pattern) + 1))[:length]
        if len(out) > size:
            raise ValueError("a block is longer than it states")
    if len(out) != size:
        raise ValueError("a block is shorter than it states")
    return bytes(out)
