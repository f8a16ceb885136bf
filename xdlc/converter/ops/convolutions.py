"""Conv, ConvTranspose and Col2Im."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.sliding import Window
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.ops._compose import picked, strided
from xdlc.converter.ops._windows import automatic_padding, kernel_of, window, window_params
from xdlc.converter.values import Value, channel_last
from xdlc.ir import Tensor
from xdlc.ir.data import Array


@importer("Conv", layout=CHANNEL_LAST)
def conv(node: Node, b: Builder) -> Value:
    """Map onto Conv2d, DepthWiseConv2d or Conv3d."""
    bias = node.input(2)
    return convolve(node, b, node.required(0), node.required(1), bias)


def convolve(
    node: Node,
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    dtype: ir.DType | None = None,
    encoding: ir.Encoding | None = None,
) -> Value:
    """Append a convolution of [N, C, spatial...] with [M, C / group, kernel...].

    Args:
        node: The node, for its attributes.
        bias: Bias [M], or None.
        dtype: Data type of the result; default: that of the input.
        encoding: Encoding of a quantized result.
    """
    if x.rank < 3 or weight.rank != x.rank:
        raise node.invalid(f"an input of rank {x.rank} does not fit weights of rank {weight.rank}")
    if x.rank > 5:
        raise node.invalid(
            f"the input has {x.rank - 2} spatial axes; QNN supports convolutions over at most 3"
        )
    node.check_types(x, weight, bias)
    group = node.attr("group", 1)
    if group < 1 or x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise node.invalid(
            f"{x.shape[1]} input channels, weights {list(weight.shape)} and group {group} do not fit"
        )
    spatial = x.shape[2:]
    kernel = kernel_of(node, weight)
    view = window(node, kernel, spatial)
    shape = (x.shape[0], weight.shape[0], *view.counts(spatial))
    if x.rank == 3:  # a convolution over one axis runs as one over two
        view = view.lifted()
        x = b.reshape(x, (*x.shape[:2], 1, *spatial))
        weight = b.reshape(weight, (*weight.shape[:2], 1, *kernel))
    out = _emit(b, x, weight, bias, view, group, (*shape[:2], *view.counts(x.shape[2:])), dtype, encoding)
    return b.reshape(Value(out, channel_last(x.rank)), shape)


def _emit(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    view: Window,
    group: int,
    shape: tuple[int, ...],
    dtype: ir.DType | None,
    encoding: ir.Encoding | None,
) -> Tensor:
    depthwise = group > 1 and group == x.shape[1] and view.rank == 2
    if depthwise:
        x, view = _thinned(b, x, view)
    kernel_last = (*range(2, weight.rank), 1, 0)  # OIHW to HWIO
    inputs: list[Tensor | None] = [b.channel_last(x), b.to_layout(weight, kernel_last)]
    if bias is not None:
        inputs.append(b.source_order(bias))
    params = window_params(view, "stride", "pad_amount", "dilation")
    if not depthwise:
        params["group"] = ir.u32(group)
    type = "DepthWiseConv2d" if depthwise else "Conv2d" if view.rank == 2 else "Conv3d"
    lying = tuple(shape[axis] for axis in channel_last(len(shape)))
    return b.emit(type, inputs, lying, dtype or x.dtype, params, encoding=encoding)


def _thinned(b: Builder, x: Value, view: Window) -> tuple[Value, Window]:
    """Return only the elements that windows read, and a window without common steps.

    HTP refuses a depthwise convolution with a stride and a dilation.
    """
    strides, dilations, before, after = (
        list(part) for part in (view.strides, view.dilations, view.before, view.after)
    )
    ranges = {}
    for axis, count in enumerate(view.counts(x.shape[2:])):
        common = math.gcd(strides[axis], dilations[axis])
        if common == 1:
            continue
        first = -before[axis] % common
        strides[axis], dilations[axis] = strides[axis] // common, dilations[axis] // common
        before[axis] = (before[axis] + first) // common
        reach = dilations[axis] * (view.kernel[axis] - 1) + (count - 1) * strides[axis] + 1 - before[axis]
        places = range(first, x.shape[2 + axis], common)[: max(reach, 1)]
        if not places:
            return x, view
        ranges[2 + axis] = first, places[-1] + 1, common
        after[axis] = max(reach - len(places), 0)
    parts = (view.kernel, tuple(strides), tuple(dilations), tuple(before), tuple(after))
    return (strided(b, x, ranges), Window(*parts)) if ranges else (x, view)


@importer("ConvTranspose", layout=CHANNEL_LAST)
def conv_transpose(node: Node, b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Map onto TransposeConv2d or TransposeConv3d."""
    rank = x.rank - 2
    if rank not in (1, 2, 3) or weight.rank != x.rank:
        raise node.problem(f"an input of rank {x.rank} does not fit weights of rank {weight.rank}")
    node.check_types(x, weight, bias)
    group = node.attr("group", 1)
    if weight.shape[0] != x.shape[1] or group < 1 or x.shape[1] % group:
        raise node.problem(
            f"{x.shape[1]} channels, weights {list(weight.shape)} and group {group} do not fit"
        )
    strides = list(node.attr("strides", [1] * rank))
    dilations = list(node.attr("dilations", [1] * rank))
    extra = list(node.attr("output_padding", [0] * rank))
    if any(len(each) != rank for each in (strides, dilations, extra)):
        raise node.problem("strides, dilations or output_padding do not fit the number of spatial axes")
    kernel, spatial = list(kernel_of(node, weight)), list(x.shape[2:])
    if rank < 3 and any(dilation != 1 for dilation in dilations):
        weight = _spread(node, b, weight, dilations)
        kernel, dilations = list(weight.shape[2:]), [1] * rank
    before, after = _pads(node, spatial, kernel, strides, dilations, extra)
    shape = list(Window(kernel, strides, dilations, before, after).spread(spatial, extra))
    target = (x.shape[0], weight.shape[1] * group, *shape)
    if rank == 1:
        x = b.reshape(x, (*x.shape[:2], 1, *spatial))
        weight = b.reshape(weight, (*weight.shape[:2], 1, *kernel))
        strides, dilations, extra = [1, *strides], [1, *dilations], [0, *extra]
        before, after, shape = [0, *before], [0, *after], [1, *shape]
    params: dict[str, ir.Param] = {
        "stride": ir.u32s(strides),
        "pad_amount": ir.u32s(list(zip(before, after, strict=True))),
        "output_padding": ir.u32s(extra),
        "group": ir.u32(group),
    }
    if len(shape) == 3:
        params["dilation"] = ir.u32s(dilations)
    inputs: list[Tensor | None] = [
        b.channel_last(x),
        b.to_layout(weight, (*range(2, weight.rank), 0, 1)),  # IOHW to HWIO
    ]
    if bias is not None:
        inputs.append(b.source_order(bias))
    lying = (target[0], *shape, target[1])
    type = "TransposeConv3d" if len(shape) == 3 else "TransposeConv2d"
    out = b.emit(type, inputs, lying, x.dtype, params)
    return b.reshape(Value(out, channel_last(x.rank)), target)


def _spread(node: Node, b: Builder, weight: Value, dilations: list[int]) -> Value:
    """Return weights dilated by zeros, as TransposeConv2d has no dilations."""
    data = weight.tensor.data
    if data is None:
        raise node.problem(f"dilations {dilations} of computed weights are not supported")
    dims = [(dim - 1) * step + 1 for dim, step in zip(weight.shape[2:], dilations, strict=True)]
    shape = (*weight.shape[:2], *dims)
    b.check_table(*shape)

    def spread(array: Array) -> Array:
        made = np.zeros(shape, array.dtype)
        made[(slice(None), slice(None), *(slice(None, None, step) for step in dilations))] = array
        return made

    return b.static_like(weight, data.transform(spread, shape=shape, factors=1.0))


def _pads(
    node: Node,
    spatial: list[int],
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """Return the padding that is cut off, as ONNX defines it for ConvTranspose."""
    rank = len(spatial)
    automatic = automatic_padding(node)
    sizes = node.attr("output_shape")
    if sizes is None and automatic in ("NOTSET", "VALID"):
        pads = node.attr("pads", [0] * (2 * rank))
        if len(pads) != 2 * rank:
            raise node.problem("pads do not fit the number of spatial axes")
        before, after = (list(pads[:rank]), list(pads[rank:])) if automatic == "NOTSET" else ([0] * rank,) * 2
    else:
        sizes = [e * s for e, s in zip(spatial, strides, strict=True)] if sizes is None else list(sizes)
        if len(sizes) not in (rank, rank + 2):  # onnxruntime takes all axes too
            raise node.invalid(f"output_shape {sizes} does not fit {rank} spatial axes")
        sizes = sizes[-rank:]
        before, after = [], []
        for axis in range(rank):
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            full = strides[axis] * (spatial[axis] - 1) + extra[axis] + reach
            extra[axis] += max(0, sizes[axis] - full)  # what the padding cannot give
            total = max(0, full - sizes[axis])
            half = total // 2
            before.append(half if automatic == "SAME_UPPER" else total - half)
            after.append(total - before[-1])
    if any(pad < 0 for pad in (*before, *after)):
        raise node.problem(
            "xdlc does not support negative padding", "export the model with paddings of 0 or more"
        )
    return before, after


_ADD = 1


@importer("Col2Im", since=18)
def col2im(node: Node, b: Builder, x: Value) -> Value:
    """Map onto an adding ScatterNd; QNN's Col2Im has an undocumented column order."""
    image, block = node.ints(1, "", "the image's shape"), node.ints(2, "", "the block's shape")
    if x.rank != 3 or not image or not block or len(image) != len(block) or x.shape[1] % math.prod(block):
        raise node.invalid(f"image {image} and block {block} do not fit an input {list(x.shape)}")
    batch, channels = x.shape[0], x.shape[1] // math.prod(block)
    b.check_table(*image, batch * channels)
    places = _places(node, image, block)
    if places.size != math.prod(block) * x.shape[2]:
        raise node.invalid(
            f"the input has {x.shape[2]} windows, but the image {image} has {places.size // math.prod(block)}"
        )
    inside = np.flatnonzero(places >= 0)
    split = b.reshape(x, (batch, channels, places.size))
    rows = b.reshape(b.transpose(split, (2, 0, 1)), (places.size, batch * channels))
    rows = picked(b, rows, 0, inside)
    nothing = b.const(np.zeros((math.prod(image), batch * channels), x.dtype.numpy), f"{b.stem}_zeros")
    index = b.const(places[inside].astype(np.int32).reshape(-1, 1), f"{b.stem}_places")
    inputs = [b.source_order(value) for value in (nothing, index, rows)]
    out = b.emit("ScatterNd", inputs, nothing.shape, x.dtype, {"reduction": ir.u32(_ADD)})
    made = b.reshape(Value(out, (0, 1)), (math.prod(image), batch, channels))
    return b.reshape(b.transpose(made, (1, 2, 0)), (batch, channels, *image))


def _places(node: Node, image: list[int], block: list[int]) -> Array:
    """Return where in the flat image each element of each window is, -1 for padding."""
    axes = len(image)
    strides, dilations = (node.attr(name, [1] * axes) for name in ("strides", "dilations"))
    pads = node.attr("pads", [0] * (2 * axes))
    if not len(strides) == len(dilations) == len(pads) / 2 == axes or min((*strides, *dilations)) < 1:
        raise node.invalid("the strides, dilations or pads do not fit the image")
    return Window(block, strides, dilations, pads[:axes], pads[axes:]).flat_positions(image).reshape(-1)
