"""Handlers of composites and the operators of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.operators.applying import Operators
from xdlc.converter.operators.control_flow.sub_graph import inline
from xdlc.converter.session.node import Body, Node
from xdlc.converter.tflite.ops._forms import values_of
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import AnyValue, Value


@handler("STABLEHLO_COMPOSITE", wraps=False, ignores=("name", "version", "composite_attributes"))
def _composite(node: Node, g: Operators) -> Sequence[AnyValue]:
    body = node.graph("decomposition_subgraph")
    return inline(g.context, body, _operands(node, body))


def _operands(node: Node, body: Body) -> dict[str, AnyValue]:
    values = values_of(node)
    if len(body.inputs) != len(values) or len(body.outputs) < len(node.outputs):
        raise node.invalid(f"a sub-graph of {len(body.inputs)} inputs gets {len(values)} values")
    return dict(zip(body.inputs, values, strict=True))


@handler("DENSIFY", wraps=False)
def _densify(node: Node, g: Operators) -> Value:
    return node.required(0)  # the reader makes sparse constants dense
