"""PoolMax2d: the largest stored integers, then the output's encoding."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, emit_requantized, result
from xdlc.prepare.hta.compile.windows import windows_of


@compiler("PoolMax2d")
def pool_max(op: Op, builder: PlanBuilder) -> None:
    """Emit a maximum over windows."""
    source, target = activation(op, 0), result(op)
    windows = windows_of(op, source, target)
    emit_requantized(
        builder,
        op,
        source,
        target,
        lambda place: builder.emit("pool_max", op, [source], [place], **windows.settings),
    )
