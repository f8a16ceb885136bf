"""Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value, broadcast


@importer("Expand", since=8, layout=ANY)
def expand(node: Node, b: Builder) -> Value:
    """Map broadcasting onto Tile."""
    return expanded(b, node.required(0), node.required_ints(1, "shape", "the sizes"))


def expanded(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Return ``x`` broadcast with a value of ``shape``."""
    rank = max(x.rank, len(shape))
    x = b.with_rank(x, rank)
    wanted = [1] * (rank - len(shape)) + list(shape)
    target = [broadcast((dim, other)) for dim, other in zip(x.shape, wanted, strict=True)]
    return tiled(b, x, [new // max(old, 1) for new, old in zip(target, x.shape, strict=True)])


@importer("Tile", since=6, layout=ANY)
def tile(node: Node, b: Builder) -> Value:
    """Map onto Tile."""
    x = node.required(0)
    repeats = node.required_ints(1, "repeats", "the repeats")
    if len(repeats) != x.rank:
        raise node.problem(f"{len(repeats)} repeats for rank {x.rank}")
    if any(count < 0 for count in repeats):
        raise node.invalid(f"repeats {repeats} has a negative number")
    return tiled(b, x, repeats)


def tiled(b: Builder, x: Value, repeats: list[int]) -> Value:
    """Append a Tile unless nothing repeats; constants are repeated on writing."""
    if all(count == 1 for count in repeats):
        return x
    if x.tensor.data is not None and x.tensor.encoding is None and x.bits is None:
        repeated = ir.Repeated(x.tensor.data, repeats)
        if b.takes_fill(repeated):
            return b.static_like(x, repeated)
    lying = [repeats[axis] for axis in x.order]
    params = {"multiples": ir.u32s(lying)}
    shape = [dim * count for dim, count in zip(x.tensor.shape, lying, strict=True)]
    return Value(b.emit("Tile", [b.to_layout(x, x.order)], shape, x.dtype, params), x.order)
