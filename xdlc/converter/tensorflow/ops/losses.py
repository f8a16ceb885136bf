"""Handlers of losses."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.reduce import reduced
from xdlc.converter.nhwc.shapes import cast, number, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    handler,
)
from xdlc.converter.values import Value


@handler("L2Loss")
def _l2_loss(node: Node, g: Operators, x: Value) -> Value:
    total = reduced(g, "Sum", g("Mul", [x, x]), range(x.rank), keep=False)
    return g("Mul", [total, number(g, x, 0.5)])


@handler("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(node: Node, g: Operators, x: Value, labels: Value) -> list[Value]:
    logarithm = g("LogSoftmax", [x], axis=-1)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [labels, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), labels])][: len(node.outputs)]


@handler("SparseSoftmaxCrossEntropyWithLogits", ignores=("Tlabels",))
def _sparse_cross_entropy(node: Node, g: Operators, x: Value, labels: Value) -> list[Value]:
    logarithm = g("LogSoftmax", [x], axis=-1)
    row = g.builder.const(np.arange(x.shape[1], dtype=labels.dtype.numpy))
    hit = cast(g, g("Equal", [g("Unsqueeze", [labels, vector(g, [1])]), row]), x.dtype)
    loss = reduced(g, "Sum", g("Neg", [g("Mul", [hit, logarithm])]), [1], keep=False)
    return [loss, g("Sub", [g("Exp", [logarithm]), hit])][: len(node.outputs)]
