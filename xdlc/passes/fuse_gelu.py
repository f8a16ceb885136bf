"""Fusion of Gelu written out with the error function."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, GELU, MULTIPLY
from xdlc.passes._match import is_binary, is_constant, other_input, product_chain, replace_by_neuron
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", op_types=("Erf",))
@dataclass(frozen=True, slots=True)
class FuseGelu:
    """Turn ``x * (1 + erf(x / sqrt(2))) * 0.5``, in any order of its factors, into Gelu."""

    name: str = "fuse_gelu"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in graph.ops if op.type == "Erf" and op.package == ir.HOST_PACKAGE]
        return any(results)


def _fuse(graph: Graph, erf: Op) -> bool:
    source = _scaled_source(erf.inputs[0])
    plus = graph.sole_consumer(erf.outputs[0])
    if source is None or plus is None or not is_binary(plus, ADD):
        return False
    if not is_constant(other_input(plus, erf.outputs[0]), 1.0):
        return False
    last = product_chain(graph, plus.outputs[0], source, 0.5)
    if last is None:
        return False
    replace_by_neuron(graph, last, source, GELU, f"{erf.name}_gelu")
    return True


def _scaled_source(tensor: Tensor | None) -> Tensor | None:
    """Return x if ``tensor`` is x / sqrt(2)."""
    op = tensor.producer if tensor is not None else None
    if op is None:
        return None
    if is_binary(op, DIVIDE) and is_constant(op.inputs[1], math.sqrt(2)):
        return op.inputs[0]
    if is_binary(op, MULTIPLY):
        for source, factor in (op.inputs, op.inputs[::-1]):
            if is_constant(factor, math.sqrt(0.5)):
                return source
    return None
