"""PoolAvg2d: means of windows, or of whole images."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.means import emit_whole_image, emit_windows
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, result
from xdlc.prepare.hta.compile.windows import windows_of


@compiler("PoolAvg2d")
def pool_average(op: Op, builder: PlanBuilder) -> None:
    """Emit sums and the bounds between which they are placed."""
    source, target = activation(op, 0), result(op)
    windows = windows_of(op, source, target)
    builder.buffer(source), builder.buffer(target)
    if windows.covers(source, target):
        emit_whole_image(builder, op, source, target)
    else:
        counts_padding = bool(op.param("count_pad_for_edges", False))
        emit_windows(builder, op, source, target, windows, counts_padding=counts_padding)
