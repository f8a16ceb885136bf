"""Handlers of pools."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc.elementwise import truncate_div
from xdlc.converter.nhwc.shapes import dims, number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import batched, mixed, spread, unbatched
from xdlc.converter.pytorch.ops.windows import Numbers, Windows, flat_places, taken
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array


def _rank(node: AtenNode) -> int:
    """Return the number of spatial axes that the name of an operator states."""
    return next(int(letter) for letter in node.type if letter.isdigit())


def _names(form: str) -> list[str]:
    return [form.format(rank) for rank in (1, 2, 3)]


def _windows(
    rank: int, kernel: Numbers, stride: Numbers, padding: Numbers, gaps: Numbers, *, ceil: bool
) -> Windows:
    size, pads = spread(kernel, rank), spread(padding, rank)
    return Windows(size, spread(stride, rank) if stride else size, pads, pads, spread(gaps, rank), ceil)


@aten(*_names("max_pool{}d"), *_names("max_pool{}d_with_indices"), layout=CHANNEL_LAST)
def _max_pool(
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
    windows = _windows(rank, kernel_size, stride, padding, dilation, ceil=ceil_mode)
    x = batched(g, self, rank + 2)
    if node.type.endswith("indices"):
        pooled, places = g.apply("MaxPool", [x], {**windows.attributes, "dilations": windows.gaps}, 2)
        plane = math.prod(dims(x)[2:])  # ONNX counts over the whole input
        places = g("Mod", [places, number(g, places, plane)])
        return [unbatched(g, pooled, self), unbatched(g, places, self)]
    if x.dtype.is_float:
        pooled = g("MaxPool", [x], dilations=windows.gaps, **windows.attributes)
    else:
        sizes = dims(x)[2:]
        read = taken(g, x, windows.places(sizes), x.dtype.limits[0])
        pooled = g("ReduceMax", [read, vector(g, [2])], keepdims=0)
        pooled = reshape(g, pooled, (*x.shape[:2], *windows.counts(sizes)))
    return [unbatched(g, pooled, self)]


@aten(*_names("avg_pool{}d"), layout=CHANNEL_LAST)
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
    windows = _windows(rank, kernel_size, stride, padding, [1], ceil=ceil_mode)
    x = batched(g, self, rank + 2)
    if divisor_override == 0:
        raise node.invalid("the divisor is 0")
    if x.dtype.is_float and divisor_override is None:
        given = {**windows.attributes, "count_include_pad": int(count_include_pad)}
        return unbatched(g, g("AveragePool", [x], **given), self)
    sizes = dims(x)[2:]
    if x.dtype.is_float:
        after = windows.reach(sizes)
        if any((*windows.before, *after)):
            x = g("Pad", [x, vector(g, [0, 0, *windows.before, 0, 0, *after])])
        mean = g("AveragePool", [x], kernel_shape=windows.kernel, strides=windows.strides)
        whole = math.prod(windows.kernel) / (divisor_override or 1)
        return unbatched(g, g("Mul", [mean, number(g, mean, whole)]), self)
    return unbatched(g, _whole_means(g, x, windows, count_include_pad, divisor_override), self)


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


# ---------------------------------------------------------------------------------------------- adaptive


def _starts(size: int, count: int) -> tuple[Array, Array]:
    """Return starts and ends of an adaptive pool's windows (see AdaptiveAvgPool2d)."""
    check_table(size, max(count, 1))
    index = np.arange(count)
    return index * size // count, -(-(index + 1) * size // count)


def _sizes(node: AtenNode, output_size: Numbers) -> list[int]:
    rank = _rank(node)
    wanted = spread(output_size, rank)
    if len(wanted) != rank or min(wanted, default=1) < 0:
        raise node.invalid(f"output_size {wanted} does not fit {rank} axes")
    return wanted


def _even(sizes: Numbers, wanted: Numbers) -> dict[str, Numbers] | None:
    """Return the attributes of a plain pool, None if its windows differ in size."""
    if any(not want or size % want for size, want in zip(sizes, wanted, strict=True)):
        return None
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


_AVERAGE = (*_names("adaptive_avg_pool{}d"), "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")


@aten(*_AVERAGE, layout=CHANNEL_LAST)
def _adaptive_avg_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> Value:
    output_sizes = _sizes(node, output_size)
    x = batched(g, self, len(output_sizes) + 2)
    if x.rank != len(output_sizes) + 2:
        raise node.invalid(f"a tensor of {self.rank} axes does not fit windows of {len(output_sizes)} axes")
    if set(output_sizes) == {1}:
        return unbatched(g, g("GlobalAveragePool", [x]), self)
    sizes = dims(x, range(2, x.rank))
    plain = _even(sizes, output_sizes)
    if plain:
        return unbatched(g, g("AveragePool", [x], **plain), self)
    for axis, (size, want) in enumerate(zip(sizes, output_sizes, strict=True), 2):
        check_table(size, want)
        first, last = (ends[:, None] for ends in _starts(size, want))
        place = np.arange(size)
        x = mixed(g, x, axis, ((place >= first) & (place < last)) / np.maximum(last - first, 1))
    return unbatched(g, x, self)


@aten(*_names("adaptive_max_pool{}d"), layout=CHANNEL_LAST)
def _adaptive_max_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> list[Value]:
    target = _sizes(node, output_size)
    x = batched(g, self, len(target) + 2)
    batch, channels, *sizes = dims(x)
    plain = _even(sizes, target)
    if plain and not any(name in g.read for name in node.outputs[1:]):
        return [unbatched(g, g("MaxPool", [x], **plain), self)]
    axes = []  # elements of each window by axis; short ones repeat their last
    for size, want in zip(sizes, target, strict=True):
        check_table(size, want)
        first, last = (ends[:, None] for ends in _starts(size, want))
        axes.append(np.minimum(first + np.arange(int((last - first).max(initial=1))), last - 1).T)
    places = flat_places(axes, sizes)
    windows = taken(g, x, places)
    most = g("ReduceMax", [windows, vector(g, [2])], keepdims=0)
    which = g("ArgMax", [windows], axis=2, keepdims=0)
    count = places.shape[1]
    flat = g("Add", [g("Mul", [which, number(g, which, count)]), vector(g, np.arange(count))])
    indices = g("Gather", [vector(g, places.reshape(-1)), flat], axis=0)
    return [unbatched(g, reshape(g, value, (batch, channels, *target)), self) for value in (most, indices)]


@aten("max_unpool2d", "max_unpool3d", ignores=("stride", "padding"))
def _max_unpool(node: AtenNode, g: Operators, self: Value, indices: Value, output_size: Numbers) -> Value:
    rank = _rank(node)
    output_sizes, shape = spread(output_size, rank), dims(self)
    lead, plane = shape[:-rank], math.prod(output_sizes)
    planes, count = math.prod(lead), math.prod(shape[-rank:])
    check_table(planes, plane)
    empty = g.builder.const(np.zeros((planes, plane), self.dtype.numpy))
    places, values = (reshape(g, value, (planes, count)) for value in (indices, self))
    filled = g("ScatterElements", [empty, places, values], axis=1)
    return reshape(g, filled, (*lead, *output_sizes))
