"""Products along axes."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("ReduceProd", reason=MISSING)
def _halves(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply the halves of each axis until one element is left."""
    result, x = op.outputs[0], source
    if source.dtype.is_fixed or not source.size:
        return False
    for axis in map(int, op.param("axes")):
        while (size := x.shape[axis]) > 1:
            half = size // 2
            product = w.binary(MULTIPLY, w.sliced(x, axis, 0, half), w.sliced(x, axis, half, 2 * half))
            x = w.joined([product, w.sliced(x, axis, size - 1, size)], axis) if size % 2 else product
    w.finish(w.reshape(x, result.shape))
    return True
