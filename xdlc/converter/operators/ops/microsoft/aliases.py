"""Operators of com.microsoft that ONNX has under another name."""

from __future__ import annotations

from dataclasses import replace

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, MICROSOFT, Node, find, importer
from xdlc.converter.values import Value

_OPSET = 16
"""Version of ONNX whose operators these are."""


@importer("GatherND", "Pad", "Trilu", domain=MICROSOFT, layout=ANY)
def same(node: Node, b: Builder) -> Value:
    """Import the operator of the same name."""
    return _as(node, b)


@importer("GridSample", domain=MICROSOFT, layout=CHANNEL_LAST)
def grid_sample(node: Node, b: Builder) -> Value:
    """Import the operator of the same name."""
    return _as(node, b)


@importer("ExpandDims", domain=MICROSOFT, layout=ANY)
def expand_dims(node: Node, b: Builder, x: Value) -> Value:
    """Insert an axis of size 1."""
    given = node.static(1, "the axis")
    if given is None:
        raise node.problem("the axis (input 1) is missing")
    axis = int(given.reshape(-1)[0])
    axis += x.rank + 1 if axis < 0 else 0
    if not 0 <= axis <= x.rank:
        raise node.problem(f"axis {axis} does not fit an input of rank {x.rank}")
    return b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@importer("NhwcMaxPool", domain=MICROSOFT, layout=CHANNEL_LAST)
def nhwc_max_pool(node: Node, b: Builder, x: Value) -> Value:
    """Import a channel-last MaxPool, as QNN has it."""
    if x.rank < 3:
        raise node.problem(f"xdlc does not support an input of rank {x.rank}")
    first = b.transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))
    pooled = _as(replace(node, type="MaxPool", inputs=[first]), b)
    return b.transpose(pooled, (0, *range(2, x.rank), 1))


def _as(node: Node, b: Builder) -> Value:
    entry = find("", node.type, _OPSET)
    if entry is None:
        raise node.problem(f"{node.type} has no importer")
    made = entry.function(replace(node, domain="", opset=_OPSET), b)
    return made if isinstance(made, Value) else made[0]
