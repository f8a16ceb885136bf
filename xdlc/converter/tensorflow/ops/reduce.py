"""Handlers of reductions, running sums, argmax, top-k, and losses."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions import reduce
from xdlc.converter.functions.shapes import ints, vector
from xdlc.converter.functions.terms import Term
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
    hit = _chosen(g, x, targets).where(x, 0).value
    own = reduce.reduced(g, "Sum", hit, [1], keep=True)
    better = (Term(g, x) > own).to(INT32).value
    return (Term(g, reduce.reduced(g, "Sum", better, [1], keep=False)) < count).value


def _chosen(g: Operators, x: Value, classes: Value) -> Term:
    """Return where the columns of ``x`` have the row's class."""
    columns = g.builder.const(np.arange(x.shape[1], dtype=classes.dtype.numpy))
    return Term(g, classes).raised(1).same(columns)


@handler("L2Loss")
def _l2_loss(_node: Node, g: Operators, x: Value) -> Value:
    total = reduce.reduced(g, "Sum", g("Mul", [x, x]), range(x.rank), keep=False)
    return (Term(g, total) * 0.5).value


@handler("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", ignores=("Tlabels",))
def _cross_entropy(node: Node, g: Operators, x: Value, labels: Value) -> list[Value]:
    logarithm = Term(g, x)("LogSoftmax", axis=-1)
    if node.type.startswith("Sparse"):
        labels = _chosen(g, x, labels).to(x.dtype).value
    losses = -(Term(g, labels) * logarithm)
    loss = reduce.reduced(g, "Sum", losses.value, [1], keep=False)
    return [loss, (logarithm("Exp") - labels).value][: len(node.outputs)]
