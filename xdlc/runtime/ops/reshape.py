"""Ops that keep the elements in order and change the shape around them."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, b: Builder) -> None:
    """Lower to Reshape: the output's shape says it all."""
    source, target = args.operand(op, 0), args.result(op)
    if source.size != target.size and not (source.dynamic_axes or target.dynamic_axes):
        raise ModelError(f"{list(source.shape)} does not have as many elements as {list(target.shape)}")
    if len(target.dynamic_axes) > 1:
        raise b.unsupported(
            f"output {target.name!r} has {len(target.dynamic_axes)} dynamic axes, one can be inferred",
            "fix the shape of the graph's inputs",
        )
    shape = [-1 if axis in target.dynamic_axes else extent for axis, extent in enumerate(target.shape)]
    b.write(target, b.reshape(b.read(source, dtype=b.held(source)), shape), dtype=b.held(source))
