"""Products of a value and its own Sigmoid."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED16
from xdlc.opdefs.elementwise_enums import MULTIPLY, RELU, SIGMOID
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_ROWS = 8


@form("ElementWiseBinary")
def _unfused(w: Writer, op: Op, source: Tensor) -> bool:
    """Keep a Sigmoid of 16 bits out of the product by a Relu, for HTP's kernel of both repeats 8 rows."""
    if op.param("operation") != MULTIPLY or source.dtype is not UFIXED16 or source.rank < 3:
        return False
    for gate, other in (op.inputs, op.inputs[::-1]):
        sigmoid = gate.producer if gate is not None else None
        if (
            gate is None
            or sigmoid is None
            or sigmoid.type != "ElementWiseNeuron"
            or sigmoid.inputs[0] is not other
        ):
            continue
        if sigmoid.param("operation") == SIGMOID and gate.shape[-3] > _ROWS:
            params = {"operation": ir.u32(RELU)}
            apart = w.emit("ElementWiseNeuron", [gate], gate.shape, params, gate.dtype, gate.encoding)
            w.graph.set_inputs(op, [apart if tensor is gate else tensor for tensor in op.inputs])
            return True
    return False
