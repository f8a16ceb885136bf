"""Compress."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value


@importer("Compress", since=9)
def compress(node: Node, b: Builder) -> Value:
    """Map onto Gather of the selected elements, which must be static."""
    x, condition = node.required(0), node.static(1, "the condition")
    axis = node.attr("axis")
    if axis is None:
        x = b.reshape(x, (x.size,))
    axis = 0 if axis is None else node.axis(axis, x.rank)
    kept = np.flatnonzero([] if condition is None else condition)
    if kept.size and kept[-1] >= x.shape[axis]:
        raise node.invalid(f"keeps element {kept[-1]} of {x.shape[axis]}")
    if not kept.size:
        shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
        return b.const(np.zeros(shape, x.dtype.numpy), node.outputs[0])
    return picked(b, x, axis, kept)
