"""Layers whose weights can be fitted, as matrix products, and their weights.

Rows of the input times columns of the weight are the layer's result.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array, ArrayData
from xdlc.ir.dtype import SFIXED32
from xdlc.ir.graph import is_udo
from xdlc.ir.quantization import scale_and_offset
from xdlc.opdefs.traits import traits
from xdlc.quant.op_specs import numbers
from xdlc.quant.plan import Plan
from xdlc.quant.ranges import Decision, QuantType, quantized_limits, to_quantized, used_bits

Blocks = BlockScaleOffset | BlockwiseExpansion
DEEPEST = 6144
"""Most inputs of a result; memory grows with their square, time with their cube."""


class Layout(ABC):
    """How an operation is a product per group: results = rows @ matrix + bias.

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
        """Return a matrix [G, K, M] in the weight's shape."""

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
    """Convolutions, channels last: of any rank, grouped, depthwise or transposed.

    Args:
        kernel: Shape of the weight: spatial dimensions, channels in, channels out, those of a group where
            the channels are grouped.
        results: Spatial dimensions of the result.
        strides: Of each spatial axis, as the next two.
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
        shape = [self._split[axis] for axis in self._order]
        return matrix.reshape(shape).transpose(np.argsort(self._order)).reshape(self.kernel)

    def positions(self, shape: Sequence[int]) -> int:
        return shape[0] * math.prod(self.results)

    def rows(self, source: Array, chosen: Array) -> Array:
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
        """Return the element that each tap reads, [positions, taps], and if it exists."""
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
    """Return the layout of an operation with a weight as input 1, or None."""
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


@dataclass(frozen=True, slots=True)
class Site:
    """A layer whose weights can be fitted.

    Attributes:
        op: The op in the float graph.
        layout: It as a product of matrices.
        weight: Its weight, which no other op reads.
        bias: Its bias if that may change, else None.
        limits: Smallest and largest quantized value.
    """

    op: Op
    layout: Layout
    weight: Tensor
    bias: Tensor | None
    limits: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted weights and bias of a layer.

    Attributes:
        integers: Stored integers, [G, K, M].
        scales: Scale of each channel, [G, 1, M], equal where the tensor has one.
        bias: New bias, [G, M]; None: unchanged.
    """

    integers: Array
    scales: Array
    bias: Array | None


def find_sites(plan: Plan) -> tuple[dict[Op, Site], list[str]]:
    """Return the layers that can be fitted, and why other layers with weights cannot."""
    sites: dict[Op, Site] = {}
    others: list[str] = []
    for op in plan.placement.fixed:
        if (op, 1) not in plan.decision.statics or is_udo(op):
            continue
        layout = layout_of(op)
        if layout is None:
            continue
        found = _site(plan, op, layout)
        if isinstance(found, Site):
            sites[op] = found
        else:
            others.append(f"{op.name!r} keeps its rounding: {found}")
    return sites, others


def _site(plan: Plan, op: Op, layout: Layout) -> Site | str:
    weight, source = op.inputs[1], op.inputs[0]
    if weight is None or source is None or source.is_static:
        return "its input is a constant"
    if not weight.dtype.is_float:
        return "its weight is already quantized"
    if layout.depth > DEEPEST:
        return f"each result has {layout.depth} inputs, but xdlc supports at most {DEEPEST}"
    if plan.graph.sole_consumer(weight) is not op:
        return "other ops share its weight"
    dtype, encoding = plan.decision.statics[op, 1]
    if not isinstance(encoding, ScaleOffset | AxisScaleOffset | Blocks) or dtype.bits > 8:
        return "its weight has more than 8 bits"
    offsets = (encoding.offset,) if isinstance(encoding, ScaleOffset) else encoding.offsets
    if any(offsets) or not dtype.is_signed:
        return "its weight is not symmetric"
    low, high = quantized_limits(dtype, used_bits(encoding))
    if plan.options.restrict_quantization_steps is not None:
        least, most = plan.options.restrict_quantization_steps
        low, high = max(low, least), min(high, most)
    return Site(op, layout, weight, _free_bias(plan, op), (low, high))


def _free_bias(plan: Plan, op: Op) -> Tensor | None:
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    if bias is None or not bias.is_static or not bias.dtype.is_float:
        return None
    if plan.graph.sole_consumer(bias) is not op:
        return None
    form, weight = plan.decision.statics.get((op, 2)), plan.decision.statics[op, 1]
    # Steps of a scale of its own would not follow the weight's, nor its range the new values.
    return bias if form is not None and _follows(form, weight[1]) and bias.rank == 1 else None


def _follows(bias: QuantType, weight: Encoding) -> bool:
    """Return whether the scale of a bias is that of input times weight."""
    kind = AxisScaleOffset if isinstance(weight, BlockwiseExpansion) else type(weight)
    return bias[0] is SFIXED32 and isinstance(bias[1], kind)


def scales_of(site: Site, decision: Decision) -> Array:
    """Return the scales of a layer, float64: [G, 1, M]; of blocks, [G, K, M]."""
    encoding = decision.statics[site.op, 1][1]
    shape = site.weight.shape
    if isinstance(encoding, Blocks):
        scales, _ = scale_and_offset(encoding, shape, where=f"tensor {site.weight.name!r}")
        return np.ascontiguousarray(site.layout.matrix(np.broadcast_to(scales, shape)), np.float64)
    if isinstance(encoding, AxisScaleOffset):
        along = [-1 if axis == encoding.axis else 1 for axis in range(len(shape))]
        spread = np.broadcast_to(np.asarray(encoding.scales, np.float64).reshape(along), shape)
    elif isinstance(encoding, ScaleOffset):
        spread = np.broadcast_to(np.float64(encoding.scale), shape)
    return np.ascontiguousarray(site.layout.matrix(spread)[:, :1])


def least_scales(site: Site, decision: Decision) -> Array:
    """Return the smallest scales [G, 1, M] for which the bias fits in 32 bits."""
    decided, bias = scales_of(site, decision)[:, :1], site.op.inputs[2] if len(site.op.inputs) > 2 else None
    form = decision.statics.get((site.op, 2))
    if bias is None or bias.data is None or form is None or form[0] is not SFIXED32:
        return np.zeros_like(decided)
    held = form[1].scales if isinstance(form[1], AxisScaleOffset) else getattr(form[1], "scale", 1.0)
    source = np.asarray(held, np.float64).reshape(-1) / decided.reshape(-1)
    # Half of what 32 bits hold: the bias may still grow.
    return (np.abs(bias.numpy().reshape(-1)) / (source * 2.0**30)).reshape(decided.shape)


def store(decision: Decision, site: Site, fitted: Fitted, *, data: bool) -> None:
    """Put the stored form of a layer into a decision.

    Args:
        data: Whether weights and biases change too, beside the scales.
    """
    layout = site.layout
    dtype, encoding = decision.statics[site.op, 1]
    ratios = (fitted.scales / scales_of(site, decision))[:, :1].reshape(-1)
    spread = np.broadcast_to(fitted.scales, fitted.integers.shape)
    if isinstance(encoding, Blocks):
        new = _scaled(encoding, ratios)
    else:
        new = _with_scales(encoding, layout.weight(spread))
    decision.statics[site.op, 1] = dtype, new
    bias = decision.statics.get((site.op, 2))
    if bias is not None and _follows(bias, encoding):
        decision.statics[site.op, 2] = bias[0], _following(bias[1], ratios)
    if data:
        # Dividing by the scale results in these integers again.
        real = layout.weight((fitted.integers * spread).astype(site.weight.dtype.numpy))
        site.weight.data = ArrayData(np.ascontiguousarray(real))
        if site.bias is not None and fitted.bias is not None:
            site.bias.data = ArrayData(fitted.bias.reshape(-1).astype(site.bias.dtype.numpy))


def _scaled(encoding: BlockScaleOffset | BlockwiseExpansion, ratios: Array) -> Encoding:
    """Return an encoding with the scales of each channel times a factor."""
    scales = np.asarray(encoding.scales, np.float64)
    is_last = isinstance(encoding, BlockScaleOffset) and len(encoding.block_shape) > 2  # channels out
    count = scales.size // ratios.size
    spread = np.tile(ratios, count) if is_last else ratios.repeat(count)
    return replace(encoding, scales=tuple((scales * spread).tolist()))


def _with_scales(encoding: Encoding, spread: Array) -> Encoding:
    if isinstance(encoding, ScaleOffset):
        return replace(encoding, scale=float(spread.reshape(-1)[0]))
    if not isinstance(encoding, AxisScaleOffset):
        raise ValueError(f"{encoding!r} has no scale of its own to change")
    first = tuple(slice(None) if axis == encoding.axis else 0 for axis in range(spread.ndim))
    return replace(encoding, scales=tuple(float(scale) for scale in spread[first]))


def _following(encoding: Encoding, ratios: Array) -> Encoding:
    """Return a bias encoding that follows the scales of the weight.

    Its step is the input's scale times the weight's.
    """
    if isinstance(encoding, AxisScaleOffset):
        pairs = zip(encoding.scales, ratios, strict=True)
        return replace(encoding, scales=tuple(scale * float(ratio) for scale, ratio in pairs))
    if isinstance(encoding, ScaleOffset):
        return replace(encoding, scale=encoding.scale * float(ratios[0]))
    return encoding


def show(decision: Decision, site: Site, fitted: Fitted, twin: Op) -> None:
    """Write the fitted values of a layer to its op in a quantized copy."""
    weight, bias = twin.inputs[1], twin.inputs[2] if len(twin.inputs) > 2 else None
    if weight is None:
        raise ValueError(f"op {twin.name!r} has no weight")
    weight.dtype, weight.encoding = decision.statics[site.op, 1]
    stored = site.layout.weight(fitted.integers).astype(weight.dtype.numpy)
    weight.data = ArrayData(np.ascontiguousarray(stored))
    own, form = site.op.inputs[2] if bias is not None else None, decision.statics.get((site.op, 2))
    if bias is None or own is None or form is None:
        return
    real = own.numpy() if fitted.bias is None else fitted.bias.reshape(own.shape)
    bias.dtype, bias.encoding = form
    if isinstance(form[1], ScaleOffset | AxisScaleOffset):
        bias.data = ArrayData(to_quantized(real, form[1], form[0]))
