"""Handlers of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import spread
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value


@aten("conv1d", "conv2d", "conv3d", layout=CHANNEL_LAST)
def _conv(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    rank = weight.rank - 2
    pads = spread(padding, rank)
    return g(
        "Conv",
        [input, weight, bias],
        strides=spread(stride, rank),
        pads=pads + pads,
        dilations=spread(dilation, rank),
        group=groups,
    )
