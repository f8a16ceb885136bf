"""Convert ops behind ops that only hand values on, but between encodings that are given and unequal."""

from __future__ import annotations

from xdlc.ir import Graph, Op, Origin, Tensor, make_op
from xdlc.quant.op_specs import rule_of
from xdlc.quant.placement import Placement


def convert_moves(graph: Graph, placement: Placement) -> None:
    """Let ops such as Reshape keep the encoding that they read; bring their result into its own behind them.

    No backend rounds anew while it moves values.

    Args:
        graph: The quantized graph.
        placement: Which of its ops were quantized.
    """
    for op in placement.fixed:
        rule = rule_of(op)
        source = op.inputs[0] if op.inputs else None
        if rule is None or not rule.selects or source is None or not source.dtype.is_fixed:
            continue
        for index, result in enumerate(op.outputs):
            if result.dtype.is_fixed and (result.dtype, result.encoding) != (source.dtype, source.encoding):
                _convert(graph, op, index, source)


def _convert(graph: Graph, op: Op, index: int, source: Tensor) -> None:
    result = op.outputs[index]
    name = graph.unique_name(f"{result.name}_moved")
    moved = Tensor(name, result.shape, source.dtype, source.encoding, dynamic_axes=result.dynamic_axes)
    graph.set_output(op, index, moved)
    if graph.tensors.get(result.name) is not result:  # nobody reads it
        return
    origin = Origin(op.origin.nodes, f"{op.name!r} keeps the encoding that it reads")
    graph.insert_after(op, make_op(graph, "Convert", [moved], [result], name=f"{name}_op", origin=origin))
