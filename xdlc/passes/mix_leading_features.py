"""Layers of few features that lie before others."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass
from xdlc.passes.merge_rearrangements import from_transpose, moved, views_from, views_to

_ROW = 32
"""Features that HTP's layout holds of each place, used or not."""


@graph_pass(stage="converter", after=("merge_rearrangements",), op_types=("FullyConnected",))
@dataclass(frozen=True, slots=True)
class MixLeadingFeatures:
    """Turn Transpose, FullyConnected, Transpose into MatMul.

    Talking heads mix the heads of attention so, which are fewer than a row of HTP's layout holds.
    """

    name: str = "mix_leading_features"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [_mix(graph, op) for op in list(graph.ops) if op.type == "FullyConnected"]
        return any(results)


def _mix(graph: Graph, op: Op) -> bool:
    flat, weight, result = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.package != ir.NATIVE_PACKAGE or flat is None or weight is None or not weight.is_static:
        return False
    if weight.encoding is not None or result.encoding is not None or max(weight.shape) >= _ROW:
        return False
    views = views_to(graph, flat)
    chain = from_transpose(views)
    if not chain or graph.sole_consumer(flat) is not op or not from_transpose(views_from(graph, result)):
        return False
    first, source, layout = views[0].inputs[0], chain[0].inputs[0], moved(chain)
    assert first is not None
    assert source is not None
    if layout is None or flat.rank != 2:
        return False
    shape, perm = layout
    *batch, features, count = shape
    if perm not in ([1, 0], [0, 2, 1]) or features != weight.shape[1] or batch not in ([], [source.shape[0]]):
        return False
    for view in reversed(chain):
        op.origin = view.origin.merged(op.origin)
    w = Writer(graph, op, "its features lie before others")
    lead, row = (*batch, weight.shape[0]), first.shape[-1]
    mixed = w.emit("MatMul", [weight, w.reshape(source, shape)], (*lead, count), None, result.dtype)
    for bias in op.inputs[2:]:
        if bias is not None:  # added to rows as they were, which HTP's layout holds best
            row = row if count % row == 0 else count
            mixed = w.reshape(mixed, (*lead, count // row, row))
            mixed = w.binary(ADD, mixed, w.reshape(bias, (bias.size, 1, 1)))
    w.finish(w.reshape(w.transposed(w.reshape(mixed, (*lead, count)), perm), result.shape))
    return True
