"""GroupNormalization."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops.expand import tiled
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last


@importer("GroupNormalization", since=18, layout=CHANNEL_LAST, ignores=("stash_type",))
def group_normalization(node: Node, b: Builder) -> Value:
    """Map onto GroupNorm; before opset 21, scale and bias are per group."""
    x, scale, bias = (node.required(index) for index in range(3))
    groups = node.attr("num_groups")
    if node.opset < 21 and groups and x.shape[1] % groups == 0 and scale.shape == (groups,):
        scale, bias = (_per_channel(b, value, x.shape[1] // groups) for value in (scale, bias))
    if not groups or x.shape[1] % groups or scale.shape != (x.shape[1],):
        raise node.invalid(f"{groups} groups and scale {list(scale.shape)} do not fit {x.shape[1]} channels")
    order = channel_last(x.rank)
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5)), "group": ir.u32(groups)}
    inputs = [b.channel_last(x), b.source_order(scale), b.source_order(bias)]
    return Value(b.emit("GroupNorm", inputs, tuple(x.shape[axis] for axis in order), x.dtype, params), order)


def _per_channel(b: Builder, value: Value, width: int) -> Value:
    """Return the values of groups repeated for each channel."""
    count = value.size
    return b.reshape(tiled(b, b.reshape(value, (count, 1)), [1, width]), (count * width,))
