"""Handlers of pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xdlc.converter.functions.elementwise import truncate_div
from xdlc.converter.functions.shapes import dims, reshape
from xdlc.converter.functions.sliding import Window
from xdlc.converter.functions.windows import adaptive_maximum, adaptive_mean, taken
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import batched, spread, unbatched
from xdlc.converter.pytorch.ops.windows import Numbers
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table


def _rank(node: AtenNode) -> int:
    """Return the number of spatial axes that the name of an operator states."""
    return next(int(letter) for letter in node.type if letter.isdigit())


def _names(form: str) -> list[str]:
    return [form.format(rank) for rank in (1, 2, 3)]


def _window(
    rank: int, kernel: Numbers, stride: Numbers, padding: Numbers, gaps: Numbers, *, ceil: bool
) -> Window:
    size, pads = spread(kernel, rank), spread(padding, rank)
    return Window(size, spread(stride, rank) if stride else size, spread(gaps, rank), pads, pads, ceil)


def _attributes(view: Window) -> dict[str, Any]:
    """Return a window as ONNX's pools have it, without dilations."""
    pads = [*view.before, *view.after]
    given = {"kernel_shape": view.kernel, "strides": view.strides, "pads": pads}
    return {**given, "ceil_mode": int(view.ceil)}


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
    view = _window(rank, kernel_size, stride, padding, dilation, ceil=ceil_mode)
    x = batched(g, self, rank + 2)
    if node.type.endswith("indices"):
        pooled, places = g.apply("MaxPool", [x], {**_attributes(view), "dilations": view.dilations}, 2)
        plane = math.prod(dims(x)[2:])  # ONNX counts over the whole input
        places = g("Mod", [places, plane])
        return [unbatched(g, pooled, self), unbatched(g, places, self)]
    if x.dtype.is_float:
        pooled = g("MaxPool", [x], dilations=view.dilations, **_attributes(view))
    else:
        sizes = dims(x)[2:]
        read = taken(g, x, view.flat_positions(sizes), x.dtype.limits[0])
        pooled = g("ReduceMax", [read, [2]], keepdims=0)
        pooled = reshape(g, pooled, (*x.shape[:2], *view.counts(sizes)))
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
    view = _window(rank, kernel_size, stride, padding, [1], ceil=ceil_mode)
    x = batched(g, self, rank + 2)
    if divisor_override == 0:
        raise node.invalid("the divisor is 0")
    if x.dtype.is_float and divisor_override is None:
        given = {**_attributes(view), "count_include_pad": int(count_include_pad)}
        return unbatched(g, g("AveragePool", [x], **given), self)
    sizes = dims(x)[2:]
    if x.dtype.is_float:
        after = view.rounded_down(sizes).after
        if any((*view.before, *after)):
            x = g("Pad", [x, [0, 0, *view.before, 0, 0, *after]])
        mean = g("AveragePool", [x], kernel_shape=view.kernel, strides=view.strides)
        whole = math.prod(view.kernel) / (divisor_override or 1)
        return unbatched(g, g("Mul", [mean, whole]), self)
    return unbatched(g, _whole_means(g, x, view, count_include_pad, divisor_override), self)


def _whole_means(g: Operators, x: Value, view: Window, include: bool, divisor: int | None) -> Value:
    """Return the mean of integers in each window, cut towards 0."""
    sizes = dims(x)[2:]
    places = view.flat_positions(sizes)
    total = g("ReduceSum", [taken(g, x, places), [2]], keepdims=0)
    inside = view.filled(sizes, counts_padding=include).reshape(-1)
    if divisor is not None:
        inside = np.full_like(inside, divisor)
    counts = g.builder.const(inside.astype(x.dtype.numpy))
    return reshape(g, truncate_div(g, total, counts), (*x.shape[:2], *view.counts(sizes)))


# ---------------------------------------------------------------------------------------------- adaptive


def _sizes(node: AtenNode, output_size: Numbers) -> list[int]:
    rank = _rank(node)
    wanted = spread(output_size, rank)
    if len(wanted) != rank or min(wanted, default=1) < 0:
        raise node.invalid(f"output_size {wanted} does not fit {rank} axes")
    return wanted


_AVERAGE = (*_names("adaptive_avg_pool{}d"), "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")


@aten(*_AVERAGE, layout=CHANNEL_LAST)
def _adaptive_avg_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> Value:
    output_sizes = _sizes(node, output_size)
    x = batched(g, self, len(output_sizes) + 2)
    if x.rank != len(output_sizes) + 2:
        raise node.invalid(f"a tensor of {self.rank} axes does not fit windows of {len(output_sizes)} axes")
    return unbatched(g, adaptive_mean(g, x, output_sizes), self)


@aten(*_names("adaptive_max_pool{}d"), layout=CHANNEL_LAST)
def _adaptive_max_pool(node: AtenNode, g: Operators, self: Value, output_size: Numbers) -> list[Value]:
    target = _sizes(node, output_size)
    x, wants_places = batched(g, self, len(target) + 2), any(name in g.read for name in node.outputs[1:])
    return [unbatched(g, value, self) for value in adaptive_maximum(g, x, target, wants_places)]


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
