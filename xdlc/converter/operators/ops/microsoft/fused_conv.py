"""FusedConv: a convolution, an addition and an activation."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._formulas import plus
from xdlc.converter.operators.ops.conv import convolve
from xdlc.converter.operators.ops.microsoft._activations import activated
from xdlc.converter.operators.registry import CHANNEL_LAST, MICROSOFT, Node, importer
from xdlc.converter.values import Value


@importer("FusedConv", domain=MICROSOFT, layout=CHANNEL_LAST)
def fused_conv(node: Node, b: Builder) -> Value:
    """Map onto a convolution, an optional addition, and the activation."""
    made = convolve(node, b, node.required(0), node.required(1), node.input(2))
    return activated(node, b, plus(b, made, node.input(3)), node.attr("activation_params") or [])
