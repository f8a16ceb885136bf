"""MaxPool, AveragePool, LpPool and their global forms, and MaxUnpool."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.sliding import Window
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.ops._compose import number, reduced, scattered, unary
from xdlc.converter.ops._windows import (
    dilated_maximum,
    dilated_mean,
    maximum_and_place,
    repeats,
    taps,
    trimmed,
    window,
    window_params,
)
from xdlc.converter.ops.shapes import tiled
from xdlc.converter.values import Value, channel_last
from xdlc.opdefs.elementwise_enums import ABS, ADD, MULTIPLY, POWER

_STEMS = {"MaxPool": "PoolMax", "AveragePool": "PoolAvg", "LpPool": "L2Pool"}


@importer(*_STEMS, layout=CHANNEL_LAST)
def pool(node: Node, b: Builder, x: Value) -> Value | Sequence[Value]:
    """Map a pool of 1 to 3 axes; dilations and argmax go element by element."""
    view = window(node, tuple(node.attr("kernel_shape") or ()), x.shape[2:])
    column_major = node.flag("storage_order")
    if len(node.outputs) > 1 and node.outputs[1]:
        return maximum_and_place(node, b, x, view, column_major=column_major)
    if node.type == "LpPool":
        return _lp_pool(node, b, x, view, node.attr("p", 2))
    if any(dilation != 1 for dilation in view.dilations):
        if node.type == "MaxPool":
            return dilated_maximum(node, b, x, view)
        return dilated_mean(node, b, x, view, counts_padding=node.flag("count_include_pad"))
    return pooled(node, b, x, view, _STEMS[node.type])


def _lp_pool(node: Node, b: Builder, x: Value, view: Window, p: int) -> Value:
    """Map onto L2Pool, or write the root of the windows' sums of powers."""
    dilated = any(dilation != 1 for dilation in view.dilations)
    if p == 2 and not dilated and x.rank <= 4:
        return pooled(node, b, x, view, _STEMS[node.type])
    powers = unary(b, ABS, x)
    powers = powers if p == 1 else b.binary(POWER, powers, number(b, x, p))
    total, *others = taps(node, b, powers, view, 0.0).values(b)
    for value in others:
        total = b.binary(ADD, total, value)
    return total if p == 1 else b.binary(POWER, total, number(b, x, 1.0 / p))


@importer("GlobalLpPool", since=2, layout=CHANNEL_LAST)
def global_lp_pool(node: Node, b: Builder, x: Value) -> Value:
    """Write the root of each channel's sum of powers."""
    p = node.attr("p", 2)
    powers = unary(b, ABS, x)
    powers = powers if p == 1 else b.binary(POWER, powers, number(b, x, p))
    total = reduced(b, "ReduceSum", powers, range(2, x.rank))
    return total if p == 1 else b.binary(POWER, total, number(b, x, 1.0 / p))


@importer("GlobalMaxPool", "GlobalAveragePool", layout=CHANNEL_LAST)
def global_pool(node: Node, b: Builder, x: Value) -> Value:
    """Map a pool over the whole of every channel."""
    return pooled(node, b, x, whole(x), _STEMS[node.type.removeprefix("Global")])


def whole(x: Value) -> Window:
    """Return the window that covers all spatial axes."""
    spatial = x.shape[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    return Window(spatial, spatial, ones, zeros, zeros)


def pooled(
    node: Node, b: Builder, x: Value, view: Window, stem: str, *, encoding: ir.Encoding | None = None
) -> Value:
    """Append a pool; a one-dimensional pool becomes two-dimensional."""
    spatial = x.shape[2:]
    shape = (*x.shape[:2], *view.counts(spatial))
    if x.rank == 3:
        view = view.lifted()
        x = b.reshape(x, (*x.shape[:2], 1, *spatial))
    if x.rank not in (4, 5):
        raise node.problem(f"{x.rank - 2} spatial axes are not supported; QNN pools over 2 or 3")
    counts_padding = stem == "PoolAvg" and node.flag("count_include_pad")
    floor = view.rounded_down(x.shape[2:])
    stated, hangs_over = view, counts_padding and floor.after != view.after
    once = (1,) * floor.rank
    view, copies = floor, once
    if not counts_padding:
        view, copies = trimmed(floor, x.shape[2:]), repeats(floor, x.shape[2:])
    params = window_params(view, "filter_size", "stride", "pad_amount")
    if stem == "PoolAvg":
        params["count_pad_for_edges"] = ir.b8(counts_padding)
    lying = (x.shape[0], *view.counts(x.shape[2:]), x.shape[1])
    out = b.emit(f"{stem}{view.rank}d", [b.channel_last(x)], lying, x.dtype, params, encoding=encoding)
    result = Value(out, channel_last(x.rank))
    if copies != once:
        result = tiled(b, result, [1, 1, *copies])
    if hangs_over:  # QNN divides by the whole window there, ONNX by what is within the padding
        b.check_table(*stated.counts(x.shape[2:]))
        share = math.prod(stated.kernel) / stated.filled(x.shape[2:], counts_padding=True)[None, None]
        result = b.binary(MULTIPLY, result, b.const(share.astype(x.dtype.numpy), f"{b.stem}_share"))
    return b.reshape(result, shape)


@importer("MaxUnpool", since=9)
def max_unpool(node: Node, b: Builder, x: Value, indices: Value) -> Value:
    """Map onto ScatterElements; a larger output_shape pads zeros at the ends."""
    kernel = node.attr("kernel_shape") or []
    axes = x.rank - 2
    strides, pads = node.attr("strides", [1] * axes), node.attr("pads", [0] * (2 * axes))
    if not len(kernel) == len(strides) == len(pads) / 2 == axes or indices.shape != x.shape:
        raise node.invalid("the kernel, strides, pads or indices do not fit the input")
    made = [
        (dim - 1) * strides[axis] - pads[axis] - pads[axis + axes] + kernel[axis]
        for axis, dim in enumerate(x.shape[2:])
    ]
    shape = (*x.shape[:2], *made)
    b.check_table(*shape)
    size = int(np.prod(shape))
    if indices.is_static and indices.size and not 0 <= indices.numpy().min() <= indices.numpy().max() < size:
        raise node.invalid(f"an index is outside the {size} elements")
    nothing = b.const(np.zeros(size, x.dtype.numpy), f"{b.stem}_zeros")
    flat = scattered(b, nothing, b.reshape(indices, (x.size,)), b.reshape(x, (x.size,)), 0)
    result = b.reshape(flat, shape)
    padded_shape = _output_shape(node)
    if padded_shape is None or tuple(padded_shape) == shape:
        return result
    amounts = [[0, padded_dim - dim] for padded_dim, dim in zip(padded_shape, shape, strict=True)]
    if min(after for _, after in amounts) < 0:
        raise node.invalid(f"output_shape {padded_shape} is smaller than {list(shape)}")
    params: dict[str, ir.Param] = {
        "scheme": ir.u32(0),
        "pad_amount": ir.u32s(amounts),
        "pad_constant_value": ir.f32(0.0),
    }
    out = b.emit("Pad", [b.source_order(result)], tuple(padded_shape), x.dtype, params)
    return Value(out, tuple(range(x.rank)))


def _output_shape(node: Node) -> list[int] | None:
    given = node.static(2, "output_shape")
    return None if given is None else [int(dim) for dim in given.reshape(-1)]
