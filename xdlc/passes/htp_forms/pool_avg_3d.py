"""Average pools of volumes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import SFIXED8, UFIXED16
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import reached_pads, wide
from xdlc.passes.htp_forms.registry import form


@form("PoolAvg3d")
def _counted(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad before the pool, and count no padding."""
    result = op.outputs[0]
    if not op.param("count_pad_for_edges", False):
        return False
    x, params = w.padded(source, reached_pads(op)), {**op.params, "count_pad_for_edges": ir.b8(False)}
    params |= {"pad_amount": ir.u32s(numpy.zeros((3, 2), int)), "rounding_mode": ir.u32(0)}
    w.finish(w.emit(op.type, [x], result.shape, params, result.dtype, result.encoding))
    return True


@form("PoolAvg3d")
def _no_columns(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad the end of the width too, and cut that off, where other axes alone are padded.

    Padding at the end of the depth is right in floats.
    """
    result, stated = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    is_wrong = stated[:2, 0].any() or (result.dtype.is_fixed and stated[0, 1])
    if not is_wrong or stated[2].any():
        return False
    pads = reached_pads(op)
    pads[2, 1] += op.param("stride").astype(int)[2]
    params = {**op.params, "pad_amount": ir.u32s(numpy.maximum(pads, 0)), "rounding_mode": ir.u32(0)}
    *sizes, columns, channels = result.shape
    x = w.emit(op.type, [source], (*sizes, columns + 1, channels), params, result.dtype, result.encoding)
    w.finish(w.sliced(x, 3, 0, columns))
    return True


@form("PoolAvg3d")
def _unsigned(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool signed fixed point of 8 bits, which HTP rounds by up to two steps, as unsigned one of 16."""
    result, before, after = op.outputs[0], wide(source), wide(op.outputs[0])
    if source.dtype is not SFIXED8 or before is None or after is None:
        return False
    x = w.emit("Convert", [source], source.shape, {}, UFIXED16, before)
    x = w.emit(op.type, [x], result.shape, op.params, UFIXED16, after)
    w.finish(w.emit("Convert", [x], result.shape, {}, result.dtype, result.encoding))
    return True
