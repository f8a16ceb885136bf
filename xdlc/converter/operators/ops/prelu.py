"""PRelu and LeakyRelu."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops.expand import expanded
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("PRelu", since=7, layout=ANY)
def prelu(node: Node, b: Builder) -> Value:
    """Map onto Prelu, whose slope broadcasts; in onnxruntime the input does too."""
    slope = node.required(1)
    node.check_types(node.required(0), slope)
    return b.elementwise("Prelu", [expanded(b, node.required(0), slope.shape), slope])


@importer("LeakyRelu", since=6, layout=ANY)
def leaky_relu(node: Node, b: Builder) -> Value:
    """Map onto Prelu with one slope."""
    x = node.required(0)
    slope = np.asarray(node.attr("alpha", 0.01), x.dtype.numpy)
    return b.elementwise("Prelu", [x, b.const(slope, f"{b.stem}_slope")])
