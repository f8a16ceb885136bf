"""Scales per block as integers over one scale per channel, where that is exact."""

from __future__ import annotations

from xdlc.ir import BlockScaleOffset, BlockwiseExpansion
from xdlc.ir.data import Array

_BITS = 4
_LARGEST = 1 << _BITS


def expansion(
    encoding: BlockScaleOffset, shape: tuple[int, ...], axis: int, along: int
) -> BlockwiseExpansion | None:
    """Return symmetric scales per block as QNN's blockwise expansion ("LPBQ"), or None if they are not one.

    Args:
        encoding: Blocks along one axis.
        shape: Shape of the weights.
        axis: Axis of the channels out.
        along: Axis of the blocks, that of the channels in.
    """
    import numpy

    block = encoding.block_shape
    if numpy.any(encoding.offsets) or any(
        extent != 1 for position, extent in enumerate(block) if position != along
    ):
        return None
    if any(extent != 1 for position, extent in enumerate(shape) if position not in (axis, along)):
        return None
    grid = [extent // size for extent, size in zip(shape, block, strict=True)]
    steps = numpy.asarray(encoding.scales, numpy.float32).reshape(grid)
    steps = numpy.moveaxis(steps, (axis, along), (0, 1)).reshape(shape[axis], -1)
    scales: list[float] = []
    integers: list[int] = []
    for row in steps:
        factors = _factored(row)
        if factors is None:  # the first channel tells, as a rule
            return None
        scales.append(factors[0])
        integers += map(int, factors[1])
    return BlockwiseExpansion(axis, tuple(scales), (0,) * shape[axis], steps.shape[1], _BITS, tuple(integers))


def _factored(steps: Array) -> tuple[float, Array] | None:
    """Return a float32 number and integers from 1 to 16 whose products are the steps, to the last bit."""
    import numpy

    row = numpy.asarray(steps, numpy.float32)
    for count in range(1, _LARGEST + 1):
        near = row.max() / numpy.float32(count)
        for scale in (near, numpy.nextafter(near, 0), numpy.nextafter(near, numpy.float32("inf"))):
            integers = numpy.rint(row / scale)
            within = integers.min() >= 1 and integers.max() <= _LARGEST
            if within and (integers.astype(numpy.float32) * scale == row).all():
                return float(scale), integers
    return None
