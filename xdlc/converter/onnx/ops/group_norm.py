"""GroupNormalization."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last


@importer("GroupNormalization", since=21, layout=CHANNEL_LAST, ignores=("stash_type",))
def group_normalization(node: Node, b: Builder) -> Value:
    """Map onto GroupNorm; scale and bias are per channel from opset 21 on."""
    x, scale, bias = (node.required(index) for index in range(3))
    groups = node.attr("num_groups")
    if not groups or x.shape[1] % groups or scale.shape != (x.shape[1],):
        raise node.invalid(f"{groups} groups and scale {list(scale.shape)} do not fit {x.shape[1]} channels")
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5)), "group": ir.u32(groups)}
    inputs = [b.channel_last(x), b.source_order(scale), b.source_order(bias)]
    return Value(b.emit("GroupNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order)
