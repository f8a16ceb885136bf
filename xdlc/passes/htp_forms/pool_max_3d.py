"""Maximum pools of volumes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("PoolMax3d", reason=MISSING)
def _planes(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool planes of height and width, then pool along the depth."""
    result = op.outputs[0]
    if source.encoding != result.encoding:
        return False
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    pads = op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    batch, depth, height, width, channels = source.shape
    _, deep, high, wide, _ = result.shape
    x = w.reshape(source, (batch * depth, height, width, channels))
    x = _pooled(w, op, x, (batch * depth, high, wide, channels), kernel[1:], stride[1:], pads[1:])
    x = w.reshape(x, (batch, depth, high * wide, channels))
    one, none = numpy.ones(1, int), numpy.zeros((1, 2), int)
    window = (numpy.append(kernel[0], one), numpy.append(stride[0], one), numpy.append(pads[:1], none, 0))
    x = _pooled(w, op, x, (batch, deep, high * wide, channels), *window)
    w.finish(w.reshape(x, result.shape))
    return True


def _pooled(
    w: Writer, op: Op, x: Tensor, shape: tuple[int, ...], kernel: Array, stride: Array, pads: Array
) -> Tensor:
    window = {"filter_size": kernel, "stride": stride, "pad_amount": pads}
    params: dict[str, ir.Param] = {name: ir.u32s(numbers) for name, numbers in window.items()}
    params["rounding_mode"] = ir.u32(int(op.param("rounding_mode", 0)))
    return w.emit("PoolMax2d", [x], shape, params, x.dtype, x.encoding)
