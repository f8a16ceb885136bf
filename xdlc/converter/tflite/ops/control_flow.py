"""Handlers of conditionals, loops, and variables in sub-graphs."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.operators.control_flow.branches import apply_if
from xdlc.converter.operators.control_flow.while_form import apply_while, trip_count
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Body, Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import AnyValue, Value


def _operands(node: Node, first: int, graphs: Sequence[Body]) -> list[Value]:
    """Return the inputs from a position on, as operands of the graphs."""
    operands = [node.required(index) for index in range(first, len(node.inputs))]
    for graph in graphs:
        if len(graph.inputs) != len(operands):
            raise node.invalid(f"a sub-graph of {len(graph.inputs)} inputs gets {len(operands)} values")
    return operands


@handler("IF", wraps=False)
def _if(node: Node, g: Operators) -> Sequence[AnyValue]:
    branches = [node.graph("then_subgraph"), node.graph("else_subgraph")]
    return apply_if(g, node.required(0), branches, _operands(node, 1, branches), len(node.outputs))


@handler("WHILE", "STABLEHLO_WHILE", wraps=False)
def _while(node: Node, g: Operators) -> Sequence[AnyValue]:
    condition, body = node.graph("cond_subgraph"), node.graph("body_subgraph")
    states = _operands(node, 0, [condition, body])
    if len(body.outputs) != len(states):
        raise node.invalid(
            f"the body of the loop returns {len(body.outputs)} values for {len(states)} variables"
        )
    trips = trip_count(g, condition, body, states)
    return states if trips == 0 else apply_while(g, condition, body, states, trips)


@handler("READ_VARIABLE", wraps=False)
def _read(node: Node, _g: Operators) -> Value:
    return node.required(0)


@handler("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE", ignores=("container", "shared_name"), wraps=False)
def _variable(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "xdlc does not support a variable's handle as an input of a sub-graph or resource operator",
        "pass the variable's value, or read and assign it in the main graph only",
    )
