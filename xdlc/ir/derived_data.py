"""Derived data: repetitions, and dequantized values.

Values that quantized values and an encoding define read as float32 data.  Moving their elements moves the
quantized values and the encoding with them, so that a pass can still store these; any other change results
in plain float values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdlc.ir.data import ROWS_CHUNK, Array, ArrayData, TensorData, Transform
from xdlc.ir.dtype import DType
from xdlc.ir.encoding import AxisScaleOffset, BlockScaleOffset, ScaleOffset, floats, integers
from xdlc.ir.files import Target


class Repeated(TensorData):
    """Data repeated like ``numpy.tile``, written in pieces.

    Args:
        base: What is repeated.
        multiples: How often along each of its axes.
    """

    __slots__ = ("_multiples", "base")
    has_rows = True

    def __init__(self, base: TensorData, multiples: Sequence[int]) -> None:
        self.base = base
        self._multiples = tuple(int(count) for count in multiples)
        self.shape = tuple(dim * count for dim, count in zip(base.shape, self._multiples, strict=True))
        self.dtype = base.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return Repeated, (self.base, self._multiples)

    def numpy(self) -> Array:
        return _repeated(self.base.numpy(), self._multiples)

    def rows(self, start: int, stop: int) -> Array:
        import numpy

        size = self.base.shape[0]
        if size == 1:
            return _repeated(self.base.numpy(), (stop - start, *self._multiples[1:]))
        return _repeated(self.base.numpy()[numpy.arange(start, stop) % size], (1, *self._multiples[1:]))

    def write_to(self, file: Target) -> None:
        if not self.shape or self.nbytes <= ROWS_CHUNK * self.shape[0]:
            super().write_to(file)
            return
        rows = self.base.numpy()
        for index in range(self.shape[0]):
            Repeated(ArrayData(rows[index % len(rows)]), self._multiples[1:]).write_to(file)

    def transpose(self, perm: Sequence[int]) -> TensorData:
        return Repeated(self.base.transpose(perm), [self._multiples[axis] for axis in perm])

    def reshape(self, shape: Sequence[int]) -> TensorData:
        if math.prod(self.base.shape) != 1 or math.prod(shape) != math.prod(self.shape):
            return super().reshape(shape)
        return fill(self.base, shape)

    def cast(self, dtype: Any) -> TensorData:
        return Repeated(self.base.cast(dtype), self._multiples)


def fill(value: TensorData, shape: Sequence[int]) -> TensorData:
    """Return data of a shape filled with the single element of ``value``."""
    return Repeated(value.reshape((1,) * len(shape)), shape)


def _repeated(array: Array, multiples: Sequence[int]) -> Array:
    """Return an array repeated along its axes, a view if only sizes of 1 are."""
    import numpy

    if all(dim == 1 or count == 1 for dim, count in zip(array.shape, multiples, strict=True)):
        shape = [dim * count for dim, count in zip(array.shape, multiples, strict=True)]
        return numpy.broadcast_to(array, shape)
    return numpy.tile(array, multiples)


StaticEncoding = ScaleOffset | AxisScaleOffset | BlockScaleOffset


class Dequantized(Transform):
    """Float32 values ``(quantized + offset) * scale``, computed when they are read.

    Attributes:
        stored: The integers, one element each whatever their width.
        fixed: Fixed-point type that stores them.
        encoding: Their encoding.
    """

    __slots__ = ("encoding", "fixed", "stored")

    def __init__(self, stored: TensorData, fixed: DType, encoding: StaticEncoding) -> None:
        import numpy

        self.stored, self.fixed, self.encoding = stored, fixed, encoding
        super().__init__([stored], self._reals, stored.shape, numpy.float32, by_rows=bool(stored.shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return Dequantized, (self.stored, self.fixed, self.encoding)

    def numpy(self) -> Array:
        is_whole = not self.has_rows or self.nbytes <= ROWS_CHUNK
        return super().numpy() if is_whole else self._by_rows()

    def rows(self, start: int, stop: int) -> Array:
        import numpy

        stored = self.stored.rows(start, stop)
        with numpy.errstate(all="ignore"):
            return self._reals(stored, start)

    def _reals(self, stored: Array, start: int = 0) -> Array:
        """Return the values of integers, which are the rows from ``start`` on."""
        import numpy

        encoding, shape = self.encoding, self.shape
        wide = numpy.int64 if self.fixed.bits > 16 else numpy.int32
        if isinstance(encoding, ScaleOffset):
            scale: Any = numpy.float32(encoding.scale)
            offset: Any = numpy.int64(encoding.offset)
        else:
            scale = numpy.asarray(encoding.scales, numpy.float32)
            offset = numpy.asarray(encoding.offsets, numpy.int64)
            if isinstance(encoding, AxisScaleOffset):
                along = [-1 if axis == encoding.axis else 1 for axis in range(len(shape))]
                scale, offset = scale.reshape(along), offset.reshape(along)
                block: tuple[int, ...] = (1,) * len(shape)
            elif self.fixed.bits <= 16 and len(stored) == shape[0]:
                return reals_of_blocks(stored, encoding)
            else:
                grid, block = block_grid(encoding, shape), encoding.block_shape
                scale, offset = scale.reshape(grid), offset.reshape(grid)
            if shape and scale.shape[0] > 1:  # only those of the rows
                first, height = start // block[0], len(stored)
                last, begin = -(-(start + height) // block[0]), start % block[0]
                scale = numpy.repeat(scale[first:last], block[0], 0)[begin : begin + height]
                offset = numpy.repeat(offset[first:last], block[0], 0)[begin : begin + height]
            for axis, size in enumerate(block[1:], 1):
                if size > 1:
                    scale, offset = numpy.repeat(scale, size, axis), numpy.repeat(offset, size, axis)
        return (stored.astype(wide) + offset.astype(wide)).astype(numpy.float32) * scale

    def transpose(self, perm: Sequence[int]) -> TensorData:
        order = tuple(perm)
        if order == tuple(range(len(order))):
            return self
        return Dequantized(self.stored.transpose(order), self.fixed, self._transposed(order))

    def _transposed(self, order: tuple[int, ...]) -> StaticEncoding:
        import numpy

        encoding = self.encoding
        if isinstance(encoding, AxisScaleOffset):
            return replace(encoding, axis=order.index(encoding.axis))
        if isinstance(encoding, BlockScaleOffset):
            grid = block_grid(encoding, self.shape)
            scales = numpy.asarray(encoding.scales).reshape(grid).transpose(order)
            offsets = numpy.asarray(encoding.offsets).reshape(grid).transpose(order)
            shape = tuple(encoding.block_shape[axis] for axis in order)
            return replace(
                encoding,
                block_shape=shape,
                scales=floats(scales.reshape(-1)),
                offsets=integers(offsets.reshape(-1)),
            )
        return encoding

    def reshape(self, shape: Sequence[int]) -> TensorData:
        new_shape = tuple(shape)
        if new_shape == self.shape:
            return self
        encoding = self._reshaped(new_shape)
        if encoding is None:
            return super().reshape(new_shape)
        return Dequantized(self.stored.reshape(new_shape), self.fixed, encoding)

    def _reshaped(self, new_shape: tuple[int, ...]) -> StaticEncoding | None:
        """Return the encoding for another shape; None if it does not exist."""
        encoding = self.encoding
        if isinstance(encoding, ScaleOffset):
            return encoding
        if isinstance(encoding, AxisScaleOffset):
            before = math.prod(self.shape[: encoding.axis])
            size = self.shape[encoding.axis]
            for axis, found in enumerate(new_shape):
                if found == size and math.prod(new_shape[:axis]) == before:
                    return replace(encoding, axis=axis)
        return None


_WHOLE_FLOATS = 1 << 23
"""Whole numbers below it, and their sums with 16-bit integers, are float32 numbers."""


def reals_of_blocks(stored: Array, encoding: BlockScaleOffset) -> Array:
    """Return the float32 values of integers of up to 16 bits with a scale per block.

    No array but the result has as many elements, unless offsets are huge.
    """
    import numpy

    parts, scales, offsets = in_blocks(encoding, stored.shape)
    if numpy.abs(offsets).max(initial=0) < _WHOLE_FLOATS:
        reals: Array = stored.astype(numpy.float32).reshape(parts)
        reals += offsets.astype(numpy.float32)
    else:
        reals = (stored.reshape(parts) + offsets).astype(numpy.float32)
    reals *= scales
    return reals.reshape(stored.shape)


def in_blocks(encoding: BlockScaleOffset, shape: Sequence[int]) -> tuple[list[int], Array, Array]:
    """Return a shape with two axes for each: of blocks, and of a block's elements.

    The float32 scales and integer offsets after it broadcast against that shape.
    """
    import numpy

    grid = block_grid(encoding, shape)
    parts = [size for pair in zip(grid, encoding.block_shape, strict=True) for size in pair]
    by_block = [size for count in grid for size in (count, 1)]
    scales = numpy.asarray(encoding.scales, numpy.float32).reshape(by_block)
    return parts, scales, numpy.asarray(encoding.offsets, numpy.int64).reshape(by_block)


def block_grid(encoding: BlockScaleOffset, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the number of blocks along each axis of a tensor of ``shape``.

    Raises:
        ValueError: If the blocks do not divide the shape, or there is not one scale for each.
    """
    block = encoding.block_shape
    if len(block) != len(shape) or any(b < 1 or n % b for n, b in zip(shape, block, strict=True)):
        raise ValueError(f"blocks of shape {list(block)} do not divide a tensor of shape {list(shape)}")
    grid = tuple(n // b for n, b in zip(shape, block, strict=True))
    if math.prod(grid) != len(encoding.scales):
        raise ValueError(
            f"{math.prod(grid)} blocks need a scale each, but the encoding has {len(encoding.scales)} scales"
        )
    return grid
