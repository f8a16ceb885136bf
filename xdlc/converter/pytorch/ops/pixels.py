"""Handlers of rearranged pixels and channels."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc.gathering import shuffled
from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value, check_table


@aten("pixel_shuffle", layout=CHANNEL_LAST)
def _pixel_shuffle(node: AtenNode, g: Operators, self: Value, upscale_factor: int) -> Value:
    made = g("DepthToSpace", [_images(g, self)], blocksize=upscale_factor, mode="CRD")
    return made if self.rank == 4 else reshape(g, made, (*self.shape[:-3], *made.shape[1:]))


def _images(g: Operators, x: Value) -> Value:
    """Return [..., C, H, W] with one batch axis."""
    return x if x.rank == 4 else reshape(g, x, (math.prod(dims(x)[:-3]), *x.shape[-3:]))


@aten("pixel_unshuffle", layout=CHANNEL_LAST)
def _pixel_unshuffle(node: AtenNode, g: Operators, self: Value, downscale_factor: int) -> Value:
    (channels,), block = dims(self, [-3]), downscale_factor
    blocks = g("SpaceToDepth", [_images(g, self)], blocksize=block)
    if block > 1 and channels > 1:  # it is block by block; PyTorch has channel by channel
        check_table(channels, block * block)
        order = np.arange(channels * block * block).reshape(block * block, channels).T
        blocks = g("Gather", [blocks, vector(g, order.reshape(-1))], axis=1)
    return blocks if self.rank == 4 else reshape(g, blocks, (*self.shape[:-3], *blocks.shape[1:]))


@aten("channel_shuffle", "native_channel_shuffle", layout=ANY)
def _channel_shuffle(node: AtenNode, g: Operators, self: Value, groups: int) -> Value:
    return shuffled(g, self, groups, 1)
