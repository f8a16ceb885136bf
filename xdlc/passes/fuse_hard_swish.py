"""Fusion of HardSwish written out with a clamp."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import HARD_SIGMOID, HARD_SWISH, RELU_MIN_MAX
from xdlc.passes._match import is_native, replace_by_neuron
from xdlc.passes._polynomial import affine_sources, agrees, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fuse_clamp", "fuse_gelu"), op_types=("ElementWiseNeuron",))
@dataclass(frozen=True, slots=True)
class FuseHardSwish:
    """Turn ``x * clamp(x / 6 + 0.5, 0, 1)`` into HardSwish.

    A multiple of the clamp is recognized, too.
    """

    name: str = "fuse_hard_swish"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseNeuron"]
        return any(results)


def _fuse(graph: Graph, op: Op) -> bool:
    inner, gate = op.inputs[0], op.outputs[0]
    if inner is None or not inner.dtype.is_float:
        return False
    slope, middle, top = 1.0, 0.0, 1.0
    if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX):
        top = op.param("max_value")
        if op.param("min_value") or top <= 0:
            return False
    elif is_native(op, "ElementWiseNeuron", HARD_SIGMOID):
        slope, middle = op.param("alpha", 0.2), op.param("beta", 0.5)
    else:
        return False
    for source, factor, shift in ((inner, 1.0, 0.0), *affine_sources(inner)):
        if not math.isclose(factor * slope, top / 6, rel_tol=1e-5):
            continue
        if not math.isclose(shift * slope + middle, top / 2, rel_tol=1e-5):
            continue
        for last in reached(graph, gate):
            result = last.outputs[0]
            if result.shape == source.shape and agrees(terms(result, [source, gate]), {(0, 1): 1 / top}):
                replace_by_neuron(graph, last, source, HARD_SWISH, f"{op.name}_hard_swish")
                return True
    return False
