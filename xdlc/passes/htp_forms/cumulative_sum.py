"""Sums of the elements before, or from the end."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_PER_STEP = 256
"""Steps of 16 bits in one of 8 bits."""


@form("CumulativeSum")
def _wider(w: Writer, op: Op, source: Tensor) -> bool:
    """Add 16 bits: HTP's sums of 8 bits are rounded at each element, and miss the zero point."""
    result = op.outputs[0]
    if source.dtype is not UFIXED8 or result.dtype is not UFIXED8:
        return False
    x = w.emit("Convert", [source], source.shape, {}, UFIXED16, source.encoding)
    encoding = result.encoding
    assert isinstance(encoding, ir.ScaleOffset)
    fine = ir.ScaleOffset(encoding.scale / _PER_STEP, encoding.offset * _PER_STEP)
    total = w.emit("CumulativeSum", [x], result.shape, op.params, UFIXED16, fine)
    w.finish(w.emit("Convert", [total], result.shape, {}, UFIXED8, encoding))
    return True
