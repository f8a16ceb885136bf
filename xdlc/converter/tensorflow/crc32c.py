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
_LANES = 1 << 13
_SMALL = 1 << 10
_MASK_DELTA = 0xA282EAD8
"""Constant of the masked form of LevelDB's table format."""
Array = Any


def crc32c(data: memoryview) -> int:
    """Return the CRC-32C of some bytes."""
    import numpy as np

    register, table = _ONES, _tables()
    while len(data) >= _SMALL:
        lanes = min(_LANES, 1 << (len(data).bit_length() - 7))
        size = len(data) // lanes // 2 * 2
        words = np.frombuffer(data[: lanes * size], "<u2").reshape(lanes, size // 2)
        held = np.zeros(lanes, np.uint32)
        for column in range(size // 2):
            held = table[(held ^ words[:, column]) & 0xFFFF] ^ (held >> 16)
        shift = _power(size)
        register = int(_apply(_power(size * lanes), np.array([register], np.uint32))[0])
        while len(held) > 1:
            held = _apply(shift, held[::2]) ^ held[1::2]
            shift = _apply(shift, shift)
        register ^= int(held[0])
        data = data[lanes * size :]
    narrow = table[:65536:256]
    for byte in data:
        register = int(narrow[(register ^ byte) & 0xFF]) ^ (register >> 8)
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
    """Return the register after two bytes, by the bytes exclusive-or the low half of the register before."""
    import numpy as np

    held: Array = np.arange(65536, dtype=np.uint32)
    for _ in range(16):
        held = (held >> 1) ^ np.where(held & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return held


def _power(nbytes: int) -> Array:
    """Return the columns of the matrix that processes a number of zero bytes."""
    import numpy as np

    result: Array = np.uint32(1) << np.arange(32, dtype=np.uint32)
    step = result
    for _ in range(8):
        step = (step >> 1) ^ np.where(step & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    while nbytes:
        if nbytes & 1:
            result = _apply(step, result)
        step = _apply(step, step)
        nbytes >>= 1
    return result


def _apply(columns: Array, vectors: Array) -> Array:
    """Return the products of a matrix, by its columns, and vectors of 32 bits."""
    import numpy as np

    result = np.zeros_like(vectors)
    for bit in range(32):
        result ^= np.where(vectors >> np.uint32(bit) & 1, columns[bit], np.uint32(0))
    return result
