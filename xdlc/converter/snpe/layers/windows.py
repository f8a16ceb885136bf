"""Layers with windows over images: convolutions, pools; x is width, y height."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.snpe.registry import Layer, layer
from xdlc.ir import AxisScaleOffset, Encoding, Param, Role, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, SFIXED8, SFIXED32, UFIXED8

# Strategies whose padding attributes are the padding before the image: none, the smaller half of what the
# output needs, or that of the source model.
KNOWN_STRATEGIES = (2, 3, 4)
POOLS = {0: "PoolMax2d", 1: "PoolAvg2d"}
HALF = 128  # between a signed byte and its unsigned counterpart


def _image(node: Layer) -> Tensor:
    if node.source.rank != 4 or node.output.rank != 4:
        raise node.problem(f"the layer needs images, but its input has shape {list(node.source.shape)}")
    return node.source


def _pair(node: Layer, vertical: str, horizontal: str, default: int | None = None) -> list[int]:
    names = (vertical, horizontal)
    return [node.whole(name) if default is None else node.whole(name, default) for name in names]


def _pad_amount(node: Layer, begins: list[int], needed: list[int], strategy: str) -> Tensor:
    """Return the padding: start as stated, end as the windows require."""
    number = node.whole(strategy)
    if number not in KNOWN_STRATEGIES and any(begins):
        known = ", ".join(map(str, KNOWN_STRATEGIES))
        raise node.problem(f"attribute {strategy!r} is {number}; supported values are {known}")
    pairs = [[begin, max(0, total - begin)] for begin, total in zip(begins, needed, strict=True)]
    return node.naturals(pairs, "padding")


def _needed(node: Layer, spans: list[int], steps: list[int]) -> list[int]:
    """Return the total padding that the windows of all outputs need, per axis."""
    return [
        (node.output.shape[axis + 1] - 1) * steps[axis] + spans[axis] - node.source.shape[axis + 1]
        for axis in range(2)
    ]


def _weights(node: Layer) -> Tensor:
    weight = node.weight("weights_0")
    if node.whole("padding_mode", 0) != 0:
        raise node.problem("xdlc supports only padding with 0")
    if weight.rank != 4:
        raise node.problem(f"the layer has weights of shape {list(weight.shape)} instead of rank 4")
    return as_signed(weight)


def _bias(node: Layer, weight: Tensor) -> Tensor | None:
    """Return the bias; quantize a float bias of a quantized layer."""
    bias = node.weights.get("bias")
    return None if bias is None else quantized_bias(bias, product_scales(node.source, weight))


@layer("Convolutional")
def convolutional(node: Layer) -> None:
    """Translate to Conv2d or DepthWiseConv2d; weights are [h, w, in, out]."""
    source, weight, groups = _image(node), _weights(node), node.whole("groups", 1)
    steps, dilation = _pair(node, "stride_y", "stride"), _pair(node, "dilation_y", "dilation_x", 1)
    spans = [(weight.shape[axis] - 1) * dilation[axis] + 1 for axis in range(2)]
    begins, needed = _pair(node, "padding_y", "padding"), _needed(node, spans, steps)
    params: dict[str, Param] = {
        "stride": node.naturals(steps, "strides"),
        "pad_amount": _pad_amount(node, begins, needed, "padding_strategy"),
        "dilation": node.naturals(dilation, "dilation"),
    }
    depthwise = groups > 1 and groups == source.shape[-1] and weight.shape[2] == 1
    if not depthwise:
        params["group"] = node.natural("groups", 1)
    inputs = [source, weight, _bias(node, weight)]
    node.emit("DepthWiseConv2d" if depthwise else "Conv2d", inputs, params)


@layer("Deconvolution")
def deconvolution(node: Layer) -> None:
    """Translate to TransposeConv2d; weights are [h, w, in, out]."""
    source, weight = _image(node), _weights(node)
    steps = _pair(node, "stride_y", "stride")
    if _pair(node, "dilation_y", "dilation_x", 1) != [1, 1]:
        raise node.problem("xdlc does not support dilation")
    more = _pair(node, "output_padding_y", "output_padding_x", 0)
    needed = [
        (source.shape[axis + 1] - 1) * steps[axis]
        + weight.shape[axis]
        + more[axis]
        - node.output.shape[axis + 1]
        for axis in range(2)
    ]
    begins = _pair(node, "padding_y", "padding")
    params: dict[str, Param] = {
        "stride": node.naturals(steps, "strides"),
        "pad_amount": _pad_amount(node, begins, needed, "padding_strategy"),
        "group": node.natural("groups", 1),
        "output_padding": node.naturals(more, "output padding"),
    }
    node.emit("TransposeConv2d", [source, weight, _bias(node, weight)], params)


@layer("Pooling")
def pooling(node: Layer) -> None:
    """Translate to PoolMax2d or PoolAvg2d."""
    source, type = _image(node), node.choice("type", POOLS)
    size, steps = _pair(node, "size_y", "size_x"), _pair(node, "stride_y", "stride_x")
    begins, needed = _pair(node, "pad_y", "pad_x"), _needed(node, size, steps)
    params: dict[str, Param] = {
        "filter_size": node.naturals(size, "window"),
        "stride": node.naturals(steps, "strides"),
        "pad_amount": _pad_amount(node, begins, needed, "padding_size_strategy"),
    }
    if type == "PoolAvg2d":
        params["count_pad_for_edges"] = ir.b8(node.flag("pool_region_include_padding"))
    node.emit(type, [source], params)


def shifted(encoding: Encoding, by: int) -> Encoding:
    """Return an encoding with offsets moved, all bits used."""
    if isinstance(encoding, ScaleOffset):
        return ScaleOffset(encoding.scale, encoding.offset + by)
    assert isinstance(encoding, AxisScaleOffset)
    return AxisScaleOffset(
        encoding.axis, encoding.scales, tuple([offset + by for offset in encoding.offsets])
    )


def as_signed(tensor: Tensor) -> Tensor:
    """Return weights with offset -128 per channel as signed weights with offset 0.

    The numbers are the same; backends want weights with scales per channel so.
    """
    import numpy

    encoding = tensor.encoding
    if (
        tensor.dtype is not UFIXED8
        or not isinstance(encoding, AxisScaleOffset)
        or set(encoding.offsets) != {-HALF}
        or tensor.data is None
    ):
        return tensor
    data = tensor.data.transform(lambda stored: (stored ^ HALF).view(numpy.int8), dtype=numpy.int8)
    return Tensor(tensor.name, tensor.shape, SFIXED8, shifted(encoding, HALF), data, Role.STATIC)


def product_scales(source: Tensor, weight: Tensor) -> tuple[float, ...] | None:
    """Return the scales of a quantized layer's sums, one or per channel; or None."""
    import numpy

    held, encoding = source.encoding, weight.encoding
    if not isinstance(held, ScaleOffset) or not isinstance(encoding, ScaleOffset | AxisScaleOffset):
        return None
    scales = (encoding.scale,) if isinstance(encoding, ScaleOffset) else encoding.scales
    return tuple((numpy.float32(held.scale) * numpy.asarray(scales, numpy.float32)).tolist())


def quantized_bias(bias: Tensor, scales: tuple[float, ...] | None) -> Tensor:
    """Return a quantized layer's float bias as 32-bit integers in its sums' scale."""
    import numpy

    if bias.dtype is not FLOAT32 or scales is None or bias.data is None or bias.rank != 1:
        return bias
    if len(scales) not in (1, bias.shape[0]) or min(scales) <= 0:
        return bias
    limit = float(numpy.iinfo(numpy.int32).max)
    steps = numpy.asarray(scales, numpy.float64)

    def quantize(values: Array) -> Array:
        whole = numpy.rint(numpy.nan_to_num(values.astype(numpy.float64)) / steps)
        return numpy.clip(whole, -limit, limit).astype(numpy.int32)

    encoding: Encoding = ScaleOffset(scales[0]) if len(scales) == 1 else AxisScaleOffset(0, scales)
    data = bias.data.transform(quantize, dtype=numpy.int32)
    return Tensor(bias.name, bias.shape, SFIXED32, encoding, data, Role.STATIC)
