"""MatMulInteger and ConvInteger with zero points of their own per row or channel.

With one zero point each, the host has kernels of 8-bit integers for them, and QNN nothing: a fixed-point
product has to be rounded to a scale.
"""

from __future__ import annotations

import math

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, part, product
from xdlc.converter.operators.ops._im2col import taps
from xdlc.converter.operators.ops._windows import kernel_of, window
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, SUBTRACT


@importer("MatMulInteger", since=10)
def matmul_integer(node: Node, b: Builder) -> Value:
    """Write a 32-bit integer product where the first factor has zero points per row."""
    x, y, zero = node.required(0), node.required(1), node.input(2)
    if zero is None or zero.size == 1 or x.rank < 2 or y.rank < 2:
        raise node.problem("QNN multiplies integers with scales only")
    rows = zero if zero.rank > 1 else b.reshape(zero, (zero.size, 1))
    return product(b, _centred(b, x, rows), _centred(b, y, node.input(3)))


@importer("ConvInteger", since=10)
def conv_integer(node: Node, b: Builder) -> Value:
    """Write a product of 32-bit integers for each element of the kernel."""
    x, weight, zero = node.required(0), node.required(1), node.input(3)
    if zero is None or zero.size == 1:
        raise node.problem("QNN convolves integers with scales only")
    group, outputs = node.attr("group", 1), weight.shape[0]
    if x.rank < 3 or x.shape[1] != weight.shape[1] * group or outputs % group or zero.size != outputs:
        raise node.invalid(f"{list(x.shape)} with weights {list(weight.shape)} and {zero.size} zero points")
    view = window(node, kernel_of(node, weight), x.shape[2:])
    centred = _centred(b, x, node.input(2))
    kernel = _centred(b, weight, b.reshape(zero, (outputs, *(1,) * (x.rank - 1))))
    kernel = b.reshape(kernel, (*weight.shape[:2], math.prod(view.kernel)))
    sliding = taps(node, b, centred, view, 0)
    shape = (x.shape[0], *sliding.outputs)
    last = [0, *range(2, x.rank), 1]
    total: list[Value | None] = [None] * group
    for index, value in enumerate(sliding.values(b)):
        flat = b.reshape(b.transpose(value, last), (math.prod(shape), x.shape[1]))
        weights = b.reshape(part(b, kernel, 2, index, index + 1), weight.shape[:2])
        for place in range(group):
            total[place] = _added(b, total[place], _share(b, flat, weights, place, group))
    made = joined(b, [value for value in total if value is not None], 1)
    back = [0, x.rank - 1, *range(1, x.rank - 1)]
    return b.transpose(b.reshape(made, (*shape, outputs)), back)


def _share(b: Builder, flat: Value, weights: Value, place: int, group: int) -> Value:
    """Return the product of one group's channels with its weights."""
    width, count = weights.shape[1], weights.shape[0] // group
    channels = part(b, flat, 1, place * width, (place + 1) * width)
    own = part(b, weights, 0, place * count, (place + 1) * count)
    return product(b, channels, b.transpose(own, (1, 0)))


def _added(b: Builder, total: Value | None, value: Value) -> Value:
    return value if total is None else b.binary(ADD, total, value)


def _centred(b: Builder, x: Value, zero: Value | None) -> Value:
    """Return integers less their zero point, in 32 bits."""
    wide = b.cast(x, INT32)
    return wide if zero is None else b.binary(SUBTRACT, wide, b.cast(zero, INT32))
