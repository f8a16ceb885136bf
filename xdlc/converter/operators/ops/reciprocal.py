"""Reciprocal."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import DIVIDE


@importer("Reciprocal", since=6, layout=ANY)
def reciprocal(node: Node, b: Builder) -> Value:
    """Divide one by the value: HTP refuses the unary operation RECIPROCAL."""
    x = node.required(0)
    return b.binary(DIVIDE, b.const(np.ones((), x.dtype.numpy), f"{b.stem}_one"), x)
