"""Activation functions, and changes of the encoding, by tables of all stored integers."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, emit_lookup, filled, result, stored_integers
from xdlc.runtime import htp_fusion


@compiler(
    "Convert",
    "ElementWiseNeuron",
    "HardSwish",
    "Quantize",
    "Relu",
    "Relu6",
    "ReluMinMax",
    "Sigmoid",
    "Tanh",
)
def neuron(op: Op, builder: PlanBuilder) -> None:
    """Emit a look-up; nothing for a gate that only its product reads, which the host does not round."""
    source, target = activation(op, 0), result(op)
    if _is_folded(op, builder):
        return
    builder.buffer(source), builder.buffer(target)
    table = filled(builder, [op], {source: stored_integers(source)}, target)
    emit_lookup(builder, op, source, target, table[None])


def _is_folded(op: Op, builder: PlanBuilder) -> bool:
    target, graph = op.outputs[0], builder.graph
    readers = graph.consumers(target)
    if builder.stated or not readers or target in graph.outputs:
        return False
    return all(htp_fusion.gate_of(reader) is target for reader in readers)
