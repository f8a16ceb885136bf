"""Operations with weights as products of matrices: rows of the input times columns of the weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdlc.ir import Op
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits
from xdlc.quant.op_specs import numbers


class Layout(ABC):
    """How an operation is a product for each of its groups: results = rows @ matrix, bias aside.

    Attributes:
        groups: Number of groups, G; each has its own rows and matrix.
        depth: Inputs of each result, K.
        width: Results of each group, M.
    """

    groups: int
    depth: int
    width: int

    @abstractmethod
    def matrix(self, weight: Array) -> Array:
        """Return an array of the weight's shape as [G, K, M]."""

    @abstractmethod
    def weight(self, matrix: Array) -> Array:
        """Return what ``matrix`` makes [G, K, M] of in the weight's shape."""

    @abstractmethod
    def positions(self, shape: Sequence[int]) -> int:
        """Return how many rows an input of some shape has."""

    @abstractmethod
    def rows(self, source: Array, chosen: Array) -> Array:
        """Return rows of an input as [G, P, K].

        Args:
            chosen: P row numbers; row n is that of the n-th position of the result, in row-major order.
        """


class Dense(Layout):
    """FullyConnected and MatMul: all of a row times all of the weight.

    Args:
        shape: Shape of the weight, [K, M].
        turned: Whether the weight is [M, K].
    """

    def __init__(self, shape: Sequence[int], *, turned: bool) -> None:
        self.groups = 1
        self.turned = turned
        self.depth, self.width = (shape[1], shape[0]) if turned else (shape[0], shape[1])

    def matrix(self, weight: Array) -> Array:
        return (weight.T if self.turned else weight)[None]

    def weight(self, matrix: Array) -> Array:
        return matrix[0].T if self.turned else matrix[0]

    def positions(self, shape: Sequence[int]) -> int:
        return math.prod(shape) // self.depth

    def rows(self, source: Array, chosen: Array) -> Array:
        return source.reshape(-1, self.depth)[chosen][None]


class Convolution(Layout):
    """Convolutions of any number of spatial axes, grouped, depthwise or transposed, channels last.

    Args:
        kernel: Shape of the weight: spatial dimensions, channels in, channels out, those of a group where
            the channels are grouped.
        results: Spatial dimensions of the result.
        strides: Of each spatial axis, as the next two.
        transposed: Whether it is a transposed convolution.
    """

    def __init__(
        self,
        kernel: Sequence[int],
        results: Sequence[int],
        groups: int,
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[int],
        *,
        transposed: bool = False,
    ) -> None:
        self.groups, self.transposed = groups, transposed
        self.kernel, self.results = tuple(kernel), tuple(results)
        self.taps = self.kernel[:-2]
        count = math.prod(self.taps)
        # A transposed convolution's weight has all channels in and a group's channels out.
        self._split = (
            (count, groups, kernel[-2] // groups, kernel[-1])
            if transposed
            else (count, kernel[-2], groups, kernel[-1] // groups)
        )
        self._order = (1, 0, 2, 3) if transposed else (2, 0, 1, 3)
        depth = kernel[-2] // groups if transposed else kernel[-2]
        self.depth, self.width = count * depth, self._split[3]
        self._steps = tuple(zip(strides, dilations, pads, strict=True))

    def matrix(self, weight: Array) -> Array:
        return weight.reshape(self._split).transpose(self._order).reshape(self.groups, self.depth, self.width)

    def weight(self, matrix: Array) -> Array:
        import numpy as np

        shape = [self._split[axis] for axis in self._order]
        return matrix.reshape(shape).transpose(np.argsort(self._order)).reshape(self.kernel)

    def positions(self, shape: Sequence[int]) -> int:
        return shape[0] * math.prod(self.results)

    def rows(self, source: Array, chosen: Array) -> Array:
        import numpy as np

        batch, *places = np.unravel_index(chosen, (source.shape[0], *self.results))
        flat, inside = batch.reshape(-1, *([1] * len(self.taps))), np.ones((), bool)
        for axis, (place, taps, size) in enumerate(zip(places, self.taps, source.shape[1:-1], strict=True)):
            index, valid = self._read(place, taps, size, *self._steps[axis])
            spread = [taps if at == axis else 1 for at in range(len(self.taps))]
            flat = flat * size + index.reshape(len(chosen), *spread)
            inside = inside & valid.reshape(len(chosen), *spread)
        channels = source.shape[-1]
        found = source.reshape(-1, channels)[flat]
        if not inside.all():
            found *= inside[..., None]
        found = found.reshape(len(chosen), math.prod(self.taps), self.groups, channels // self.groups)
        return found.transpose(2, 0, 1, 3).reshape(self.groups, len(chosen), self.depth)

    def _read(
        self, place: Array, taps: int, size: int, stride: int, dilation: int, pad: int
    ) -> tuple[Array, Array]:
        """Return which element each tap reads, [positions, taps], and where there is one."""
        import numpy as np

        taken = np.arange(taps) * dilation
        if self.transposed:
            # The result at o gets input i through tap t where i * stride + t * dilation - pad = o.
            ahead = place[:, None] + pad - taken
            index, valid = ahead // stride, ahead % stride == 0
        else:
            index = place[:, None] * stride + taken - pad
            valid = np.ones_like(index, bool)
        return np.clip(index, 0, size - 1), valid & (index >= 0) & (index < size)


def layout_of(op: Op) -> Layout | None:
    """Return the layout of an operation whose input 1 is its weight, or None if it has none."""
    source, weight = op.inputs[0], op.inputs[1]
    if source is None or weight is None or not weight.size:
        return None
    if op.type == "FullyConnected":
        return Dense(weight.shape, turned=True) if weight.rank == 2 else None
    if op.type == "MatMul":
        fits = weight.rank == 2 and not op.param("transpose_in0", False)
        return Dense(weight.shape, turned=bool(op.param("transpose_in1", False))) if fits else None
    if not traits(op).is_convolution:
        return None
    count = weight.rank - 2
    groups = source.shape[-1] if op.type.startswith("DepthWise") else int(op.param("group", 1))
    return Convolution(
        weight.shape,
        op.outputs[0].shape[1:-1],
        groups,
        numbers(op, "stride", [1] * count),
        numbers(op, "dilation", [1] * count),
        numbers(op, "pad_amount", [0] * (2 * count))[::2],
        transposed=op.type.startswith("Transpose"),
    )
