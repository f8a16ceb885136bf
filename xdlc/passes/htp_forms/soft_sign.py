"""Soft signs of large numbers."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import ABS, ADD, DIVIDE
from xdlc.passes._match import is_binary, is_native
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_MOST = 16000.0
"""A number whose reciprocal is no denormal float16, all of which are 0 on HTP."""


@form("ElementWiseBinary")
def _clipped(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip x in ``x / (|x| + 1)``."""
    total = op.inputs[1].producer if op.inputs[1] is not None else None
    if not is_binary(op, DIVIDE) or not source.dtype.is_float or w.is_clipped(source):
        return False
    if total is None or not is_binary(total, ADD):
        return False
    sizes = [_size_of(x, source) for x in total.inputs]
    if sizes.count(True) != 1:
        return False
    one = total.inputs[sizes.index(False)]
    if one is None or one.data is None or (one.numpy() != 1).any():
        return False
    x = w.clip(source, -_MOST, _MOST)
    w.graph.set_inputs(op, [x, w.binary(ADD, w.unary(ABS, x), one)])
    return True


def _size_of(x: Tensor | None, source: Tensor) -> bool:
    """Return whether a tensor is the absolute value of another."""
    before = x.producer if x is not None else None
    return before is not None and is_native(before, "ElementWiseUnary", ABS) and before.inputs[0] is source
