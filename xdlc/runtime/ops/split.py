"""Split along an axis, and UnPack, which drops the axis."""

from __future__ import annotations

import itertools

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Split")
def split(op: Op, b: Builder) -> None:
    """Lower to Split; ``split_index`` lists where each output after the first begins."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    extent = source.shape[axis]
    bounds = [0, *args.integers(op, "split_index"), extent]
    sizes = [end - begin for begin, end in itertools.pairwise(bounds)]
    if min(sizes) < 0 or len(sizes) != len(op.outputs):
        raise ModelError(f"'split_index' {bounds[1:-1]} does not cut {extent} into {len(op.outputs)} outputs")
    values = b.nodes_out("Split", [b.read(source), b.ints(*sizes)], len(sizes), axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, value)


@lowering("UnPack")
def unpack(op: Op, b: Builder) -> None:
    """Lower to Split into extents of 1 and Squeeze of each."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    count = len(op.outputs)
    if count != source.shape[axis]:
        raise ModelError(f"axis {axis} has extent {source.shape[axis]}, but there are {count} outputs")
    values = b.nodes_out("Split", [b.read(source), b.ints(*[1] * count)], count, axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, b.node("Squeeze", [value, b.ints(axis)]))
