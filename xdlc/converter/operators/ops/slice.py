"""Slice."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Slice", "DynamicSlice", layout=ANY)
def slice_(node: Node, b: Builder) -> Value:
    """Map onto StridedSlice, its ranges in the axis order of the tensor."""
    value = node.required(0)
    starts = node.required_ints(1, "starts", "the starts")
    ends = node.required_ints(2, "ends", "the ends")
    axes = node.ints(3, "axes", "the axes")
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.ints(4, "steps", "the steps") or [1] * len(starts)
    ranges = [[0, dim, 1] for dim in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise node.problem("a step is 0")
        axis = node.axis(axis, value.rank)
        ranges[axis] = list(slice(start, end, step).indices(value.shape[axis]))
    shape = [len(range(*bounds)) for bounds in ranges]
    if shape == list(value.shape) and all(step == 1 for _, _, step in ranges):
        return value
    if 0 in shape:
        return b.const(np.zeros(shape, value.dtype.numpy), node.outputs[0])
    lying = [ranges[axis] for axis in value.order]
    params = {"ranges": ir.static("", np.asarray(lying, np.int32))}
    out = b.emit(
        "StridedSlice",
        [value.tensor],
        [shape[axis] for axis in value.order],
        value.dtype,
        params,
        encoding=value.tensor.encoding,
    )
    return Value(out, value.order)
