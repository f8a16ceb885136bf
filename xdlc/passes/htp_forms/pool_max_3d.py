"""Maximum pools of volumes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("PoolMax3d", reason=MISSING)
def _planes(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool planes of height and width, then pool along the depth."""
    result = op.outputs[0]
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    pads = op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    batch, depth, height, width, channels = source.shape
    _, deep, high, wide, _ = result.shape
    x = w.reshape(source, (batch * depth, height, width, channels))
    for shape, axes in (((batch * depth, high, wide, channels), [1, 2]), ((batch, deep, high * wide, channels), [0])):
        window = {"filter_size": kernel[axes], "stride": stride[axes]}
        params: dict[str, ir.Param] = {"rounding_mode": ir.u32(int(op.param("rounding_mode", 0)))}
        if axes == [0]:
            x = w.reshape(x, (batch, depth, high * wide, channels))
            window = {name: numpy.append(held, 1) for name, held in window.items()}
        around = numpy.zeros((2, 2), int)
        around[: len(axes)] = pads[axes]
        params |= {name: ir.u32s(held) for name, held in (*window.items(), ("pad_amount", around))}
        x = w.emit("PoolMax2d", [x], shape, params, x.dtype, x.encoding)
    w.finish(w.reshape(x, result.shape))
    return True
