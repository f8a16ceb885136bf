"""MatMul with static weights as FullyConnected, whose weights may have a scale per output channel."""

from __future__ import annotations

from xdlc.ir import Graph, Op, Origin, Tensor, b8, make_op
from xdlc.ir.tensor import Role


def matmul_to_fully_connected(graph: Graph) -> bool:
    """Turn each MatMul by a static float matrix into FullyConnected; say if any was.

    Weights are transposed to [out, in] when they are read.  FullyConnected folds all leading axes of
    its input into one; ``keep_dims`` gives them back.
    """
    changed = False
    for op in graph.ops:
        if op.type == "MatMul" and _has_static_matrix(graph, op):
            _turn(graph, op)
            changed = True
    return changed


def _has_static_matrix(graph: Graph, op: Op) -> bool:
    source, weight = op.inputs[0], op.inputs[1]
    return (
        op.package == "qti.aisw"
        and source is not None
        and weight is not None
        and weight.is_static
        and weight.dtype.is_float
        and weight.encoding is None
        and weight.rank >= 2
        and source.rank >= max(2, weight.rank)
        and all(extent == 1 for extent in weight.shape[:-2])
        and not op.param("transpose_in0", False)
    )


def _turn(graph: Graph, op: Op) -> None:
    weight, result = op.inputs[1], op.outputs[0]
    if weight is None or weight.data is None:
        raise ValueError(f"{op.name!r} has no static weight")
    data = weight.data.reshape(weight.shape[-2:])
    if not op.param("transpose_in1", False):
        data = data.transpose((1, 0))
    name = graph.unique_name(f"{weight.name}_t")
    turned = Tensor(name, data.shape, weight.dtype, None, data, Role.STATIC)
    inputs = [op.inputs[0], turned, *op.inputs[2:]]
    origin = op.origin if op.origin.reason else Origin(op.origin.nodes, None)
    new = make_op(
        graph,
        "FullyConnected",
        inputs,
        [result],
        {"keep_dims": b8(result.rank != 2)},
        name=f"{op.name}_fc",
        origin=origin,
    )
    graph.replace_op(op, new)
    if not graph.consumers(weight):
        graph.tensors.pop(weight.name, None)
