"""Handlers of pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc.elementwise import truncate_div
from xdlc.converter.nhwc.shapes import dims, number, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import batched, spread, unbatched
from xdlc.converter.pytorch.ops._windows import Numbers, Windows, taken
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array


def _rank(node: AtenNode) -> int:
    """Return the number of spatial axes that the name of an operator states."""
    return next(int(letter) for letter in node.type if letter.isdigit())


def _window(kernel: Numbers, stride: Numbers, padding: Numbers, rank: int, ceil: bool) -> dict[str, Any]:
    size = spread(kernel, rank)
    return {
        "kernel_shape": size,
        "strides": spread(stride, rank) if stride else size,
        "pads": spread(padding, rank) * 2,
        "ceil_mode": int(ceil),
    }


@aten("max_pool1d", "max_pool2d", "max_pool3d", layout=CHANNEL_LAST)
def _max_pool(
    node: AtenNode,
    g: Operators,
    self: Value,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> Value:
    rank = _rank(node)
    given = _window(kernel_size, stride, padding, rank, ceil_mode)
    x = batched(g, self, rank + 2)
    if not x.dtype.is_float:
        return unbatched(g, _greatest(g, x, _windows(given, spread(dilation, rank))), self)
    return unbatched(g, g("MaxPool", [x], dilations=spread(dilation, rank), **given), self)


def _windows(given: dict[str, Any], gaps: Numbers) -> Windows:
    pads, rank = given["pads"], len(gaps)
    ceil = bool(given["ceil_mode"])
    return Windows(given["kernel_shape"], given["strides"], pads[:rank], pads[rank:], gaps, ceil)


def _greatest(g: Operators, x: Value, windows: Windows) -> Value:
    """Return the greatest integer of each window."""
    sizes = dims(x)[2:]
    read = taken(g, x, windows.places(sizes), x.dtype.limits[0])
    most = g("ReduceMax", [read, vector(g, [2])], keepdims=0)
    return reshape(g, most, (*x.shape[:2], *windows.counts(sizes)))


def _whole_means(g: Operators, x: Value, windows: Windows, include: bool, divisor: int | None) -> Value:
    """Return the mean of integers in each window, cut towards 0."""
    sizes = dims(x)[2:]
    places = windows.places(sizes)
    total = g("ReduceSum", [taken(g, x, places), vector(g, [2])], keepdims=0)
    inside = (places >= 0).sum(0)
    if divisor is not None:
        inside = np.full_like(inside, divisor)
    elif include:  # what hangs over the padding does not count
        inside = np.ones((), np.int64)
        for axis, count in enumerate(windows.counts(sizes)):
            start = np.arange(count) * windows.strides[axis]
            room = sizes[axis] + windows.before[axis] + windows.after[axis]
            inside = np.multiply.outer(inside, np.minimum(start + windows.kernel[axis], room) - start)
        inside = inside.reshape(-1)
    counts = g.builder.const(inside.astype(x.dtype.numpy))
    return reshape(g, truncate_div(g, total, counts), (*x.shape[:2], *windows.counts(sizes)))


@aten("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", layout=CHANNEL_LAST)
def _max_pool_with_indices(
    node: AtenNode,
    g: Operators,
    self: Value,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> list[Value]:
    rank = _rank(node)
    given = _window(kernel_size, stride, padding, rank, ceil_mode)
    given["dilations"] = spread(dilation, rank)
    planes = batched(g, self, rank + 2)
    made = g.apply("MaxPool", [planes], given, 2)
    plane = math.prod(dims(self, range(-rank, 0)))  # ONNX counts over the whole input
    return [
        unbatched(g, made[0], self),
        unbatched(g, g("Mod", [made[1], number(g, made[1], plane)]), self),
    ]


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d", layout=CHANNEL_LAST)
def _avg_pool(
    node: AtenNode,
    g: Operators,
    self: Value,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Value:
    rank = _rank(node)
    given = _window(kernel_size, stride, padding, rank, ceil_mode)
    x = batched(g, self, rank + 2)
    if not x.dtype.is_float:
        windows = _windows(given, [1] * rank)
        return unbatched(g, _whole_means(g, x, windows, count_include_pad, divisor_override), self)
    if divisor_override is not None:
        return unbatched(g, _window_sum(node, g, x, given, divisor_override), self)
    return unbatched(g, g("AveragePool", [x], count_include_pad=int(count_include_pad), **given), self)


def _window_sum(node: AtenNode, g: Operators, x: Value, given: dict[str, Any], divisor: int) -> Value:
    """Return the sums of windows over a divisor."""
    if not divisor:
        raise node.invalid("its divisor is 0")
    pads = given.pop("pads")
    kernel, steps, ceil = given["kernel_shape"], given["strides"], given.pop("ceil_mode")
    rank, after = len(kernel), []
    for axis, size in enumerate(dims(x, range(2, x.rank))):
        room = size + 2 * pads[axis] - kernel[axis]
        count = -(-room // steps[axis]) if ceil else room // steps[axis]
        if ceil and count * steps[axis] >= size + pads[axis]:
            count -= 1
        after.append(max(pads[axis], count * steps[axis] + kernel[axis] - size - pads[axis]))
    if any(pads) or any(after):
        x = g("Pad", [x, vector(g, [0, 0, *pads[:rank], 0, 0, *after])])
    mean = g("AveragePool", [x], **given)
    return g("Mul", [mean, number(g, mean, math.prod(kernel) / divisor)])


# ---------------------------------------------------------------------------------------------- adaptive


def _starts(size: int, count: int) -> tuple[Array, Array]:
    """Return where the windows of an adaptive pool start and end (documentation of AdaptiveAvgPool2d)."""
    check_table(count)
    index = np.arange(count)
    return index * size // count, -(-(index + 1) * size // count)


def _sizes(node: AtenNode, self: Value, output_size: Numbers, rank: int) -> list[int]:
    wanted = spread(output_size, rank)
    if len(wanted) != rank or min(wanted, default=1) < 0:
        raise node.invalid(f"output_size {wanted} of {rank} axes")
    return wanted


@aten(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    layout=CHANNEL_LAST,
)
def _adaptive_avg_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> Value:
    rank = _rank(node)
    wanted = _sizes(node, self, output_size, rank)
    x = batched(g, self, rank + 2)
    if set(wanted) == {1}:
        return unbatched(g, g("GlobalAveragePool", [x]), self)
    sizes = dims(x, range(2, x.rank))
    if all(want and size % want == 0 for size, want in zip(sizes, wanted, strict=True)):
        kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
        return unbatched(g, g("AveragePool", [x], kernel_shape=kernel, strides=kernel), self)
    for axis, (size, want) in enumerate(zip(sizes, wanted, strict=True), 2):
        if size == want:
            continue
        check_table(size, max(want, 1))
        first, last = _starts(size, want)
        place = np.arange(size)[:, None]
        shares = ((place >= first) & (place < last)) / np.maximum(last - first, 1)
        order = [*(held for held in range(x.rank) if held != axis), axis]
        made = g("MatMul", [g("Transpose", [x], perm=order), g.builder.const(shares.astype(x.dtype.numpy))])
        x = g("Transpose", [made], perm=[order.index(held) for held in range(x.rank)])
    return unbatched(g, x, self)


@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", layout=CHANNEL_LAST)
def _adaptive_max_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> list[Value]:
    rank = _rank(node)
    wanted = _sizes(node, self, output_size, rank)
    x = batched(g, self, rank + 2)
    batch, channels, *sizes = dims(x)
    read = [name in g.read for name in node.outputs]
    if not any(read[1:]) and all(want and size % want == 0 for size, want in zip(sizes, wanted, strict=True)):
        kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
        return [unbatched(g, g("MaxPool", [x], kernel_shape=kernel, strides=kernel), self)]
    places = _window_places(node, sizes, wanted)
    flat = reshape(g, x, (batch, channels, math.prod(sizes)))
    taken = g("Gather", [flat, vector(g, places.reshape(-1))], axis=2)
    windows = reshape(g, taken, (batch, channels, *places.shape))
    most = g("ReduceMax", [windows, vector(g, [3])], keepdims=0)
    which = g("ArgMax", [windows], axis=3, keepdims=0)
    base = vector(g, np.arange(len(places)) * places.shape[1])
    found = g("Gather", [vector(g, places.reshape(-1)), g("Add", [which, base])], axis=0)
    shape = (batch, channels, *wanted)
    return [unbatched(g, reshape(g, value, shape), self) for value in (most, found)]


def _window_places(node: AtenNode, sizes: Sequence[int], wanted: Sequence[int]) -> Array:
    """Return the flat places [windows, elements] of windows; short ones repeat their last element."""
    axes = []
    for size, want in zip(sizes, wanted, strict=True):
        first, last = _starts(size, want)
        width = int((last - first).max(initial=1))
        check_table(max(want, 1), width)
        axes.append(np.minimum(first[:, None] + np.arange(width), last[:, None] - 1))
    check_table(*(axis.size for axis in axes))
    rank = len(axes)
    total = np.zeros([1] * (2 * rank), np.int64)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        form = [1] * (2 * rank)
        form[index], form[rank + index] = axis.shape
        total = total * size + axis.reshape(form)
    return total.reshape(math.prod(wanted), -1)


@aten("max_unpool2d", "max_unpool3d", ignores=("stride", "padding"))
def _max_unpool(node: AtenNode, g: Operators, self: Value, indices: Value, output_size: Numbers) -> Value:
    rank = _rank(node)
    wanted, shape = spread(output_size, rank), dims(self)
    lead, plane = shape[:-rank], math.prod(wanted)
    planes, count = math.prod(lead), math.prod(shape[-rank:])
    check_table(planes, plane)
    empty = g.builder.const(np.zeros((planes, plane), self.dtype.numpy))
    places, values = (reshape(g, each, (planes, count)) for each in (indices, self))
    made = g("ScatterElements", [empty, places, values], axis=1)
    return reshape(g, made, (*lead, *wanted))
