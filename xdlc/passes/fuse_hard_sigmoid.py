"""Fusion of HardSigmoid written out with a clamp."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import HARD_SIGMOID, RELU_MIN_MAX
from xdlc.passes._match import is_native, replace_by
from xdlc.passes._polynomial import affine_sources, agrees, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fuse_hard_swish",), op_types=("ElementWiseBinary",))
@dataclass(frozen=True, slots=True)
class FuseHardSigmoid:
    """Turn ``clamp(a * x + b, 0, top) / top`` into HardSigmoid."""

    name: str = "fuse_hard_sigmoid"

    def apply(self, graph: Graph) -> bool:
        results = [
            _fuse(graph, op) for op in list(graph.ops) if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX)
        ]
        return any(results)


def _fuse(graph: Graph, clamp: Op) -> bool:
    gate, top = clamp.outputs[0], clamp.param("max_value")
    if clamp.param("min_value") or top <= 0 or not gate.dtype.is_float:
        return False
    for source, factor, shift in reversed(list(affine_sources(clamp.inputs[0]))):
        if shift != top / 2 or factor <= 0 or source.rank > 4:
            continue
        for last in (*reached(graph, gate), *([clamp] if top == 1 else ())):
            if last.outputs[0].shape != source.shape:
                continue
            if last is clamp or agrees(terms(last.outputs[0], [gate]), {(0,): 1 / top}):
                params = {
                    "operation": ir.u32(HARD_SIGMOID),
                    "alpha": ir.f32(factor / top),
                    "beta": ir.f32(shift / top),
                }
                name = f"{clamp.name}_hard_sigmoid"
                replace_by(graph, last, "ElementWiseNeuron", [source], params, name=name)
                return True
    return False
