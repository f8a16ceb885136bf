"""OneHot."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("OneHot")
def one_hot(op: Op, b: Builder) -> None:
    """Lower to OneHot; indices below 0 or beyond the depth give a row of the off value.

    So does the vendor's emulation of HTP (SDK 2.51); ONNX's operator counts those below 0 from the end.
    """
    index, target = args.operand(op, 0), args.result(op)
    values = [op.param("off_value", 0), op.param("on_value", 1)]
    place, depth = b.read(index, dtype=numpy.dtype(numpy.int64)), int(args.required(op, "depth"))
    # The two types that onnxruntime fills in; the parameters are exact in them.
    dtype = numpy.dtype(numpy.float32 if b.dtype(target).kind == "f" else numpy.int64)
    if index.dtype.is_signed:
        below = b.node("Less", [place, b.constant(0, numpy.int64)])
        place = b.node("Where", [below, b.constant(depth, numpy.int64), place])
    inputs = [
        place,
        b.ints(depth),
        b.constant(values, dtype),
    ]
    axis = args.axis(op, index.rank + 1, default=index.rank)
    b.write(target, b.node("OneHot", inputs, axis=axis), dtype=dtype)
