"""GroupNorm and SkipGroupNorm, channels last or first, with an activation."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import plus, silu
from xdlc.converter.operators.registry import CHANNEL_LAST, MICROSOFT, Node, importer
from xdlc.converter.values import Value, channel_last

_NONE, _SILU = 0, 1


@importer("GroupNorm", domain=MICROSOFT, layout=CHANNEL_LAST)
def group_norm(node: Node, b: Builder) -> Value:
    """Map onto GroupNorm and, for activation 1, x * sigmoid(x)."""
    return _normalized(node, b, node.required(0))


@importer("SkipGroupNorm", domain=MICROSOFT, layout=CHANNEL_LAST)
def skip_group_norm(node: Node, b: Builder) -> list[Value]:
    """Map as GroupNorm of x + skip + bias; the second output is that sum."""
    x, skip, bias = node.required(0), node.required(3), node.input(4)
    last = node.flag("channels_last", 1)
    if skip.rank == 2:
        batch, channels = skip.shape
        skip = b.reshape(skip, (batch, 1, 1, channels) if last else (batch, channels, 1, 1))
    if bias is not None and not last:
        bias = b.reshape(bias, (bias.size, 1, 1))
    total = plus(b, x, skip, bias)
    return [_normalized(node, b, total), total]


def _normalized(node: Node, b: Builder, x: Value) -> Value:
    scale, shift, groups = node.required(1), node.required(2), node.attr("groups", 0)
    activation, last = node.attr("activation", _NONE), node.flag("channels_last", 1)
    if x.rank != 4 or activation not in (_NONE, _SILU):
        raise node.problem(f"input of rank {x.rank}, activation {activation}")
    if last:
        x = b.transpose(x, (0, 3, 1, 2))
    if groups < 1 or x.shape[1] % groups:
        raise node.problem(f"{groups} groups of {x.shape[1]} channels")
    inputs = [
        b.channel_last(x),
        b.source_order(b.cast(scale, x.dtype)),
        b.source_order(b.cast(shift, x.dtype)),
    ]
    params = {"epsilon": ir.f32(node.attr("epsilon", 1e-5)), "group": ir.u32(groups)}
    out = b.emit("GroupNorm", inputs, inputs[0].shape, x.dtype, params)
    made = Value(out, channel_last(4))
    made = silu(b, made) if activation == _SILU else made
    return b.transpose(made, (0, 2, 3, 1)) if last else made
