"""Handlers of rarer operators of losses, colours and tables."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc import scatter
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import stack, unstack
from xdlc.converter.nhwc.reduce import reduced
from xdlc.converter.nhwc.shapes import cast, dims, ints, number, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import dtype_of, real_input, real_inputs
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32


@handler("Cross")
def _cross(node: Node, g: Operators) -> Value:
    (a, b, c), (x, y, z) = (unstack(g, value, 3, -1) for value in real_inputs(node))

    def minor(p: Value, q: Value, r: Value, s: Value) -> Value:
        return g("Sub", [g("Mul", [p, q]), g("Mul", [r, s])])

    return stack(g, [minor(b, z, c, y), minor(c, x, a, z), minor(a, y, b, x)], -1)


@handler("LowerBound", "UpperBound")
def _bound(node: Node, g: Operators) -> Value:
    table, x = real_inputs(node)  # [rows, n] and [rows, wanted]
    rows, columns = g("Unsqueeze", [table, vector(g, [1])]), g("Unsqueeze", [x, vector(g, [2])])
    below = g("Less" if node.type == "LowerBound" else "LessOrEqual", [rows, columns])
    found = g("ReduceSum", [cast(g, below, INT32), vector(g, [2])], keepdims=0)
    return cast(g, found, dtype_of(node, "out_type", "int32"))


@handler("InTopK", "InTopKV2")
def _in_top_k(node: Node, g: Operators) -> Value:
    x, targets, *k = real_inputs(node)
    count = ints(k[0], "k")[0] if k else int(node.attr("k", 1))
    row = g.builder.const(np.arange(x.shape[1], dtype=targets.dtype.numpy))
    hit = g("Equal", [g("Unsqueeze", [targets, vector(g, [1])]), row])
    own = reduced(g, "Sum", where(g, hit, x, number(g, x, 0)), [1], keep=True)
    better = reduced(g, "Sum", cast(g, g("Greater", [x, own]), INT32), [1], keep=False)
    return g("Less", [better, number(g, better, count)])


@handler("DenseBincount", "Bincount")
def _bincount(node: Node, g: Operators) -> Value:
    x, size, weights = real_inputs(node)
    (count,) = ints(size, "the number of bins")
    if x.rank > 1:
        raise node.problem("bins of a value of more than one axis")
    elements = math.prod(dims(x))
    flat = reshape(g, x, (elements,))
    inside = g("And", [g("GreaterOrEqual", [flat, number(g, x, 0)]), g("Less", [flat, number(g, x, count)])])
    place = where(g, inside, flat, number(g, flat, -1))
    if weights.size and not node.attr("binary_output", False):
        shares = reshape(g, weights, (elements,))
    else:
        shares = scatter.full(g, (elements,), 1, weights.dtype)
    found = scatter.segments(g, shares, place, count, "Sum")
    if node.attr("binary_output", False):
        found = cast(g, g("Greater", [found, number(g, found, 0)]), found.dtype)
    return found


@handler("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(node: Node, g: Operators) -> list[Value]:
    x, labels = real_inputs(node)
    logarithm = g("LogSoftmax", [x], axis=-1)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [labels, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), labels])][: len(node.outputs)]


@handler("SparseSoftmaxCrossEntropyWithLogits", ignores=("Tlabels",))
def _sparse_cross_entropy(node: Node, g: Operators) -> list[Value]:
    x, labels = real_inputs(node)
    logarithm = g("LogSoftmax", [x], axis=-1)
    row = g.builder.const(np.arange(x.shape[1], dtype=labels.dtype.numpy))
    hit = cast(g, g("Equal", [g("Unsqueeze", [labels, vector(g, [1])]), row]), x.dtype)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [hit, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), hit])][: len(node.outputs)]


@handler("AdjustContrastv2")
def _contrast(node: Node, g: Operators) -> Value:
    x, factor = real_inputs(node)
    mean = reduced(g, "Mean", x, [-3, -2], keep=True)
    return g("Add", [g("Mul", [g("Sub", [x, mean]), factor]), mean])


@handler("RGBToHSV")
def _rgb_to_hsv(node: Node, g: Operators) -> Value:
    red, green, blue = unstack(g, real_input(node, 0), 3, -1)
    most, least = g("Max", [red, green, blue]), g("Min", [red, green, blue])
    span, zero = g("Sub", [most, least]), number(g, red, 0)
    grey, dark = g("LessOrEqual", [span, zero]), g("LessOrEqual", [most, zero])
    divisor = where(g, grey, number(g, red, 1), span)

    def sector(x: Value, y: Value, start: float) -> Value:
        return g("Add", [g("Div", [g("Sub", [x, y]), divisor]), number(g, x, start)])

    other = where(g, g("Equal", [green, most]), sector(blue, red, 2), sector(red, green, 4))
    hue = g("Div", [where(g, g("Equal", [red, most]), sector(green, blue, 0), other), number(g, red, 6)])
    hue = where(g, g("Less", [hue, zero]), g("Add", [hue, number(g, red, 1)]), hue)
    shade = where(g, dark, zero, g("Div", [span, where(g, dark, number(g, red, 1), most)]))
    return stack(g, [where(g, grey, zero, hue), shade, most], -1)


@handler("HSVToRGB")
def _hsv_to_rgb(node: Node, g: Operators) -> Value:
    hue, shade, value = unstack(g, real_input(node, 0), 3, -1)
    parts, one = [], number(g, hue, 1)
    sixth = g("Mul", [hue, number(g, hue, 6)])
    for center, slope, start in ((3, 1.0, -1.0), (2, -1.0, 2.0), (4, -1.0, 2.0)):
        distance = g("Abs", [g("Sub", [sixth, number(g, hue, center)])])
        moved = g("Add", [g("Mul", [distance, number(g, hue, slope)]), number(g, hue, start)])
        share = g("Clip", [moved, number(g, hue, 0), one])
        faded = g("Add", [g("Sub", [one, shade]), g("Mul", [shade, share])])
        parts.append(g("Mul", [faded, value]))
    return stack(g, parts, -1)
