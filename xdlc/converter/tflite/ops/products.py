"""Handlers of products of matrices."""

from __future__ import annotations

from xdlc.converter.nhwc import products
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import Value


@handler("FULLY_CONNECTED", ignores=("asymmetric_quantize_inputs", "quantized_bias_type", "quant_spec"))
def _fully_connected(node: Node, g: Operators) -> Value:
    if node.attr("weights_format", 0):
        raise node.problem("xdlc does not support shuffled weights", "convert the model with default weights")
    keep = bool(node.attr("keep_num_dims", False))
    return products.fully_connected(g, node.required(0), node.required(1), node.input(2), keep_dims=keep)


@handler("BATCH_MATMUL", ignores=("asymmetric_quantize_inputs",))
def _batch_matmul(node: Node, g: Operators, x: Value, y: Value) -> Value:
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("adj_x", "adj_y"))
    return products.matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)
