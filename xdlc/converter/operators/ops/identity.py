"""Operators without effect at inference."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Identity", layout=ANY, dynamic=True)
def identity(node: Node, b: Builder) -> Value:
    """Pass the value on."""
    return node.required(0)


@importer("Dropout", since=7, layout=ANY, ignores=("ratio", "seed", "is_test"), dynamic=True)
def dropout(node: Node, b: Builder) -> list[Value]:
    """Pass the value on; return an all-true mask unless training reads it.

    onnxruntime, too, removes a Dropout between two nodes, be it in training form or not.
    """
    x, ratio, mode = node.required(0), node.input(1), node.input(2)
    trains = mode is not None and not (mode.is_static and not mode.numpy().any())
    drops = trains and not (ratio is not None and ratio.is_static and not ratio.numpy().any())
    if x.is_dynamic or len(node.outputs) < 2 or drops:
        return [x]
    b.check_table(*x.shape)
    kept = np.ones(x.shape, np.bool_) if node.opset >= 10 else np.ones(x.shape, x.dtype.numpy)
    return [x, b.const(kept, node.outputs[1])]
