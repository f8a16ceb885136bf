"""Handlers of embedding bags."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.scatter import full, segments
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32

_BAGS = ("Sum", "Mean", "Max")
"""Reductions by the number of their mode."""


@aten("embedding_bag", ignores=["scale_grad_by_freq", "sparse"])
@aten("_embedding_bag", "_embedding_bag_forward_only", ignores=["scale_grad_by_freq", "sparse"])
def _embedding_bag(
    node: AtenNode,
    g: Operators,
    weight: Value,
    indices: Value,
    offsets: Value,
    mode: int,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int | None = None,
) -> list[Value]:
    """Return the reduced bags; other results are only for training."""
    if not 0 <= mode < len(_BAGS) or indices.rank != 1 or offsets.rank != 1:
        raise node.invalid(
            f"bags of mode {mode} do not support {indices.rank} axes of indices and {offsets.rank} of offsets"
        )
    (size,), (given,) = dims(indices), dims(offsets)
    count, rest = given - int(include_last_offset), dims(weight)[1:]
    if not size or not count:
        return [full(g, [count, *rest], 0, weight.dtype)]
    rows = g("Gather", [weight, positions(g, indices)], axis=0)
    if per_sample_weights is not None:
        rows = g("Mul", [rows, reshape(g, g.builder.cast(per_sample_weights, rows.dtype), [size, 1])])
    is_padded = padding_idx is not None and padding_idx >= 0
    width = size // count
    starts = offsets.numpy()[:count].tolist() if offsets.is_static and width and not is_padded else []
    if starts == list(range(0, size, width or 1)):
        apart = reshape(g, rows, [count, width, *rest])
        return [g(f"Reduce{_BAGS[mode]}", [apart, vector(g, [1])], keepdims=0)]
    places, begins = (g.builder.cast(each, INT32) for each in (indices, offsets))
    at = g.builder.const(np.arange(size, dtype=np.int32)[:, None])
    begun = g("LessOrEqual", [shapes.cut(g, begins, 0, 0, count), at])
    passed = g("ReduceSum", [g.builder.cast(begun, INT32), vector(g, [1])], keepdims=0)
    bags = g("Sub", [passed, number(g, passed, 1)])
    if is_padded:
        bags = where(g, g("Equal", [places, number(g, places, padding_idx or 0)]), number(g, bags, -1), bags)
    return [segments(g, rows, bags, count, _BAGS[mode], empty=0.0 if _BAGS[mode] == "Max" else None)]
