"""GridSample."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder, channels_first
from xdlc.runtime.ops import lowering

MODES = ("linear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


@lowering("GridSample")
def grid_sample(op: Op, b: Builder) -> None:
    """Lower to GridSample."""
    source, grid = args.operand(op, 0), args.operand(op, 1)
    mode, padding = int(op.param("mode", 0)), int(op.param("padding_mode", 0))
    if mode >= len(MODES) or padding >= len(PADDINGS):
        raise ModelError(f"mode {mode} and padding_mode {padding}, known are 0 to 1 and 0 to 2")
    order = channels_first(source.rank)
    value = b.node(
        "GridSample",
        [b.read(source, order), b.read(grid)],
        align_corners=int(bool(op.param("align_corners", False))),
        mode=MODES[mode],
        padding_mode=PADDINGS[padding],
    )
    b.write(args.result(op), value, order)
