"""Convolutions and pools of [N, spatial..., C], padded SAME, VALID or explicitly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.functions.resampling import mixed
from xdlc.converter.functions.shapes import (
    channel_first,
    channel_last,
    dims,
    permuted,
    reshape,
    vector,
)
from xdlc.converter.functions.sliding import Window, adaptive, flat, same_padding
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array

Padding = str | Sequence[tuple[int, int]]
"""``SAME``, ``VALID``, or the amounts before and after each spatial axis."""


def amounts(
    padding: Padding,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis.

    SAME makes ceil(size / stride) outputs; of an odd total, the larger half is after (documentation of
    tf.nn.convolution).

    Raises:
        ModelError: If the padding is unknown or does not fit the axes.
    """
    if not isinstance(padding, str):
        if len(padding) != len(sizes):
            raise ModelError(
                f"padding {list(padding)} does not fit an input of {len(sizes)} spatial axes",
                fix=CONTRADICTION,
            )
        return [(int(before), int(after)) for before, after in padding]
    if padding not in ("SAME", "VALID"):
        raise ModelError(f"padding {padding!r} is unknown", fix="set padding to SAME or VALID")
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    reaches = Window(kernel, strides, dilations, (), ()).reaches
    return list(map(same_padding, sizes, strides, reaches))


def conv(
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int] | None = None,
) -> Value:
    """Return the convolution over one, two or three spatial axes.

    The number of groups is C over the weights' input channels.

    Args:
        x: [N, spatial..., C].
        weight: [kernel..., C / groups, O], constant or computed.
        bias: [O], or None.
        strides: Steps of each spatial axis.
        dilations: Distances of kernel elements of each spatial axis; default: 1.

    Raises:
        UnsupportedOp: If the kernel or the channels are open, or padding SAME meets an open dimension, a
            stride and a dilation.
    """
    rank = x.rank - 2
    if rank not in (1, 2, 3) or weight.rank != x.rank:
        raise ModelError(
            f"an input of rank {x.rank} does not fit weights of rank {weight.rank}", fix=CONTRADICTION
        )
    *kernel, inner = dims(weight, range(rank + 1))
    (channels,) = dims(x, [-1])
    if not inner or channels % inner:
        raise ModelError(
            f"{channels} channels do not fit weights of {inner} input channels", fix=CONTRADICTION
        )
    given = _window(g, x, kernel, strides, padding, dilations)
    weight = permuted(g, weight, (rank + 1, rank, *range(rank)))
    operands = [channel_first(g, x), weight] if bias is None else [channel_first(g, x), weight, bias]
    return channel_last(g, g("Conv", operands, group=channels // inner, **given))


def depthwise_conv(
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int] | None = None,
) -> Value:
    """Return depthwise convolutions; output channel c * M + m is of channel c.

    Args:
        x: [N, H, W, C].
        weight: [kernel..., C, M].
        bias: [C * M], or None.
        strides: Steps of each spatial axis.
        dilations: Distances of kernel elements of each spatial axis; default: 1.

    Raises:
        UnsupportedOp: If padding SAME meets an open dimension, a stride and a dilation.
    """
    shape = dims(weight)
    if len(shape) != x.rank or shape[-2] != x.shape[-1]:
        raise ModelError(
            f"an input of {x.shape[-1]} channels does not fit weights {list(shape)}", fix=CONTRADICTION
        )
    weight = reshape(g, weight, (*shape[:-2], 1, shape[-2] * shape[-1]))
    return conv(g, x, weight, bias, strides=strides, padding=padding, dilations=dilations)


def conv_transpose(
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int] | None = None,
) -> Value:
    """Return the gradient of a convolution of ``sizes`` by its input.

    Args:
        x: [N, spatial..., I].
        weight: [kernel..., O / groups, I].
        bias: [O], or None.
        sizes: Output sizes of the spatial axes; then the channels O if there are groups.
        strides: Steps of each spatial axis.
        padding: The padding of the convolution that it is the gradient of.
        dilations: Distances of kernel elements of each spatial axis; default: 1.
    """
    rank = x.rank - 2
    if rank not in (1, 2, 3) or weight.rank != x.rank or len(sizes) not in (rank, rank + 1):
        raise ModelError(
            f"an input of rank {x.rank} does not fit weights {list(weight.shape)}",
            fix=CONTRADICTION,
        )
    kernel, dilations = weight.shape[:-2], list(dilations or [1] * rank)
    group = sizes[rank] // weight.shape[-2] if len(sizes) > rank else 1
    given = amounts(padding, sizes[:rank], kernel, strides, dilations)
    begin, end, extra = [], [], []
    for axis, size in enumerate(dims(x, range(1, rank + 1))):
        full = (size - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        before, after = given[axis]
        if isinstance(padding, str):
            reach = (kernel[axis] - 1) * dilations[axis] + 1 if padding == "VALID" else 1
            if (sizes[axis] - reach) // strides[axis] + 1 != size:
                raise ModelError(
                    f"output size {sizes[axis]} of axis {axis + 1} does not fit an input of size {size}",
                    fix=CONTRADICTION,
                )
            before = max(0, full - sizes[axis]) // 2 if padding == "SAME" else 0
            after = max(0, full - sizes[axis]) - before
        rest = sizes[axis] - (full - before - after)
        if not 0 <= rest < max(strides[axis], 2):
            raise ModelError(
                f"output size {sizes[axis]} of axis {axis + 1} does not fit an input of size {size}",
                fix=CONTRADICTION,
            )
        begin.append(before)
        end.append(after)
        extra.append(rest)
    weight = permuted(g, weight, (rank + 1, rank, *range(rank)))
    operands = [channel_first(g, x), weight] if bias is None else [channel_first(g, x), weight, bias]
    attributes = {
        "strides": list(strides),
        "dilations": dilations,
        "pads": [*begin, *end],
        "output_padding": extra,
        "group": group,
    }
    return channel_last(g, g("ConvTranspose", operands, **attributes))


def max_pool(
    g: Operators, x: Value, *, kernel: Sequence[int], strides: Sequence[int], padding: Padding
) -> Value:
    """Return the maximum of each window of [N, spatial..., C], padding excluded."""
    given = _window(g, x, kernel, strides, padding, None)
    given.pop("dilations")
    return channel_last(g, g("MaxPool", [channel_first(g, x)], kernel_shape=list(kernel), **given))


def average_pool(
    g: Operators, x: Value, *, kernel: Sequence[int], strides: Sequence[int], padding: Padding
) -> Value:
    """Return the mean of each window of [N, spatial..., C], padding excluded."""
    given = _window(g, x, kernel, strides, padding, None)
    given.pop("dilations")
    return channel_last(g, g("AveragePool", [channel_first(g, x)], kernel_shape=list(kernel), **given))


def l2_pool(
    g: Operators, x: Value, *, kernel: Sequence[int], strides: Sequence[int], padding: Padding
) -> Value:
    """Return the root mean square of each window, padding excluded."""
    mean = average_pool(g, g("Mul", [x, x]), kernel=kernel, strides=strides, padding=padding)
    return g("Sqrt", [mean])


def max_pool_with_places(
    g: Operators,
    x: Value,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    counts_batch: bool = False,
) -> tuple[Value, Value]:
    """Return the maxima of windows of [N, H, W, C], and their positions.

    Returns:
        The elements, and their places (y * W + x) * C + c, int64, the first of equals; with
        ``counts_batch``, ((n * H + y) * W + x) * C + c.
    """
    batch, height, width, channels = dims(x)
    given = _window(g, x, kernel, strides, padding, None)
    given.pop("dilations")
    planes = channel_first(g, x)
    most, places = g.apply("MaxPool", [planes], {"kernel_shape": list(kernel), **given}, outputs=2)
    inside = g("Mod", [places, height * width])  # ONNX counts over all of [N, C, H, W]
    flat_places = g("Mul", [channel_last(g, inside), channels])
    flat_places = g("Add", [flat_places, range(channels)])
    if counts_batch:
        starts = np.arange(batch, dtype=np.int64) * (height * width * channels)
        flat_places = g("Add", [flat_places, starts.reshape(batch, 1, 1, 1)])
    return channel_last(g, most), flat_places


def depth_pool(g: Operators, x: Value, size: int, type: str = "ReduceMax") -> Value:
    """Return the maximum, or another reduction, of each ``size`` adjacent channels.

    Raises:
        UnsupportedOp: If the channels do not divide.
    """
    shape = dims(x)
    if size < 1 or shape[-1] % size:
        raise UnsupportedOp(f"a pool of {size} does not divide {shape[-1]} channels", fix="correct the model")
    apart = reshape(g, x, (*shape[:-1], shape[-1] // size, size))
    return g(type, [apart, [len(shape)]], keepdims=0)


def taken(g: Operators, x: Value, places: Array, fill: float = 0) -> Value:
    """Return the elements of windows of [N, C, spatial...]: [N, C, elements, windows].

    Args:
        places: Flat positions [elements, windows]; below 0 is padding.
        fill: The value of padding.
    """
    batch, channels, *sizes = dims(x)
    count = math.prod(sizes)
    flat_x = reshape(g, x, (batch, channels, count))
    if (places < 0).any():
        edge = np.full((batch, channels, 1), fill, x.dtype.numpy)
        flat_x = g("Concat", [flat_x, edge], axis=2)
        places = np.where(places < 0, count, places)
    elements = g("Gather", [flat_x, vector(g, places.reshape(-1))], axis=2)
    return reshape(g, elements, (batch, channels, *places.shape))


def _even(sizes: Sequence[int], counts: Sequence[int]) -> dict[str, Sequence[int]] | None:
    """Return the attributes of a plain pool, None if its windows differ in size."""
    if any(not count or size % count for size, count in zip(sizes, counts, strict=True)):
        return None
    kernel = [size // count for size, count in zip(sizes, counts, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


def adaptive_mean(g: Operators, x: Value, counts: Sequence[int]) -> Value:
    """Return means of ``counts`` windows that cover [N, C, spatial...]."""
    if set(counts) == {1}:
        return g("GlobalAveragePool", [x])
    sizes = dims(x, range(2, x.rank))
    plain = _even(sizes, counts)
    if plain:
        return g("AveragePool", [x], **plain)
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True), 2):
        first, last = (ends[:, None] for ends in adaptive(size, count))
        place = np.arange(size)
        x = mixed(g, x, axis, ((place >= first) & (place < last)) / np.maximum(last - first, 1))
    return x


def adaptive_maximum(
    g: Operators, x: Value, counts: Sequence[int], wants_places: bool = False
) -> list[Value]:
    """Return maxima like ``adaptive_mean``, and their flat positions if wanted."""
    batch, channels, *sizes = dims(x)
    plain = _even(sizes, counts)
    if plain and not wants_places:
        return [g("MaxPool", [x], **plain)]
    axes = []  # elements of each window by axis; short ones repeat their last
    for size, count in zip(sizes, counts, strict=True):
        first, last = (ends[:, None] for ends in adaptive(size, count))
        axes.append(np.minimum(first + np.arange(int((last - first).max(initial=1))), last - 1).T)
    places = flat(axes, sizes)
    windows, count = taken(g, x, places), places.shape[1]
    most = g("ReduceMax", [windows, [2]], keepdims=0)
    which = g("ArgMax", [windows], axis=2, keepdims=0)
    rows = g("Add", [g("Mul", [which, count]), vector(g, np.arange(count))])
    indices = g("Gather", [vector(g, places.reshape(-1)), rows], axis=0)
    return [reshape(g, value, (batch, channels, *counts)) for value in (most, indices)]


def _window(
    g: Operators,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int] | None,
) -> dict[str, Any]:
    """Return the attributes of a window.

    Raises:
        UnsupportedOp: If padding SAME meets an open dimension, a stride and a dilation.
    """
    rank = x.rank - 2
    steps, gaps = list(strides), list(dilations or [1] * rank)
    if not len(kernel) == len(steps) == len(gaps) == rank or min((*kernel, *steps, *gaps), default=0) < 1:
        raise ModelError(
            f"a window {list(kernel)} with strides {steps} does not fit an input of rank {x.rank}",
            fix=CONTRADICTION,
        )
    options: dict[str, Any] = {"strides": steps, "dilations": gaps}
    sizes = (x.dims or (None,) * x.rank)[1:-1]  # with stride 1 the padding depends on no size
    if padding == "SAME" and any(size is None and step > 1 for size, step in zip(sizes, steps, strict=True)):
        if set(gaps) != {1}:
            dims(x, range(1, rank + 1))
        return options | {"auto_pad": "SAME_UPPER"}
    pairs = amounts(padding, [size or 1 for size in sizes], kernel, steps, gaps)
    for size, width, gap, (before, after) in zip(sizes, kernel, gaps, pairs, strict=True):
        if size and size + before + after < (width - 1) * gap + 1:
            problem = f"a window of {width} with dilation {gap} on {size} elements has an empty result"
            raise ModelError(problem, fix=CONTRADICTION)
    pads = [before for before, _ in pairs] + [after for _, after in pairs]
    return options | {"pads": pads}
