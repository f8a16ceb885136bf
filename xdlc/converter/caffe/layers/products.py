"""Products with weights, and reductions."""

from __future__ import annotations

import math

from xdlc.converter.caffe.registry import bottoms, layer, misfit, params, weights
from xdlc.converter.functions.gathering import stack
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import cast, reshape
from xdlc.converter.functions.slicing import reversed_axes
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32


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


@layer("ArgMax")
def _arg_max(node: Node, g: Operators) -> Value:
    """Return indices of maxima, with values if requested; the last of equals wins."""
    (x,), p = bottoms(node, 1), params(node, "argmax_param")
    count, has_axis = p.integer("top_k", 1, least=1), p.has("axis")
    with_values = p.flag("out_max_val", False)
    axis = node.axis(p.integer("axis", 1), x.rank) if has_axis else 1
    lying = x if has_axis or not x.rank else reshape(g, x, (x.shape[0], x.size // x.shape[0]))
    if not lying.rank or count > lying.shape[axis]:
        raise misfit(f"the layer cannot select {count} elements along axis {axis} of {list(lying.shape)}")
    if count == 1:
        values = g("ReduceMax", [lying, [axis]], keepdims=1)
        places = g("ArgMax", [lying], axis=axis, keepdims=1, select_last_index=1)
    else:  # from the end, where the first of equal ones has the larger place
        turned = reversed_axes(g, lying, [axis])
        values, places = g.apply("TopK", [turned, [count]], {"axis": axis}, 2)
        places = g("Sub", [[lying.shape[axis] - 1], places])
    if has_axis:
        return values if with_values else cast(g, places, FLOAT32)
    places = cast(g, places, FLOAT32)
    found = stack(g, [places, values], 1) if with_values else places
    return reshape(g, found, (x.shape[0], 1 + with_values, count, *[1] * (x.rank - 3)))


@layer("Reduction")
def reduction(node: Node, g: Operators) -> Value:
    """Reduce the axes from ``axis`` on, drop them, and multiply by ``coeff``."""
    (x,), p = bottoms(node, 1), params(node, "reduction_param")
    operation = p.word("operation", {"SUM": 1, "ASUM": 2, "SUMSQ": 3, "MEAN": 4}, "SUM")
    axis, factor = node.axis(p.integer("axis", 0), x.rank), p.number("coeff", 1.0)
    type = {"SUM": "Sum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "Mean"}[operation]
    total = reduced(g, type, x, range(axis, x.rank), keep=False)
    return total if factor == 1.0 else g("Mul", [total, factor])
