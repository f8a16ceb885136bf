"""Handlers of softmax and normalizations."""

from __future__ import annotations

from xdlc.converter.nhwc import normalization
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import Value


@handler("SOFTMAX")
def _softmax(node: Node, g: Operators) -> Value:
    return normalization.softmax(g, node.required(0), beta=node.attr("beta", 0.0))


@handler("L2_NORMALIZATION")
def _l2_normalization(node: Node, g: Operators) -> Value:
    return normalization.l2_normalized(g, node.required(0), [-1], 1e-12)


@handler("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(node: Node, g: Operators) -> Value:
    bias, alpha, beta = (float(node.attr(name, 0.0)) for name in ("bias", "alpha", "beta"))
    radius = node.attr("radius", 0)
    return normalization.lrn(g, node.required(0), radius=radius, bias=bias, alpha=alpha, beta=beta)
