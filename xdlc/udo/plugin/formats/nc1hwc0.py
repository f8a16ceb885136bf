"""NC1HWC0: channels in blocks of C0, the channels of a block beside each other.

``N, C, H, W`` becomes ``N, C1, H, W, C0`` with ``C1 = ceil(C / C0)``; the channels beyond C are zero.  C0 is
32 for elements of one byte and 16 for those of two or four, as in Ascend's offline models.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.udo.plugin.formats.base import Array, Format, Shape, blocks, channel_block, four_axes


class Nc1hwc0(Format):
    """Channels in blocks; a tensor of one axis counts as channels, one of two as N and C."""

    name = "NC1HWC0"
    layout = "NCHW"
    is_packed = True

    def packed_shape(self, shape: Shape, itemsize: int) -> Shape:
        """Return N, C1, H, W, C0.

        Example:
            >>> Nc1hwc0().packed_shape((2, 33, 5, 7), 4), Nc1hwc0().packed_shape((33,), 1)
            ((2, 3, 5, 7, 16), (1, 2, 1, 1, 32))
        """
        n, c, h, w = self._axes(shape)
        size = channel_block(itemsize, self.name)
        return (n, blocks(c, size), h, w, size)

    def pack(self, array: Array) -> Array:
        import numpy

        n, c, h, w = self._axes(array.shape)
        _, c1, _, _, c0 = self.packed_shape(array.shape, array.dtype.itemsize)
        whole = numpy.zeros((n, c1 * c0, h, w), array.dtype)
        whole[:, :c] = array.reshape(n, c, h, w)
        return numpy.ascontiguousarray(whole.reshape(n, c1, c0, h, w).transpose(0, 1, 3, 4, 2))

    def unpack(self, array: Array, shape: Sequence[int]) -> Array:
        import numpy

        shape = self.check_packed(array, shape)
        _, c, _, _ = self._axes(shape)
        n, c1, h, w, c0 = array.shape
        whole = array.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)
        return numpy.ascontiguousarray(whole[:, :c]).reshape(shape)

    def _axes(self, shape: Shape) -> Shape:
        return four_axes(shape, self.name, vector=(1, shape[0] if shape else 0, 1, 1))
