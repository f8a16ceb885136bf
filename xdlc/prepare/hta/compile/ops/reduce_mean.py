"""ReduceMean."""

from __future__ import annotations

import math

from xdlc.ir import Op, Tensor
from xdlc.prepare.hta.compile.bounds import bounds, encoding_of, exact
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.means import emit_sums, emit_whole_image
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, result
from xdlc.runtime import args


@compiler("ReduceMean")
def reduce_mean(op: Op, builder: PlanBuilder) -> None:
    """Emit sums and the bounds between which they are placed."""
    source, target = activation(op, 0), result(op)
    axes, keep = sorted(args.axes(op, source.rank)), bool(op.param("keep_dims", False))
    builder.buffer(source), builder.buffer(target)
    if keep and source.rank == 4 and axes == [1, 2]:
        emit_whole_image(builder, op, source, target)
        return
    if _is_summed_in_rows(source, axes):
        emit_sums(builder, op, source, target, axes)
        return
    # The host's order of additions depends on where the numbers lie; exact sums are at most one step off.
    count = math.prod(source.shape[axis] for axis in axes)
    offset, stored = count * encoding_of(source).offset, exact(source, target, count)
    limits = bounds(lambda sums: stored(sums + offset), target, 0, count * source.dtype.limits[1])
    builder.emit("total", op, [source], [target], {"bounds": limits}, axes=axes)


def _is_summed_in_rows(source: Tensor, axes: list[int]) -> bool:
    """Return whether the host adds one row after the other: the axes lead, and others follow."""
    wide = [axis for axis in range(source.rank) if source.shape[axis] > 1]
    summed = [axis for axis in wide if axis in axes]
    return summed == wide[: len(summed)] and len(summed) < len(wide)
