"""FullyConnected of a single number."""

from __future__ import annotations

from dataclasses import replace

from xdlc import ir
from xdlc.ir import AxisScaleOffset, Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("FullyConnected")
def _single(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve a single number of fixed point by 1x1: HTP compiles its FullyConnected without end."""
    weight, result = op.inputs[1], op.outputs[0]
    if source.size != 1 or not source.dtype.is_fixed or weight is None or weight.data is None:
        return False
    kernel = w.reshape(weight, (1, 1, 1, weight.size))
    if isinstance(kernel.encoding, AxisScaleOffset):
        kernel.encoding = replace(kernel.encoding, axis=3)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[0, 0], [0, 0]])}
    inputs = [w.reshape(source, (1, 1, 1, 1)), kernel, *op.inputs[2:]]
    product = w.emit("Conv2d", inputs, kernel.shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(product, result.shape))
    return True
