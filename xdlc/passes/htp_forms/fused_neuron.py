"""Tanh and Sigmoid after a product."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import SIGMOID, TANH
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("ElementWiseNeuron")
def _unfused(w: Writer, op: Op, source: Tensor) -> bool:
    """Keep Tanh and Sigmoid out of the product before them, within which HTP rounds them to 9 bits."""
    before = source.producer
    if op.param("operation") not in (SIGMOID, TANH):
        return False
    if not source.dtype.is_float or before is None or w.graph.sole_consumer(source) is not op:
        return False
    if before.type not in ("DepthWiseConv2d", "FullyConnected") or source.rank < 2:
        return False
    apart = w.reshape(source, (source.size,))
    params = {"operation": op.params["operation"]}
    result = w.emit("ElementWiseNeuron", [apart], apart.shape, params, source.dtype)
    w.finish(w.reshape(result, source.shape))
    return True
