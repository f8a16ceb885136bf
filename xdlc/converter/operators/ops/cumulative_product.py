"""CumProd."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, part, reversed_along
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import MULTIPLY


@importer("CumProd", since=26, layout=ANY)
def cumulative_product(node: Node, b: Builder) -> Value:
    """Write log2(n) products with elements 1, 2, 4, ... before."""
    x, given = node.required(0), node.static(1, "the axis")
    if given is None or given.size != 1:
        raise node.invalid("requires one axis")
    axis = node.axis(int(given.reshape(-1)[0]), x.rank)
    reverse = node.flag("reverse")
    if reverse:
        x = reversed_along(b, x, axis)
    if node.flag("exclusive"):
        x = _delayed(b, x, axis, 1)
    step = 1
    while step < x.shape[axis]:
        x = b.binary(MULTIPLY, x, _delayed(b, x, axis, step))
        step *= 2
    return reversed_along(b, x, axis) if reverse else x


def _delayed(b: Builder, x: Value, axis: int, step: int) -> Value:
    """Return ``x`` moved along an axis, ones before it."""
    shape = (*x.shape[:axis], step, *x.shape[axis + 1 :])
    b.check_table(*shape)
    ones = b.const(np.ones(shape, x.dtype.numpy), f"{b.stem}_ones")
    return joined(b, [ones, part(b, x, axis, 0, x.shape[axis] - step)], axis)
