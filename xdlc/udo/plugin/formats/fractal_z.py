"""FRACTAL_Z: weights in squares of 16 output channels by C0 input channels.

``N, C, H, W`` (N output channels) becomes ``C1 * H * W, N1, 16, C0`` with ``C1 = ceil(C / C0)`` and
``N1 = ceil(N / 16)``; what lies beyond C and N is zero, as in Ascend's offline models.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.udo.plugin.formats.base import CUBE, Array, Format, Shape, blocks, channel_block, four_axes


class FractalZ(Format):
    """Weights of convolutions and matrix products; one of two axes counts as N and C."""

    name = "FRACTAL_Z"
    is_packed = True
    for_weights_only = True

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return C1 * H * W, N1, 16, C0.

        Example:
            >>> FractalZ().packed_shape((17, 33, 3, 3), 2), FractalZ().packed_shape((17, 33, 3, 3), 1)
            ((27, 2, 16, 16), (18, 2, 16, 32))
        """
        n, c, h, w = four_axes(shape, self.name)
        size = channel_block(itemsize, self.name)
        return (blocks(c, size) * h * w, blocks(n, CUBE), CUBE, size)

    def pack(self, array: Array) -> Array:
        import numpy

        n, c, h, w = four_axes(array.shape, self.name)
        _, n1, _, c0 = packed = self.packed_shape(array.shape, array.dtype.itemsize)
        c1 = blocks(c, c0)
        whole = numpy.zeros((n1 * CUBE, c1 * c0, h, w), array.dtype)
        whole[:n, :c] = array.reshape(n, c, h, w)
        squares = whole.reshape(n1, CUBE, c1, c0, h, w).transpose(2, 4, 5, 0, 1, 3)
        return numpy.ascontiguousarray(squares).reshape(packed)

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        shape = self.check_packed(array, shape)
        n, c, h, w = four_axes(shape, self.name)
        _, n1, _, c0 = array.shape
        c1 = blocks(c, c0)
        whole = array.reshape(c1, h, w, n1, CUBE, c0).transpose(3, 4, 0, 5, 1, 2)
        return numpy.ascontiguousarray(whole.reshape(n1 * CUBE, c1 * c0, h, w)[:n, :c]).reshape(shape)
