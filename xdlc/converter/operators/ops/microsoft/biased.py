"""Fused additions: BiasAdd, BiasDropout, BiasSoftmax, GatedAdd."""

from __future__ import annotations

import math

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import plus
from xdlc.converter.operators.ops.softmax import along
from xdlc.converter.operators.registry import ANY, MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY


@importer("BiasAdd", domain=MICROSOFT, layout=ANY, dynamic=True)
def bias_add(node: Node, b: Builder) -> Value:
    """Write x + bias + skip."""
    return plus(b, node.required(0), node.required(1), node.required(2))


@importer("BiasDropout", domain=MICROSOFT, layout=ANY, ignores=("seed",), dynamic=True)
def bias_dropout(node: Node, b: Builder) -> Value:
    """Write data + bias + residual; dropout has no effect at inference."""
    training = node.static(4, "the training mode")
    if training is not None and bool(training.reshape(-1)[0]):
        raise node.problem("training mode is not supported", "export the model for inference")
    if any(node.outputs[1:]):
        raise node.problem("its mask output is not supported", "export the model for inference")
    return plus(b, node.required(0), node.required(1), node.input(2))


@importer("BiasSoftmax", domain=MICROSOFT, ignores=("is_inner_broadcast",))
def bias_softmax(node: Node, b: Builder) -> Value:
    """Write the softmax of data + bias over all axes from ``axis`` on."""
    x, bias = node.required(0), node.required(1)
    axis = node.axis(node.attr("axis", 1), x.rank)
    flat = b.reshape(b.binary(ADD, x, bias), (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return b.reshape(along(b, "Softmax", flat, 1), x.shape)


@importer("GatedAdd", domain=MICROSOFT, layout=ANY, dynamic=True)
def gated_add(node: Node, b: Builder) -> Value:
    """Write x + y * gate."""
    return b.binary(ADD, node.required(0), b.binary(MULTIPLY, node.required(1), node.required(2)))
