"""Operators that change nothing at inference."""

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
    """Pass the value on: dropout works in training only, else its mask keeps everything."""
    mode = node.static(2, "training_mode")
    if mode is not None and bool(mode):
        raise node.problem("training_mode is true", "export the model for inference")
    x = node.required(0)
    if x.is_dynamic or len(node.outputs) < 2:
        return [x]
    b.check_table(*x.shape)
    kept = np.ones(x.shape, np.bool_) if node.opset >= 10 else np.ones(x.shape, x.dtype.numpy)
    return [x, b.const(kept, node.outputs[1])]
