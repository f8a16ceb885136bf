"""Folding of views into neighbouring ops."""

from __future__ import annotations

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._match import alone, is_type, match
from xdlc.passes._writing import Writer
from xdlc.passes.base import op_pass
from xdlc.passes.merge_views import from_transpose, moved, views_from, views_to

_TURNED = alone("Reshape", alone("Transpose", "x", name="middle"))
_ROW = 32
"""Features that HTP's layout holds of each place, used or not."""


@op_pass("FullyConnected", "MatMul", stage="converter", after=("fold_pad",), needs=("Transpose",))
def fold_transpose_into_fully_connected(graph: Graph, op: Op) -> bool:
    """Fold a Transpose before a Reshape into the weights of the product after."""
    flat, weight = op.inputs[0], op.inputs[1]
    turned = match(graph, _TURNED, flat)
    if flat is None or turned is None or weight is None or weight.data is None or weight.rank != 2:
        return False
    if op.param("transpose_in0") or isinstance(weight.encoding, ir.BlockScaleOffset | ir.BlockwiseExpansion):
        return False
    axis = 1 if op.type == "FullyConnected" or op.param("transpose_in1") else 0
    if isinstance(weight.encoding, ir.AxisScaleOffset) and weight.encoding.axis == axis:
        return False
    source, middle = turned["x"], turned["middle"]
    reshape, transpose = flat.producer, middle.producer
    assert reshape is not None
    assert transpose is not None
    if flat.rank != 2 or middle.shape[0] != flat.shape[0] or source.encoding != flat.encoding:
        return False
    perm = [int(entry) for entry in transpose.param("perm")]
    if perm[0] != 0:
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


@op_pass(
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    stage="converter",
    after=("merge_views",),
    needs=("Reshape",),
)
def keep_reduced_axes(graph: Graph, op: Op) -> bool:
    """Let a reduction keep its axes if a Reshape restores them."""
    source, reduced = op.inputs[0], op.outputs[0]
    if source is None or op.param("keep_dims", False):
        return False
    view = graph.sole_consumer(reduced)
    if view is None or not is_type(view, "Reshape"):
        return False
    axes = {int(axis) for axis in op.param("axes", range(source.rank))}
    result = view.outputs[0]
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(source.shape))
    if result.shape != kept or result.encoding != reduced.encoding or source.dynamic_axes:
        return False
    graph.unlink(view)
    graph.set_output(op, 0, result)
    op.params["keep_dims"] = ir.b8(True)
    op.origin = op.origin.merged(view.origin)
    return True


@op_pass("FullyConnected", stage="converter", after=("merge_rearrangements",), needs=("Transpose",))
def mix_leading_features(graph: Graph, op: Op) -> bool:
    """Turn Transpose, FullyConnected, Transpose into MatMul.

    Talking heads mix the heads of attention so, which are fewer than a row of HTP's layout holds.
    """
    flat, weight, result = op.inputs[0], op.inputs[1], op.outputs[0]
    if flat is None or weight is None or not weight.is_static:
        return False
    if weight.encoding is not None or result.encoding is not None or max(weight.shape) >= _ROW:
        return False
    views = views_to(graph, flat)
    chain = from_transpose(views)
    if not chain or graph.sole_consumer(flat) is not op or not from_transpose(views_from(graph, result)):
        return False
    first, source, layout = args.operand(views[0], 0), args.operand(chain[0], 0), moved(chain)
    if layout is None or flat.rank != 2:
        return False
    shape, perm = layout
    *batch, features, count = shape
    if perm not in ([1, 0], [0, 2, 1]) or features != weight.shape[1] or batch not in ([], [source.shape[0]]):
        return False
    for view in reversed(chain):
        op.origin = view.origin.merged(op.origin)
    w = Writer(graph, op, "the features come before the other axes")
    lead, row = (*batch, weight.shape[0]), first.shape[-1]
    mixed = w.emit("MatMul", [weight, w.reshape(source, shape)], (*lead, count), None, result.dtype)
    for bias in op.inputs[2:]:
        if bias is not None:  # added to rows as they were, which HTP's layout holds best
            row = row if count % row == 0 else count
            mixed = w.reshape(mixed, (*lead, count // row, row))
            mixed = w.binary(ADD, mixed, w.reshape(bias, (bias.size, 1, 1)))
    w.finish(w.reshape(w.transposed(w.reshape(mixed, (*lead, count)), perm), result.shape))
    return True
