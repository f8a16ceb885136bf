"""Conv."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import strided
from xdlc.converter.operators.ops._windows import Window, kernel_of, window
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last
from xdlc.ir import Tensor


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
        raise node.invalid(f"input of rank {x.rank} does not fit weights of rank {weight.rank}")
    if x.rank > 5:
        raise node.invalid(f"{x.rank - 2} spatial axes are not supported; QNN convolves over at most 3")
    node.check_types(x, weight, bias)
    group = node.attr("group", 1)
    if group < 1 or x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise node.invalid(
            f"{x.shape[1]} input channels, weights {list(weight.shape)} and group {group} do not fit"
        )
    spatial = x.shape[2:]
    kernel = kernel_of(node, weight)
    view = window(node, kernel, spatial)
    shape = (x.shape[0], weight.shape[0], *view.dims(spatial))
    if x.rank == 3:  # a convolution over one axis runs as one over two
        view = view.lifted()
        x = b.reshape(x, (*x.shape[:2], 1, *spatial))
        weight = b.reshape(weight, (*weight.shape[:2], 1, *kernel))
    out = _emit(b, x, weight, bias, view, group, (*shape[:2], *view.dims(x.shape[2:])), dtype, encoding)
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
    params = view.params("stride", "pad_amount", "dilation")
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
    for axis, count in enumerate(view.dims(x.shape[2:])):
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
