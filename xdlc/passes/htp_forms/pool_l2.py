"""Roots of sums of squares in windows."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import MULTIPLY, SQRT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("L2Pool2d", reason=MISSING)
def _averages(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply the root of the average of squares by that of their number; padding counts as 0."""
    result, kernel = op.outputs[0], op.param("filter_size")
    if not source.dtype.is_float:
        return False
    params = {**op.params, "count_pad_for_edges": ir.b8(True)}
    mean = w.emit("PoolAvg2d", [w.binary(MULTIPLY, source, source)], result.shape, params, source.dtype)
    number = w.number(math.sqrt(kernel.prod()), source.dtype)
    w.finish(w.binary(MULTIPLY, w.unary(SQRT, mean), number))
    return True
