"""Handlers of operators that run graphs: branches, loops, scans.

They are defined in torch/_higher_order_ops.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.operators.control_flow.branches import apply_if
from xdlc.converter.operators.control_flow.sub_graph import inline
from xdlc.converter.operators.control_flow.while_form import apply_while, trip_count
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import HIGHER_ORDER, AtenNode, Slot, aten
from xdlc.converter.session.node import Body, Computed
from xdlc.converter.values import AnyValue, Value


def _operands(node: AtenNode, g: Operators, *names: str) -> list[Value]:
    """Return the values of arguments that are lists, numbers among them as constants."""
    operands: list[Value] = []
    for name in names:
        argument = node.arguments.get(name, [])
        for item in argument if isinstance(argument, list | tuple) else [argument]:
            is_slot = isinstance(item, Slot)
            operands.append(node.required(item) if is_slot else g.builder.const(np.asarray(item)))
    return operands


def _check(node: AtenNode, body: Body, inputs: int, outputs: int) -> None:
    if len(body.inputs) != inputs or len(body.outputs) < outputs:
        raise node.invalid(
            f"a graph has {len(body.inputs)} inputs and {len(body.outputs)} outputs, "
            f"but needs {inputs} and {outputs}"
        )


@aten("cond", domain=HIGHER_ORDER)
def _cond(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    branches = [node.graph("arg1"), node.graph("arg2")]
    operands = _operands(node, g, "arg3")
    for branch in branches:
        _check(node, branch, len(operands), len(node.outputs))
    condition = g("Cast", _operands(node, g, "arg0"), to=9)
    return apply_if(g, condition, branches, operands, len(node.outputs))


@aten("while_loop", domain=HIGHER_ORDER)
def _while_loop(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    condition, body = node.graph("arg0"), node.graph("arg1")
    states: list[AnyValue] = list(_operands(node, g, "arg2", "arg3"))
    carried = len(_operands(node, g, "arg2"))
    for graph in (condition, body):
        _check(node, graph, len(states), carried if graph is body else 1)
    whole = copy.copy(body)
    whole.outputs = [*body.outputs[:carried], *body.inputs[carried:]]
    trips = trip_count(g, condition, whole, states)
    results = states if trips == 0 else apply_while(g, condition, whole, states, trips)
    return results[:carried]


@aten("scan", "map_impl", "map", domain=HIGHER_ORDER)
def _scan(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    """Return the final states of a graph run for each row, and its stacked results."""
    given = ("arg1", "arg2", "arg3") if node.type == "scan" else ("", "arg1", "arg2")
    states, sequences, shared = (_operands(node, g, name) for name in given)
    body = node.graph("arg0")
    _check(node, body, len(states) + len(sequences) + len(shared), len(states))
    if not sequences:
        raise node.invalid("the Scan has no sequences to scan")
    outside = [f"{g.builder.node}~shared{index}" for index in range(len(shared))]
    g.context.values.update(zip(outside, shared, strict=True))

    def step(values: Sequence[AnyValue]) -> list[AnyValue]:
        held = (g.context.values[name] for name in outside)
        return inline(g.context, body, dict(zip(body.inputs, (*values, *held), strict=True)))

    formals = [f"row{index}" for index in range(len(states) + len(sequences))]
    loop = Computed(formals, [f"result{index}" for index in range(len(body.outputs))], step, body.size)
    attributes: dict[str, Any] = {"body": loop, "num_scan_inputs": len(sequences)}
    return g.apply_any("Scan", [*states, *sequences], attributes, len(body.outputs))


_REFUSED = {
    "associative_scan": "an associative scan combines pairs in any order; use torch's scan, or cumsum",
    "flex_attention": "the score function runs for each pair of positions; use "
    "torch.nn.functional.scaled_dot_product_attention with a mask",
    "triton_kernel_wrapper_mutation": "a Triton kernel is GPU code",
    "triton_kernel_wrapper_functional": "a Triton kernel is GPU code",
    "call_torchbind": "a DLC cannot hold C++ objects",
    "run_and_save_rng_state": "the result is random",
    "run_with_rng_state": "the result is random",
    "while_loop_stack_output": "a loop that keeps all its states is for training only",
    "executorch_call_delegate": "the graph is compiled for another device; export it without a backend",
}


@aten(*_REFUSED, domain=HIGHER_ORDER)
def _refused(node: AtenNode, _g: Operators) -> Value:
    raise node.problem(
        f"{node.type} is not supported: {_REFUSED[node.type]}", "rewrite this part of the model"
    )
