"""Folding of the Transpose of a flattened image into the weights that read it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fold_pad",), op_types=("FullyConnected", "MatMul"))
@dataclass(frozen=True, slots=True)
class FoldTransposeIntoFullyConnected:
    """Fold a Transpose before a Reshape into the weights of the product after."""

    name: str = "fold_transpose_into_fully_connected"

    def apply(self, graph: Graph) -> bool:
        results = [
            _fold(graph, op)
            for op in graph.ops
            if op.type in ("FullyConnected", "MatMul") and op.package == ir.NATIVE_PACKAGE
        ]
        return any(results)


def _is_native(op: Op, type: str) -> bool:
    return op.type == type and op.package == ir.NATIVE_PACKAGE


def _fold(graph: Graph, op: Op) -> bool:
    flat, weight = op.inputs[0], op.inputs[1]
    if flat is None or weight is None or weight.data is None or weight.rank != 2:
        return False
    if op.param("transpose_in0") or isinstance(weight.encoding, ir.BlockScaleOffset | ir.BlockwiseExpansion):
        return False
    axis = 1 if op.type == "FullyConnected" or op.param("transpose_in1") else 0
    if isinstance(weight.encoding, ir.AxisScaleOffset) and weight.encoding.axis == axis:
        return False
    reshape = flat.producer
    if reshape is None or not _is_native(reshape, "Reshape") or graph.sole_consumer(flat) is not op:
        return False
    middle = reshape.inputs[0]
    transpose = middle.producer if middle is not None else None
    if middle is None or transpose is None or not _is_native(transpose, "Transpose"):
        return False
    if graph.sole_consumer(middle) is not reshape or flat.rank != 2 or middle.shape[0] != flat.shape[0]:
        return False
    perm = [int(entry) for entry in transpose.param("perm")]
    source = transpose.inputs[0]
    if perm[0] != 0 or source is None or source.encoding != flat.encoding:
        return False
    features = middle.shape[1:]
    back = [perm[1:].index(position) for position in range(1, len(perm))]
    data = weight.data
    if axis == 1:
        moved = data.reshape((data.shape[0], *features)).transpose((0, *(step + 1 for step in back)))
    else:
        moved = data.reshape((*features, data.shape[1])).transpose((*back, len(back)))
    permuted = Tensor(
        graph.unique_name(weight.name),
        weight.shape,
        weight.dtype,
        weight.encoding,
        moved.reshape(data.shape),
        ir.Role.STATIC,
    )
    graph.set_inputs(op, [flat, permuted, *op.inputs[2:]])
    graph.set_inputs(reshape, [source])
    graph.supersede(weight, permuted)
    op.origin = ir.Origin(op.origin.merged(transpose.origin).nodes, op.origin.reason)
    graph.remove(transpose)
    return True
