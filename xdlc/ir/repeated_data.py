"""Tensor data whose elements repeat those of other data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdlc.ir.data import ROWS_CHUNK, Array, ArrayData, TensorData
from xdlc.ir.file_copies import Target


class Repeated(TensorData):
    """Other data repeated as ``numpy.tile`` does, written in pieces.

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
    """Return data of a shape whose elements are all the one that ``value`` holds."""
    return Repeated(value.reshape((1,) * len(shape)), shape)


def _repeated(array: Array, multiples: Sequence[int]) -> Array:
    """Return an array repeated along its axes, a view if only sizes of 1 are."""
    import numpy

    if all(dim == 1 or count == 1 for dim, count in zip(array.shape, multiples, strict=True)):
        shape = [dim * count for dim, count in zip(array.shape, multiples, strict=True)]
        return numpy.broadcast_to(array, shape)
    return numpy.tile(array, multiples)
