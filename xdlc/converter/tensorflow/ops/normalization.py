"""Handlers of softmax and normalizations."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions import normalization, reduce
from xdlc.converter.functions.elementwise import rsqrt
from xdlc.converter.functions.shapes import dims, in_channel_last, reshape
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    handler,
    is_channel_first,
)
from xdlc.converter.values import Value


@handler("Softmax", "LogSoftmax")
def _softmax(node: Node, g: Operators, x: Value) -> Value:
    return normalization.softmax(g, x, log=node.type == "LogSoftmax")


@handler("LRN")
def _lrn(node: Node, g: Operators, x: Value) -> Value:
    alpha, beta, bias = (float(node.attr(name, default)) for name, default in _LRN.items())
    radius = node.attr("depth_radius", 5)
    return normalization.lrn(g, x, radius=radius, bias=bias, alpha=alpha, beta=beta)


_LRN = {"alpha": 1.0, "beta": 0.5, "bias": 1.0}


@handler("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", ignores=("U",))
def batch_norm(
    node: Node,
    g: Operators,
    x: Value,
    scale: Value,
    offset: Value,
    stated_mean: Value,
    stated_variance: Value,
) -> list[Value]:
    """Return normalized values, mean and variance; the batch's in a training graph.

    Mean and variance of the batch have a share of ``exponential_avg_factor`` in the second and third output.
    """
    mean, unbiased = stated_mean, stated_variance
    epsilon, is_training = float(node.attr("epsilon", 1e-4)), bool(node.attr("is_training", True))
    is_plain = is_training and is_channel_first(node) and _normalizes_rows(x, scale, offset)
    if is_training and not is_plain:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} normalizes by the statistics of the batch, as in training; "
            "export the model for inference"
        )

    def normalized(value: Value) -> Value:
        nonlocal mean, unbiased
        if is_training:
            mean, variance = reduce.moments(g, value, range(value.rank - 1))
            count = math.prod(dims(value)[:-1])
            unbiased = (Term(g, variance) * (count / max(count - 1, 1))).value
            if value.dtype is not scale.dtype:
                raise node.problem(f"xdlc does not support statistics of type {value.dtype}")
            factor = (Term(g, variance) + epsilon).via(rsqrt) * scale
            return ((Term(g, value) - mean) * factor + offset).value
        return normalization.batch_norm(g, value, scale, offset, mean, stated_variance, epsilon)

    result = in_channel_last(is_channel_first(node), g, x, normalized)
    averages = [mean, unbiased]
    share = float(node.attr("exponential_avg_factor", 1.0))
    if is_training and share != 1:
        former = zip((stated_mean, stated_variance), averages, strict=True)
        averages = [(Term(g, old) * (1 - share) + Term(g, new) * share).value for old, new in former]
    if is_plain:
        rows = reshape(g, x, (x.shape[1], math.prod(x.shape[2:])))
        ones = g.builder.const(np.ones(rows.shape[1], x.dtype.numpy))
        result = reshape(g, g("LayerNormalization", [rows, ones], axis=-1, epsilon=epsilon), x.shape)
    return [result, *averages, mean, unbiased][: len(node.outputs)]


def _normalizes_rows(x: Value, scale: Value, offset: Value) -> bool:
    """Return whether channels of a single image are normalized separately.

    Keras 2 writes a layer norm so.
    """
    if x.is_dynamic or x.shape[0] != 1 or not scale.is_static or not offset.is_static:
        return False
    return x.dtype is scale.dtype and bool(np.all(scale.numpy() == 1) and not np.any(offset.numpy()))


@handler("BatchNormWithGlobalNormalization")
def _old_batch_norm(
    node: Node, g: Operators, x: Value, mean: Value, variance: Value, offset: Value, scale: Value
) -> Value:
    epsilon = float(node.attr("variance_epsilon", 1e-3))
    if not node.attr("scale_after_normalization", True):
        scale = (Term(g, scale) * 0 + 1).value
    return normalization.batch_norm(g, x, scale, offset, mean, variance, epsilon)
