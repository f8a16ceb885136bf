"""Handlers of scatters and segments."""

from __future__ import annotations

import math

from xdlc.converter.functions import scatter
from xdlc.converter.functions.shapes import (
    dims,
    ints,
    reshape,
)
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_UPDATES = {"Update": "none", "Add": "add", "Sub": "sub", "Max": "max", "Min": "min"}
_SEGMENTS = ("Sum", "Prod", "Max", "Min", "Mean")


@handler("ScatterNd", ignores=("bad_indices_policy",))
def _scatter_nd(node: Node, g: Operators, indices: Value, updates: Value, shape: Value) -> Value:
    base = scatter.full(g, ints(shape, "the shape"), 0, updates.dtype)
    return scatter.scatter_nd(g, base, indices, updates, "none" if updates.dtype is BOOL8 else "add")


@handler(*(f"TensorScatter{name}" for name in _UPDATES), ignores=("bad_indices_policy",))
def _tensor_scatter(node: Node, g: Operators, x: Value, indices: Value, updates: Value) -> Value:
    return scatter.scatter_nd(g, x, indices, updates, _UPDATES[node.type.removeprefix("TensorScatter")])


@handler(*(f"UnsortedSegment{name}" for name in _SEGMENTS[:-1]), ignores=("Tnumsegments",))
def _unsorted_segments(node: Node, g: Operators, x: Value, ids: Value, count: Value) -> Value:
    (number,) = ints(count, "the number of segments")
    return scatter.segments(g, x, ids, number, node.type.removeprefix("UnsortedSegment"))


@handler(
    *(f"Segment{name}{version}" for name in _SEGMENTS for version in ("", "V2")), ignores=("Tnumsegments",)
)
def _segments(node: Node, g: Operators, x: Value, ids: Value, *count: Value) -> Value:
    number = ints(count[0], "the number of segments")[0] if count else scatter.segment_count(ids)
    reduction = node.type.removeprefix("Segment").removesuffix("V2")
    empty = {"Prod": 1.0, "Mean": 0.0}.get(reduction, 0.0)
    return scatter.segments(g, x, ids, number, reduction, empty=None if reduction == "Sum" else empty)


@handler("DenseBincount", "Bincount")
def _bincount(node: Node, g: Operators, x: Value, size: Value, weights: Value) -> Value:
    (count,) = ints(size, "the number of bins")
    if x.rank > 1:
        raise node.problem("xdlc does not support bins of more than one axis")
    elements = math.prod(dims(x))
    flat = reshape(g, x, (elements,))
    term = Term(g, flat)
    place = ((term >= 0) & (term < count)).where(term, -1).value
    if weights.size and not node.attr("binary_output", False):
        shares = reshape(g, weights, (elements,))
    else:
        shares = scatter.full(g, (elements,), 1, weights.dtype)
    totals = scatter.segments(g, shares, place, count, "Sum")
    if node.attr("binary_output", False):
        totals = (Term(g, totals) > 0).to(totals.dtype).value
    return totals
