"""Reshape and views of it, Transpose, Tile: elements that are moved or repeated."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, b: Builder) -> None:
    """Lower to Reshape: its shape is that of the output."""
    source, target = args.operand(op, 0), args.result(op)
    if source.size != target.size and not (source.dynamic_axes or target.dynamic_axes):
        raise ModelError(f"{list(source.shape)} does not have as many elements as {list(target.shape)}")
    if len(target.dynamic_axes) > 1:
        raise b.unsupported(
            f"output {target.name!r} has {len(target.dynamic_axes)} dynamic axes, one can be inferred",
            "fix the shape of the graph's inputs",
        )
    shape = [-1 if axis in target.dynamic_axes else dim for axis, dim in enumerate(target.shape)]
    b.write(target, b.reshape(b.read(source, dtype=b.held(source)), shape), dtype=b.held(source))


@lowering("Transpose")
def transpose(op: Op, b: Builder) -> None:
    """Keep the value; readers of another axis order insert a Transpose."""
    source = args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    if len(perm) != source.rank:
        raise ModelError(f"parameter 'perm' has {len(perm)} axes, the input has {source.rank}")
    b.write_view(args.result(op), source, perm)


@lowering("Tile")
def tile(op: Op, b: Builder) -> None:
    """Lower to Tile."""
    source = args.operand(op, 0)
    multiples = args.integers(op, "multiples", source.rank)
    b.write(
        args.result(op),
        b.node("Tile", [b.read(source, dtype=b.held(source)), b.ints(*multiples)]),
        dtype=b.held(source),
    )
