"""Fusion of Prelu written out with two clamps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import RELU
from xdlc.passes._match import is_native, replace_by
from xdlc.passes._polynomial import affine_sources, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", op_types=("ElementWiseUnary",))
@dataclass(frozen=True, slots=True)
class FusePrelu:
    """Turn ``relu(x) - alpha * relu(-x)`` into Prelu."""

    name: str = "fuse_prelu"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if is_native(op, "ElementWiseNeuron", RELU)]
        return any(results)


def _fuse(graph: Graph, below: Op) -> bool:
    for source, factor, shift in affine_sources(below.inputs[0]):
        if factor == -1 and not shift and _join(graph, source, below):
            return True
    return False


def _join(graph: Graph, source: Tensor, below: Op) -> bool:
    negative = below.outputs[0]
    for last in reached(graph, negative):
        positive = next((held for held in last.inputs if _is_relu_of(held, source)), None)
        found = terms(last.outputs[0], [positive, negative]) if positive is not None else None
        if found is None or found.keys() != {(0,), (1,)} or not numpy.all(found[0,] == 1):
            continue
        slope = -found[1,]
        if last.outputs[0].shape != source.shape or not numpy.all(numpy.isfinite(slope)):
            continue
        values = numpy.asarray(slope if slope.ndim else slope.reshape(1), source.dtype.numpy)
        alpha = ir.static(graph.unique_name(f"{below.name}_alpha"), values)
        replace_by(graph, last, "Prelu", [source, alpha], {}, name=f"{below.name}_prelu")
        return True
    return False


def _is_relu_of(tensor: Tensor | None, source: Tensor) -> bool:
    op = tensor.producer if tensor is not None else None
    return is_native(op, "ElementWiseNeuron", RELU) and op is not None and op.inputs[0] is source
