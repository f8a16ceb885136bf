"""ScatterElements and ScatterNd."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

REDUCTIONS = ("none", "add", "mul", "max")


@lowering("ScatterElements", "ScatterNd")
def scatter(op: Op, b: Builder) -> None:
    """Lower to ScatterElements or ScatterND with the reduction of the same number."""
    source, index, updates = (args.operand(op, position) for position in range(3))
    number = int(op.param("reduction", 0))
    if not 0 <= number < len(REDUCTIONS):
        raise ModelError(f"parameter 'reduction' is {number}, known are 0 to {len(REDUCTIONS) - 1}")
    dtype = b.dtype(source)
    inputs = [b.read(source), b.read(index, dtype=numpy.dtype(numpy.int64)), b.read(updates, dtype=dtype)]
    along: dict[str, Any] = (
        {"axis": args.axis(op, source.rank, default=0)} if op.type == "ScatterElements" else {}
    )
    type = "ScatterElements" if along else "ScatterND"
    value = b.node(type, inputs, reduction=REDUCTIONS[number], **along)
    b.write(args.result(op), b.wrapped(value, source), dtype=dtype)
