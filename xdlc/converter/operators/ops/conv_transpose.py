"""ConvTranspose."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._windows import automatic_padding, kernel_of
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last
from xdlc.ir import Tensor
from xdlc.ir.data import Array


@importer("ConvTranspose", layout=CHANNEL_LAST)
def conv_transpose(node: Node, b: Builder) -> Value:
    """Map onto TransposeConv2d or TransposeConv3d."""
    x, weight, bias = node.required(0), node.required(1), node.input(2)
    rank = x.rank - 2
    if rank not in (1, 2, 3) or weight.rank != x.rank:
        raise node.problem(f"input of rank {x.rank} does not fit weights of rank {weight.rank}")
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
    shape = [
        strides[axis] * (spatial[axis] - 1)
        + extra[axis]
        + (kernel[axis] - 1) * dilations[axis]
        + 1
        - before[axis]
        - after[axis]
        for axis in range(rank)
    ]
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
        raise node.problem("negative padding is not supported", "export with paddings of 0 or more")
    return before, after
