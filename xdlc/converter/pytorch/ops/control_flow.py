"""Handlers of operators that run graphs: branches, loops, scans.

They are defined in torch/_higher_order_ops.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.control_flow.branches import apply_if
from xdlc.converter.control_flow.sub_graph import check_formals, inline
from xdlc.converter.control_flow.while_form import apply_while
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import HIGHER_ORDER, AtenNode, Slot, aten
from xdlc.converter.session.node import Computed
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


@aten("cond", domain=HIGHER_ORDER)
def _cond(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    branches = [node.graph("arg1"), node.graph("arg2")]
    condition = g("Cast", _operands(node, g, "arg0"), to=9)
    return apply_if(node, g, condition, branches, _operands(node, g, "arg3"))


@aten("while_loop", domain=HIGHER_ORDER)
def _while_loop(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    condition, body = node.graph("arg0"), node.graph("arg1")
    states: list[AnyValue] = list(_operands(node, g, "arg2", "arg3"))
    carried = len(_operands(node, g, "arg2"))
    check_formals(node, body, len(states), carried)
    whole = copy.copy(body)
    whole.outputs = [*body.outputs[:carried], *body.inputs[carried:]]
    return apply_while(node, g, condition, whole, states)[:carried]


@aten("scan", "map_impl", "map", domain=HIGHER_ORDER)
def _scan(node: AtenNode, g: Operators) -> Sequence[AnyValue]:
    """Return the final states of a graph run for each row, and its stacked results."""
    given = ("arg1", "arg2", "arg3") if node.type == "scan" else ("", "arg1", "arg2")
    states, sequences, shared = (_operands(node, g, name) for name in given)
    body = node.graph("arg0")
    check_formals(node, body, len(states) + len(sequences) + len(shared), len(states))
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
