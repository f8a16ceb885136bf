"""Fusion of Gelu written out with the error function."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import GELU
from xdlc.passes._match import replace_by_neuron
from xdlc.passes._polynomial import affine_sources, agrees, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", op_types=("Erf",))
@dataclass(frozen=True, slots=True)
class FuseGelu:
    """Turn ``x * (1 + erf(x / sqrt(2))) / 2`` into Gelu."""

    name: str = "fuse_gelu"

    def apply(self, graph: Graph) -> bool:
        results = [
            _fuse(graph, op) for op in list(graph.ops) if op.type == "Erf" and op.package == ir.HOST_PACKAGE
        ]
        return any(results)


def _fuse(graph: Graph, erf: Op) -> bool:
    bent = erf.outputs[0]
    for source, factor, shift in affine_sources(erf.inputs[0]):
        if shift or not math.isclose(abs(factor), math.sqrt(0.5), rel_tol=1e-5):
            continue
        wanted = {(0,): 0.5, (0, 1): math.copysign(0.5, factor)}
        for last in reached(graph, bent):
            result = last.outputs[0]
            if result.shape == source.shape and agrees(terms(result, [source, bent]), wanted):
                replace_by_neuron(graph, last, source, GELU, f"{erf.name}_gelu")
                return True
    return False
