"""Handlers of products with weights."""

from __future__ import annotations

import math

from xdlc.converter.caffe.registry import bottoms, layer, params, weights
from xdlc.converter.nhwc.shapes import cast, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32


@layer("InnerProduct")
def inner_product(node: Node, g: Operators) -> Value:
    """Multiply the axes from ``axis`` on, flattened, by a matrix.

    Weights are [outputs, inner], with ``transpose`` [inner, outputs].
    """
    (x,), p = bottoms(node, 1), params(node, "inner_product_param")
    shape, outputs = x.shape, p.integer("num_output", least=1)
    axis = node.axis(p.integer("axis", 1), len(shape))
    inner, is_transposed = math.prod(shape[axis:]), p.flag("transpose", False)
    bias = [[outputs]] if p.flag("bias_term", True) else []
    operands = weights(node, g, [inner, outputs] if is_transposed else [outputs, inner], *bias)
    rows = reshape(g, x, (math.prod(shape[:axis]), inner))
    return reshape(g, g("Gemm", [rows, *operands], transB=int(not is_transposed)), (*shape[:axis], outputs))


@layer("Embed")
def embed(node: Node, g: Operators) -> Value:
    """Return rows of a table [input_dim, outputs] at positions stored as floats."""
    (x,), p = bottoms(node, 1), params(node, "embed_param")
    outputs, count = p.integer("num_output", least=1), p.integer("input_dim", least=1)
    table, *bias = weights(node, g, [count, outputs], *([[outputs]] if p.flag("bias_term", True) else []))
    rows = g("Gather", [table, cast(g, x, INT32)], axis=0)
    return g("Add", [rows, bias[0]]) if bias else rows
