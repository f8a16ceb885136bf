"""Values of ggml's types, and the encodings that hold them exactly.

Layouts are those of ggml's ggml-common.h: a row is cut into blocks, each with its scales and integers.
Types whose blocks have a float offset are read as floats: an encoding has integer offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.ir.data import ROWS_CHUNK, Array
from xdlc.llm.checkpoint.model import Weight

Blocks = Array
"""Bytes of blocks, uint8 [rows, blocks in a row, bytes of a block]."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A type of ggml.

    Attributes:
        elements: Elements of a block.
        bytes: Bytes of a block.
        dtype: Name of the numpy dtype of plain numbers.
        integers: Returns the integers of blocks around 0, int8 [rows, blocks, elements].
        scales: Returns float32 steps [rows, blocks, steps of a block].
        bits: Bits of an integer in an encoding.
        has_room: Whether integers use fewer bits.
        floats: Returns float32 values [rows, blocks, elements] of types without an exact encoding.
    """

    name: str
    elements: int
    bytes: int
    dtype: str = ""
    integers: Callable[[Blocks], Array] | None = None
    scales: Callable[[Blocks], Array] | None = None
    bits: int = 8
    has_room: bool = False
    floats: Callable[[Blocks], Array] | None = None


def read_weight(
    file: ir.MappedFile, layout: Layout, offset: int, shape: tuple[int, ...], order: Array | None = None
) -> Weight:
    """Return a tensor of a file, lazily but for the scales of its blocks.

    Args:
        offset: First byte; the caller has checked that the tensor is in the file.
        order: The row of the file that becomes each row; default: the same.
    """
    if layout.dtype:
        import ml_dtypes

        dtype = np.dtype(ml_dtypes.bfloat16 if layout.dtype == "bfloat16" else layout.dtype)
        plain = _ordered(ir.MappedData(file, offset, shape, dtype), order)
        return Weight(plain.cast(np.float32) if layout.dtype in ("bfloat16", "<f8") else plain)
    count = shape[-1] // layout.elements
    rows = 1
    for dim in shape[:-1]:
        rows *= dim
    blocks = _ordered(ir.MappedData(file, offset, (rows, count, layout.bytes), np.uint8), order)
    if layout.floats is not None or len(shape) != 2:
        return Weight(_floats(layout, blocks, shape))
    steps = _scales(layout, blocks)
    if not np.isfinite(steps).all():
        return Weight(_floats(layout, blocks, shape))
    return _integers(layout, blocks, shape, steps)


def _ordered(data: ir.TensorData, order: Array | None) -> ir.TensorData:
    return data if order is None else data.transform(lambda array: array[order], factors=1.0)


def _scales(layout: Layout, blocks: ir.TensorData) -> Array:
    """Return the steps of all blocks, read in pieces."""
    assert layout.scales is not None
    if not blocks.has_rows:
        return layout.scales(blocks.numpy())
    total = blocks.shape[0]
    step = max(1, ROWS_CHUNK * total // max(blocks.nbytes, 1))
    pieces = []
    for start in range(0, total, step):
        stop = min(start + step, total)
        pieces.append(layout.scales(blocks.rows(start, stop)))
        blocks.release_rows(start, stop)
    return np.concatenate(pieces)


def _floats(layout: Layout, blocks: ir.TensorData, shape: tuple[int, ...]) -> ir.TensorData:
    def values(array: Blocks) -> Array:
        if layout.floats is not None:
            return layout.floats(array).reshape(len(array), shape[-1])
        assert layout.integers is not None
        assert layout.scales is not None
        steps = layout.scales(array)
        integers = layout.integers(array).reshape(*steps.shape, -1)
        return (steps[..., None] * integers).reshape(len(array), shape[-1])

    rows = blocks.transform(values, shape=(blocks.shape[0], shape[-1]), dtype=np.float32, by_rows=True)
    return rows.reshape(shape)


def _integers(layout: Layout, blocks: ir.TensorData, shape: tuple[int, ...], steps: Array) -> Weight:
    """Return integers with positive scales.

    ggml's scales may be negative or 0.  Integers of a negative one are negated: in int8 where there is room,
    else in uint8, where the offset of a block states its zero.
    """
    negative, bits = steps < 0, layout.bits
    middle = 1 << (bits - 1)
    is_signed = layout.has_room or not negative.any()
    block = (1, layout.elements // steps.shape[-1])

    def values(array: Blocks) -> Array:
        assert layout.integers is not None
        assert layout.scales is not None
        step = layout.scales(array)[..., None]
        integers = layout.integers(array).reshape(*step.shape[:-1], -1)
        if is_signed:
            return (integers * np.sign(step).astype(np.int8)).reshape(len(array), shape[1])
        stored = integers.astype(np.uint8) + np.uint8(middle)  # modulo 256
        stored ^= np.where(step < 0, 2 * middle - 1, 0).astype(np.uint8)
        if not step.all():
            stored = np.where(step == 0, np.uint8(middle), stored)
        return stored.reshape(len(array), shape[1])

    data = blocks.transform(
        values, shape=shape, dtype=np.int8 if is_signed else np.uint8, by_rows=True, factors=None
    )
    offsets: Any = () if is_signed else np.where(negative, 1 - middle, -middle).astype(np.int32).reshape(-1)
    positive: Any = np.where(steps == 0, np.float32(1), np.abs(steps)).reshape(-1)
    encoding = ir.BlockScaleOffset(block, positive, offsets, bits if bits < 8 else None)
    return Weight(data, encoding)


def _half(blocks: Blocks, at: int) -> Array:
    """Return the float16 numbers at a byte of blocks as float32 [rows, blocks, 1]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(blocks: Blocks, begin: int, stop: int) -> Array:
    """Return the low halves of bytes, then the high ones."""
    part = blocks[..., begin:stop]
    return np.concatenate([part & 15, part >> 4], axis=-1)


def _first_half(blocks: Blocks) -> Array:
    return _half(blocks, 0)


def _q4_0(blocks: Blocks) -> Array:
    return _nibbles(blocks, 2, 18).astype(np.int8) - np.int8(8)


def _q5_0(blocks: Blocks) -> Array:
    high = np.unpackbits(blocks[..., 2:6], axis=-1, bitorder="little")
    return (_nibbles(blocks, 6, 22) | high << 4).astype(np.int8) - np.int8(16)


def _q8_0(blocks: Blocks) -> Array:
    return np.ascontiguousarray(blocks[..., 2:]).view(np.int8)


def _q4_1(blocks: Blocks) -> Array:
    return _nibbles(blocks, 4, 20).astype(np.float32) * _half(blocks, 0) + _half(blocks, 2)


def _six_bits(packed: Array) -> tuple[Array, Array]:
    """Return eight scales and eight minima of six bits, from the 12 bytes of a block."""
    low, high, rest = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([low & 63, rest & 15 | low >> 6 << 4], axis=-1)
    minima = np.concatenate([high & 63, rest >> 4 | high >> 6 << 4], axis=-1)
    return scales, minima


def _k_floats(blocks: Blocks, integers: Array) -> Array:
    """Return values of Q4_K or Q5_K: eight parts of 32 with a scale and a minimum."""
    scales, minima = _six_bits(blocks[..., 4:16])
    steps, lowest = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    parts = integers.astype(np.float32).reshape(*steps.shape, 32)
    return (parts * steps[..., None] - lowest[..., None]).reshape(integers.shape)


def _four_pairs(packed: Array) -> Array:
    """Return 256 integers of four bits: 32 low halves, then 32 high ones, four times."""
    parts = packed.reshape(*packed.shape[:-1], 4, 32)
    return np.concatenate([parts & 15, parts >> 4], axis=-1).reshape(*packed.shape[:-1], 256)


def _q4_k(blocks: Blocks) -> Array:
    return _k_floats(blocks, _four_pairs(blocks[..., 16:144]))


def _q5_k(blocks: Blocks) -> Array:
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    high = (blocks[..., None, 16:48] >> shifts & 1).reshape(*blocks.shape[:-1], 256)
    return _k_floats(blocks, _four_pairs(blocks[..., 48:176]) | high << 4)


def _q6_k(blocks: Blocks) -> Array:
    """Return the integers of Q6_K.

    A block has two halves of 128, each with its low bits in 64 bytes and its high bits in 32.
    """
    low = blocks[..., :128].reshape(*blocks.shape[:-1], 2, 1, 64)
    low = (low >> np.array([[0], [4]], np.uint8) & 15).reshape(*blocks.shape[:-1], 2, 4, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:-1], 2, 1, 32)
    high = high >> np.array([[0], [2], [4], [6]], np.uint8) & 3
    return (low | high << 4).reshape(*blocks.shape[:-1], 256).astype(np.int8) - np.int8(32)


def _q6_k_scales(blocks: Blocks) -> Array:
    return np.ascontiguousarray(blocks[..., 192:208]).view(np.int8) * _half(blocks, 208)


LAYOUTS = {
    0: Layout("F32", 1, 4, "<f4"),
    1: Layout("F16", 1, 2, "<f2"),
    2: Layout("Q4_0", 32, 18, integers=_q4_0, scales=_first_half, bits=4),
    3: Layout("Q4_1", 32, 20, floats=_q4_1),
    6: Layout("Q5_0", 32, 22, integers=_q5_0, scales=_first_half, has_room=True),
    8: Layout("Q8_0", 32, 34, integers=_q8_0, scales=_first_half),
    12: Layout("Q4_K", 256, 144, floats=_q4_k),
    13: Layout("Q5_K", 256, 176, floats=_q5_k),
    14: Layout("Q6_K", 256, 210, integers=_q6_k, scales=_q6_k_scales, has_room=True),
    28: Layout("F64", 1, 8, "<f8"),
    30: Layout("BF16", 1, 2, "bfloat16"),
}
"""Types by their numbers in files."""
