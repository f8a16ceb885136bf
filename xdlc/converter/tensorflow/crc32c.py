"""CRC-32C of large data, many ranges of them at once.

The polynomial is Castagnoli's, 0x1EDC6F41, reflected (RFC 3720, appendix B.4).  The register after some bytes
is a linear function, over GF(2), of the register before and of the bytes: equal ranges of the data are
processed beside each other, and their registers combined.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

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
    import numpy as np

    register, table = _ONES, _tables()
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


def stored_crc(data: memoryview) -> int:
    """Return a CRC of four bytes."""
    return int(struct.unpack("<I", data)[0])


@cache
def _tables() -> Array:
    """Return tables of the register after two bytes, by its xor with these."""
    import numpy as np

    held: Array = np.arange(65536, dtype=np.uint32)
    for _ in range(16):
        held = (held >> 1) ^ np.where(held & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return held


def _moved(exponent: int, registers: Array) -> Array:
    """Return registers after ``1 << exponent`` bytes of zero more."""
    tables = _zeros(exponent)
    result = tables[0][registers & 0xFF]
    for index in range(1, 4):
        result = result ^ tables[index][(registers >> 8 * index) & 0xFF]
    return result


@cache
def _zeros(exponent: int) -> Array:
    """Return tables of the register after ``1 << exponent`` zero bytes, by byte."""
    import numpy as np

    columns = _columns(exponent)
    tables: Array = np.zeros((4, 256), np.uint32)
    for bit, column in enumerate(columns):
        low = 1 << bit % 8
        tables[bit // 8, low : 2 * low] = tables[bit // 8, :low] ^ column
    return tables


@cache
def _columns(exponent: int) -> Array:
    """Return the register after ``1 << exponent`` zero bytes, by the bit set before."""
    import numpy as np

    if exponent:
        return _moved(exponent - 1, _columns(exponent - 1))
    held: Array = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(8):
        held = (held >> 1) ^ np.where(held & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return held
