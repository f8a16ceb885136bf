"""Handlers of reductions, running sums, argmax and top-k."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc import reduce
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import cast, ints, number, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    dtype_of,
    handler,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32

_REDUCTIONS = {
    **{name: name for name in ("Mean", "Sum", "Max", "Min", "Prod", "Any", "All")},
    "EuclideanNorm": "ReduceL2",
}


@handler(*_REDUCTIONS)
def _reduced(node: Node, g: Operators, x: Value, axes: Value) -> Value:
    keep = bool(node.attr("keep_dims", False))
    return reduce.reduced(g, _REDUCTIONS[node.type], x, ints(axes, "the axes"), keep=keep)


@handler("Cumsum", "Cumprod")
def _accumulated(node: Node, g: Operators, x: Value, axis: Value) -> Value:
    exclusive, reverse = (bool(node.attr(name, False)) for name in ("exclusive", "reverse"))
    type = {"Cumsum": "CumSum", "Cumprod": "CumProd"}[node.type]
    (place,) = ints(axis, "the axis")
    return reduce.accumulated(g, type, x, place, exclusive=exclusive, reverse=reverse)


@handler("ArgMax", "ArgMin")
def _place(node: Node, g: Operators, x: Value, *axis: Value) -> Value:
    place = ints(axis[0], "the axis")[0] if axis else 0
    return reduce.place_of(g, node.type, x, place, dtype_of(node, "output_type", "int64"))


@handler("TopK", "TopKV2", ignores=("sorted",))
def _top_k(node: Node, g: Operators, x: Value, *k: Value) -> list[Value]:
    given = k[0] if k else vector(g, [node.attr("k", 1)])
    return reduce.top_k(g, x, given, dtype_of(node, "index_type", "int32"))


@handler("InTopK", "InTopKV2")
def _in_top_k(node: Node, g: Operators, x: Value, targets: Value, *k: Value) -> Value:
    count = ints(k[0], "k")[0] if k else int(node.attr("k", 1))
    row = g.builder.const(np.arange(x.shape[1], dtype=targets.dtype.numpy))
    hit = g("Equal", [g("Unsqueeze", [targets, vector(g, [1])]), row])
    own = reduce.reduced(g, "Sum", where(g, hit, x, number(g, x, 0)), [1], keep=True)
    better = reduce.reduced(g, "Sum", cast(g, g("Greater", [x, own]), INT32), [1], keep=False)
    return g("Less", [better, number(g, better, count)])
