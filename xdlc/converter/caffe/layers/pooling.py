"""Pools and pyramids of pools."""

from __future__ import annotations

import numpy as np

from xdlc.converter.caffe.params import bottoms, misfit, params
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.shapes import cast, number
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32

_METHODS = {"MAX": 0, "AVE": 1, "STOCHASTIC": 2}
_ROUNDING = {"CEIL": 0, "FLOOR": 1}


@layer("Pooling", layout=CHANNEL_LAST)
def pooling(node: Node, g: Operators) -> list[Value]:
    """Pool the planes of [N, C, H, W]; a second top of MAX is the place y * W + x of each maximum, a real."""
    (x,), p = bottoms(node, 1, rank=4), params(node, "pooling_param")
    method = p.word("pool", _METHODS, "MAX")
    kernel = p.sizes("kernel_size", 2, 0, least=1, h_and_w="kernel")
    strides, pads = p.sizes("stride", 2, 1, least=1, both=True), p.sizes("pad", 2, 0, both=True)
    if p.has("ceil_mode") and p.has("round_mode"):
        raise misfit("states round_mode and ceil_mode: one of both is wrong")
    rounds_up = p.word("round_mode", _ROUNDING, "CEIL") == "CEIL" and p.flag("ceil_mode", True)
    if p.flag("global_pooling", False):
        if any(kernel) or strides != [1, 1] or pads != [0, 0]:
            raise misfit("states global_pooling, and a kernel, a stride or padding")
        kernel = list(x.shape[2:])
    elif not all(kernel):
        raise misfit("states no kernel_size")
    count = len(node.outputs)
    if count > (2 if method == "MAX" else 1):
        raise misfit(f"has {count} tops with pool {method}")
    return _pooled(g, x, method, kernel, strides, pads, rounds_up=rounds_up, places=count > 1)


@layer("SPP", layout=CHANNEL_LAST)
def spatial_pyramid(node: Node, g: Operators) -> Value:
    """Pool planes into 1, 4, 16 ... bins; more than one level are flattened and joined.

    Bins are ceil(size / bins) wide, with the padding as Caffe's spp_layer.cpp spreads it.
    """
    (x,), p = bottoms(node, 1, rank=4), params(node, "spp_param")
    method, height = p.word("pool", _METHODS, "MAX"), p.integer("pyramid_height", least=1)
    levels: list[Value] = []
    for level in range(height):
        kernel = [-(-size // 2**level) for size in x.shape[2:]]
        pads = [(wide * 2**level - size + 1) // 2 for wide, size in zip(kernel, x.shape[2:], strict=True)]
        levels += _pooled(g, x, method, kernel, kernel, pads, rounds_up=True)
    if height == 1:
        return levels[0]
    return g("Concat", [g("Flatten", [each], axis=1) for each in levels], axis=1)


def _pooled(
    g: Operators,
    x: Value,
    method: str,
    kernel: list[int],
    strides: list[int],
    pads: list[int],
    *,
    rounds_up: bool,
    places: bool = False,
) -> list[Value]:
    """Return a pool, as Caffe's pooling_layer.cpp computes it, and the places of its maxima if wanted.

    Padding counts in a mean, what hangs over the padding does not; it is never a maximum.

    Raises:
        ModelError: If a window is nowhere over the data.
    """
    if any(pad >= wide for pad, wide in zip(pads, kernel, strict=True)):
        raise misfit(f"pad {pads} is not below the kernel {kernel}")
    if method == "STOCHASTIC" and any(pads):
        raise misfit("pool STOCHASTIC has no padding")
    for size, wide, stride, pad in zip(x.shape[2:], kernel, strides, pads, strict=True):
        room = size + 2 * pad - wide
        last = (-(-room // stride) if rounds_up else room // stride) * stride
        if last < 0 or (last >= size and not any(pads)):
            why = "rounding up puts a window outside of the data" if last > 0 else "the window is larger"
            raise misfit(f"kernel {wide} and stride {stride} do not fit the size {size}: {why}")
    given = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "ceil_mode": int(rounds_up)}
    if method == "AVE":
        return [g("AveragePool", [x], count_include_pad=1, **given)]
    if method == "STOCHASTIC":  # at inference the mean, weighted by the elements themselves
        total, squares = (g("AveragePool", [each], **given) for each in (x, g("Mul", [x, x])))
        return [g("Div", [squares, g("Add", [total, number(g, x, float(np.finfo(np.float32).tiny))])])]
    if not places:
        return [g("MaxPool", [x], **given)]
    most, where = g.apply("MaxPool", [x], given, 2)
    count, channels, height, width = x.shape
    planes = np.arange(count * channels, dtype=np.int32) * (height * width)
    first = g.builder.const(planes.reshape(count, channels, 1, 1))
    return [most, cast(g, g("Sub", [cast(g, where, INT32), first]), FLOAT32)]
