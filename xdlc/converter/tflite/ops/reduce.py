"""Handlers of reductions, running sums, argmax and top-k."""

from __future__ import annotations

from xdlc.converter.nhwc import reduce
from xdlc.converter.nhwc.shapes import ints
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import dtype_of, handler
from xdlc.converter.values import Value

_REDUCTIONS = {
    "MEAN": "Mean",
    "REDUCE_ALL": "All",
    "REDUCE_ANY": "Any",
    "REDUCE_MAX": "Max",
    "REDUCE_MIN": "Min",
    "REDUCE_PROD": "Prod",
    "SUM": "Sum",
}


@handler(*_REDUCTIONS)
def _reduced(node: Node, g: Operators, x: Value, axes: Value) -> Value:
    keep = bool(node.attr("keep_dims", False))
    return reduce.reduced(g, _REDUCTIONS[node.type], x, ints(axes, "the axes"), keep=keep)


@handler("CUMSUM")
def _cumsum(node: Node, g: Operators, x: Value, axis: Value) -> Value:
    exclusive, reverse = (bool(node.attr(name, False)) for name in ("exclusive", "reverse"))
    (place,) = ints(axis, "the axis")
    return reduce.accumulated(g, "CumSum", x, place, exclusive=exclusive, reverse=reverse)


@handler("ARG_MAX", "ARG_MIN", ignores=("output_type",))
def _place(node: Node, g: Operators, x: Value, axis: Value) -> Value:
    (place,) = ints(axis, "the axis")
    return reduce.place_of(g, "ArgMax" if node.type == "ARG_MAX" else "ArgMin", x, place, dtype_of(node))


@handler("TOPK_V2")
def _top_k(node: Node, g: Operators, x: Value, k: Value) -> list[Value]:
    return reduce.top_k(g, x, k, dtype_of(node, 1))
