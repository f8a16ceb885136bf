"""Folding of Batchnorm into the layer before it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph
from xdlc.passes._affine import fold, foldable_producer
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fuse_hard_sigmoid",), op_types=("Batchnorm",))
@dataclass(frozen=True, slots=True)
class FoldBatchnorm:
    """Fold Batchnorm into the layer whose only reader it is."""

    name: str = "fold_batchnorm"

    def apply(self, graph: Graph) -> bool:
        changed = False
        for op in graph.ops:
            if op.type != "Batchnorm" or op.package != ir.NATIVE_PACKAGE:
                continue
            layer = foldable_producer(graph, op.inputs[0], op)
            weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
            if layer is None or weight is None or weight.data is None:
                continue
            if bias is not None and bias.data is None:
                continue
            fold(graph, layer, op, weight.data, bias.data if bias is not None else None)
            changed = True
        return changed
