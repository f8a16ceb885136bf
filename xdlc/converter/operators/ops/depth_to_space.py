"""DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last


@importer("DepthToSpace", layout=CHANNEL_LAST)
def depth_to_space(node: Node, b: Builder) -> Value:
    """Map onto DepthToSpace in either mode."""
    x, block = node.required(0), node.attr("blocksize")
    if x.rank != 4 or not block or x.shape[1] % (block * block):
        raise node.problem(f"blocksize {block} does not fit {list(x.shape)}")
    mode = {"DCR": 0, "CRD": 1}.get(node.attr("mode", "DCR"))
    if mode is None:
        raise node.invalid(f"mode must be DCR or CRD, but is {node.attr('mode')!r:.40}")
    n, c, h, w = x.shape
    params: dict[str, ir.Param] = {
        "block_size": ir.u32s([block, block]),
        "mode": ir.u32(mode),
    }
    shape = (n, h * block, w * block, c // (block * block))
    return Value(b.emit("DepthToSpace", [b.channel_last(x)], shape, x.dtype, params), channel_last(4))


@importer("SpaceToDepth", layout=CHANNEL_LAST)
def space_to_depth(node: Node, b: Builder) -> Value:
    """Map onto SpaceToDepth."""
    x, block = node.required(0), node.attr("blocksize")
    if node.attr("mode", "DCR") != "DCR":
        raise node.problem(f"mode {node.attr('mode')!r} is not supported here", "export with mode DCR")
    if x.rank != 4 or not block or x.shape[2] % block or x.shape[3] % block:
        raise node.problem(f"blocksize {block} does not fit {list(x.shape)}")
    n, c, h, w = x.shape
    params = {"block_size": ir.u32s([block, block])}
    shape = (n, h // block, w // block, c * block * block)
    return Value(b.emit("SpaceToDepth", [b.channel_last(x)], shape, x.dtype, params), channel_last(4))
