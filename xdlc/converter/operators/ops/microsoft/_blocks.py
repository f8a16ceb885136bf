"""Weights of a few bits with one scale per block, packed as onnxruntime does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xdlc import ir
from xdlc.ir import BlockScaleOffset, TensorData
from xdlc.ir.data import Array


@dataclass(frozen=True, slots=True)
class Blocks:
    """Mapping of integers to floats, block by block along one axis.

    Attributes:
        bits: Bits of an integer: 2, 4 or 8.
        axis: Axis that is cut into blocks; the last one may reach over its end.
        size: Size of a block.
        scales: One step for each block, of the rank of the integers.
        zeros: Integers that denote 0, one for each block; may have fractions.
    """

    bits: int
    axis: int
    size: int
    scales: Array
    zeros: Array

    def reals(self, stored: TensorData) -> TensorData:
        """Return floats of unsigned integers, typed like the scales, stored small."""
        size, axis = self.size, self.axis
        whole = stored.shape[axis] % size == 0
        exact = self.scales.dtype == np.float32 and np.all(np.isfinite(self.scales))
        if whole and exact and np.array_equal(self.zeros, np.rint(self.zeros)):
            block = tuple(size if at == axis else 1 for at in range(len(stored.shape)))
            if np.all(self.scales > 0):
                return self._offset(stored, block)
            if self.bits <= 4:
                return self._signed(stored, block)
        along = (*(slice(None),) * axis, slice(0, stored.shape[axis]))

        def real(array: Array) -> Array:
            scales, zeros = (np.repeat(held, size, axis)[along] for held in (self.scales, self.zeros))
            return ((array.astype(np.float32) - zeros) * scales).astype(self.scales.dtype)

        return stored.transform(real, dtype=self.scales.dtype)

    def _offset(self, stored: TensorData, block: tuple[int, ...]) -> TensorData:
        """Return integers with zeros as offsets; those near the middle are signed."""
        scales, zeros = self.scales.reshape(-1), self.zeros.reshape(-1).astype(np.int32)
        used, middle = (self.bits if self.bits < 8 else None), 1 << (self.bits - 1)
        if np.all(zeros == middle):
            moved = stored.transform(
                lambda array: (array.astype(np.int16) - middle).astype(np.int8), dtype=np.int8
            )
            encoding = BlockScaleOffset(block, scales, bits=used)
            return ir.Dequantized(moved, ir.dtype.SFIXED8, encoding)
        encoding = BlockScaleOffset(block, scales, -zeros, used)
        return ir.Dequantized(stored, ir.dtype.UFIXED8, encoding)

    def _signed(self, stored: TensorData, block: tuple[int, ...]) -> TensorData:
        """Return 8-bit distances from the zeros, negated where the scale is negative."""

        def turned(array: Array) -> Array:
            signs = np.repeat(np.sign(self.scales), self.size, self.axis)
            zeros = np.repeat(self.zeros, self.size, self.axis)
            return ((array - zeros) * signs).astype(np.int8)

        steps = np.where(self.scales == 0, 1, np.abs(self.scales))
        encoding = BlockScaleOffset(block, steps.reshape(-1).tolist())
        return ir.Dequantized(stored.transform(turned, dtype=np.int8), ir.dtype.SFIXED8, encoding)


def unpacked(packed: TensorData, bits: int, length: int) -> TensorData:
    """Return one integer per element; bytes of the last axis hold several, low first.

    Args:
        bits: Bits of an integer: 2, 4 or 8.
        length: Integers along the last axis; later ones are omitted.
    """
    shape = (*packed.shape[:-1], length)
    return packed.transform(lambda array: unpacked_array(array, bits, length), shape=shape, dtype=np.uint8)


def unpacked_array(packed: Array, bits: int, length: int) -> Array:
    """Return the integers that bytes hold, as ``unpacked`` does."""
    if bits == 8:
        return packed[..., :length]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart = (packed[..., None] >> shifts) & ((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], -1)[..., :length].astype(np.uint8)
