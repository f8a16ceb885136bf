"""ElementWiseSelect: the second operand where the first is true, else the third."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("ElementWiseSelect")
def select(op: Op, b: Builder) -> None:
    """Lower to Where, of bools through bytes: onnxruntime has none of bools."""
    condition, first, second = (args.operand(op, index) for index in range(3))
    dtype = numpy.promote_types(b.dtype(first), b.dtype(second))
    dtype = numpy.dtype(numpy.uint8) if dtype == numpy.bool_ else dtype
    inputs = [
        b.read(condition, dtype=numpy.dtype(numpy.bool_)),
        b.read(first, dtype=dtype),
        b.read(second, dtype=dtype),
    ]
    b.write(args.result(op), b.node("Where", inputs), dtype=dtype)
