"""NHWC: channels last."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.udo.plugin.formats.base import Array, Format, Shape


class Nhwc(Format):
    """Channels last: activations are brought there by Transpose ops, weights when they are stored."""

    name = "NHWC"
    layout = "NHWC"

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else shape

    def pack(self, array: Array) -> Array:
        import numpy

        return numpy.ascontiguousarray(numpy.moveaxis(array, 1, -1)) if array.ndim > 2 else array

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        self.check_packed(array, shape)
        return numpy.ascontiguousarray(numpy.moveaxis(array, -1, 1)) if array.ndim > 2 else array
