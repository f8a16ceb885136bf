"""Handlers of conditionals and loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from xdlc.converter.control_flow.branches import apply_if
from xdlc.converter.control_flow.sub_graph import check_formals, inline, trial
from xdlc.converter.control_flow.while_form import apply_while
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Body, Computed, Node
from xdlc.converter.tensorflow.ops.lists import is_unset, stacked
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import AnyValue, SequenceValue, Value
from xdlc.options import spell

_IGNORED = ("Tcond", "Tin", "Tout", "T", "output_shapes", "parallel_iterations", "num_original_outputs")


@handler("If", "StatelessIf", ignores=_IGNORED)
def _if(node: Node, g: Operators) -> Sequence[AnyValue]:
    branches = [node.graph("then_branch"), node.graph("else_branch")]
    operands = [node.required(index) for index in range(1, len(node.inputs))]
    return apply_if(node, g, _truth(g, node.required(0)), branches, operands)


def _truth(g: Operators, value: Value) -> Value:
    """Return whether a value is true: a nonzero number or a non-empty tensor."""
    if value.rank and not value.is_dynamic:
        return g.builder.const(np.asarray(value.size > 0))
    return value if value.dtype.numpy.kind == "b" else g("Cast", [value], to=9)


@handler("Case", "StatelessCase", ignores=_IGNORED)
def _case(node: Node, g: Operators) -> Sequence[AnyValue]:
    count = sum(1 for name in node.attributes if name.startswith("branches_"))
    branches = [node.graph(f"branches_{index}") for index in range(count)]
    if not branches:
        raise node.invalid("the node has no branches")
    operands, chosen, outputs = node.inputs[1:], node.required(0), len(node.outputs)
    for branch in branches:
        check_formals(node, branch, len(operands), outputs)
    if chosen.is_static:
        at = int(chosen.numpy().reshape(-1)[0])
        return _inlined(g, branches[at if 0 <= at < count else count - 1], operands)
    return _nested(g, chosen, branches, operands, outputs)


def _inlined(g: Operators, branch: Body, operands: Sequence[AnyValue | None]) -> list[AnyValue]:
    given = {name: value for name, value in zip(branch.inputs, operands, strict=True) if value is not None}
    return inline(g.context, branch, given)


def _nested(
    g: Operators, chosen: Value, branches: Sequence[Body], operands: Sequence[AnyValue | None], outputs: int
) -> list[AnyValue]:
    """Return the chosen branch's outputs, by nested Ifs over halves of the branches."""
    if len(branches) == 1:
        return _inlined(g, branches[0], operands)
    half = len(branches) // 2
    name = f"{g.builder.node}~chosen{len(branches)}"
    g.context.values[name] = chosen
    names = [f"{g.builder.node}~operand{index}" for index in range(len(operands))]
    g.context.values.update(
        (key, value) for key, value in zip(names, operands, strict=True) if value is not None
    )

    def part(first: int, last: int) -> Computed:
        def compute(_: Sequence[AnyValue]) -> list[AnyValue]:
            index = g.context.values.tensor(name)
            if first:
                index = g("Sub", [index, first])
            given = [g.context.values[key] for key in names]
            return _nested(g, index, branches[first:last], given, outputs)

        return Computed((), [f"{name}_{first}_{index}" for index in range(outputs)], compute)

    # An index below 0 or beyond the last branch chooses the last one.
    low = g("And", [g("GreaterOrEqual", [chosen, 0]), g("Less", [chosen, half])])
    branches_of = {"then_branch": part(0, half), "else_branch": part(half, len(branches))}
    return g.apply_any("If", [low], branches_of, outputs)


@handler("While", "StatelessWhile", ignores=_IGNORED)
def _while(node: Node, g: Operators) -> Sequence[AnyValue]:
    states = [node.required(index) for index in range(len(node.inputs))]
    body = node.graph("body")
    return apply_while(node, g, node.graph("cond"), body, states, partial(_as_tensors, node, g, body))


def _as_tensors(node: Node, g: Operators, body: Body, states: Sequence[AnyValue]) -> list[AnyValue]:
    """Return the states, with lists as tensors in the stated shape or the body's."""
    shapes: dict[int, tuple[int, ...]] = {}
    unset = [
        index
        for index, state in enumerate(states)
        if isinstance(state, SequenceValue) and state.elements and all(map(is_unset, state.elements))
    ]
    if unset:
        if not g.context.budget.unrolled_nodes.take(body.size):
            raise node.problem(
                "the lists of the loop have no shape, and the model has too many loops to infer the shape"
            )
        with trial(g, node, "shapes", states) as (_, before):
            operands = dict(zip(body.inputs, before, strict=True))
            for index, result in zip(unset, inline(g.context, body.only(unset), operands), strict=True):
                if isinstance(result, Value) or any(not is_unset(element) for element in result.elements):  # type: ignore[union-attr]
                    shapes[index] = stacked(node, g, result).shape[1:]
    return [
        stacked(node, g, state, shapes.get(index)) if isinstance(state, SequenceValue) else state
        for index, state in enumerate(states)
    ]


_REBUILT = ("Switch", "Merge", "Enter", "Exit", "NextIteration")


@handler(
    "LoopCond",
    *_REBUILT,
    *(f"Ref{type}" for type in _REBUILT),
    ignores=("frame_name", "is_constant", "parallel_iterations"),
)
def _left_over(node: Node, _g: Operators) -> AnyValue:
    raise node.problem(
        f"{node.type} is not part of a supported conditional or loop",
        f"freeze the graph again with control flow v2, or cut the graph around it with {spell('out_node')}",
    )
