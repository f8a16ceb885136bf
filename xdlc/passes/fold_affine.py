"""Folding of a constant term or factor per channel into the layer before it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, TensorData
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.passes._affine import channels, fold, foldable_producer, per_channel
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fold_batchnorm",), op_types=("ElementWiseBinary",))
@dataclass(frozen=True, slots=True)
class FoldAffine:
    """Fold sums, differences, products and quotients with constants into a layer."""

    name: str = "fold_affine"

    def apply(self, graph: Graph) -> bool:
        folded = [_fold(graph, op) for op in graph.ops if op.type == "ElementWiseBinary"]
        return any(folded)


def _fold(graph: Graph, op: Op) -> bool:
    operation = op.param("operation")
    if op.package != ir.NATIVE_PACKAGE or operation not in (ADD, DIVIDE, MULTIPLY, SUBTRACT):
        return False
    left, right = op.inputs
    if left is not None and left.is_static and operation in (ADD, MULTIPLY):
        left, right = right, left
    layer = foldable_producer(graph, left, op)
    if layer is None or right is None or left is None or op.outputs[0].shape != left.shape:
        return False
    if op.outputs[0].encoding is not None:
        return False
    term = per_channel(right, channels(layer))
    if term is None:
        return False
    scale: TensorData | None = None
    shift: TensorData | None = None
    if operation == ADD:
        shift = term
    elif operation == SUBTRACT:
        shift = term.transform(lambda array: -array)
    elif operation == MULTIPLY:
        scale = term
    else:
        scale = term.transform(lambda array: (1.0 / array).astype(array.dtype))
    fold(graph, layer, op, scale, shift)
    return True
