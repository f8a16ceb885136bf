"""Import of If."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xdlc.converter.control_flow.sub_graph import (
    SubGraph,
    as_condition,
    boundary,
    check_formals,
    commit,
    emit,
    graph_name,
    inline,
    joined,
    share_captures,
    sub_graph,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import structural
from xdlc.converter.operators.sequence_values import leaves, matched, rebuilt, tensor_of
from xdlc.converter.session.context import Unresolved
from xdlc.converter.session.node import Body, Computed, Node
from xdlc.converter.values import AnyValue, Value
from xdlc.opdefs.control_flow import IF


@structural("If")
def import_if(node: Node, g: Operators) -> list[AnyValue]:
    """Import an If; for a known condition only the chosen branch.

    Of a name that one branch stores and the other reads from outside, both get the value outside, as in
    onnxruntime, which binds what a node captures in all of its graphs.
    """
    condition = tensor_of(node, node.required(0), "the condition of the If")
    branches = [node.graph("then_branch"), node.graph("else_branch")]
    for branch in branches:
        if len(branch.outputs) < len(node.outputs):
            raise node.invalid("a branch of the If has fewer outputs than the node")
    if condition.is_static:
        if condition.size != 1:
            raise node.invalid(f"the condition must have 1 element, but has {condition.size}")
        return inline(g.context, branches[0 if condition.numpy().reshape(-1)[0] else 1], {})
    test = as_condition(g, condition)
    captured_names = [] if node.is_applied else [name for branch in branches for name in branch.reads()]
    imported = [
        _branch(g, branch, graph_name(g, node, key), captured_names)
        for branch, key in zip(branches, ("then", "else"), strict=True)
    ]
    subs = [sub for sub, _ in imported]
    results = [values for _, values in imported if values is not None]
    if len(results) < len(branches):
        raise Unresolved  # once the problems of both branches have been reported
    pairs = [matched(node, *pair) for pair in zip(*results, strict=False)]
    tensors = [[leaf for pair in pairs for leaf in leaves(pair[index])] for index in range(len(branches))]
    kinds = [joined(node, pair) for pair in zip(*tensors, strict=True)]
    if not kinds:
        return [first for first, _ in pairs]  # nothing but empty sequences
    for sub, values in zip(subs, tensors, strict=True):
        for value, (shape, _, _) in zip(values, kinds, strict=True):
            sub.output(value, ranked=shape is not None)
    captured = share_captures(subs)
    for sub in subs:
        sub.graph.inputs[:] = [sub.inputs[name] for name in captured]
    params = commit(g, subs, ("then_graph", "else_graph"))
    inputs = [test, *(boundary(g.builder, value) for value in captured.values())]
    made = iter(emit(g.builder, IF, inputs, kinds, params))
    return [rebuilt(first, made) for first, _ in pairs]


def _branch(
    g: Operators, branch: Body, name: str, captured: Sequence[str]
) -> tuple[SubGraph, list[AnyValue] | None]:
    """Import a branch; return its graph, and its results or None.

    The shapes around it may be such that it is never taken, and that it is not even valid with them.
    So one that fails is tried once more as if the dimensions of what it reads were dynamic.
    """
    forget = g.context.checkpoint()
    sub, results = _attempt(g, branch, name, captured)
    if results is not None or g.context.frame.opens or not sub.captured:
        return sub, results
    if not g.context.budget.retried_nodes.take(branch.size):
        return sub, None
    problems = forget()
    with g.context.entered(opens=True):
        opened, results = _attempt(g, branch, name, captured)
    if results is not None:
        return opened, results
    forget()
    g.context.problems.extend(problems)
    return sub, None


def _attempt(
    g: Operators, branch: Body, name: str, captured: Sequence[str]
) -> tuple[SubGraph, list[AnyValue] | None]:
    with sub_graph(g.context, name) as sub, suppress(Unresolved):
        values = g.context.values
        outer = [name for name in captured if name in values and branch.operands(name) == ()]
        return sub, inline(g.context, branch, {name: values[name] for name in outer})
    return sub, None


def apply_if(
    node: Node, g: Operators, condition: Value, branches: Sequence[Body], inputs: Sequence[AnyValue]
) -> list[AnyValue]:
    """Return the outputs of the branch that a condition chooses.

    Args:
        condition: A truth value.
        branches: Graphs for true and false, from the inputs to the outputs.
        inputs: Inputs of both.

    Raises:
        ModelError: If a branch has other inputs, or fewer outputs than the node.
    """
    for branch in branches:
        check_formals(node, branch, len(inputs), len(node.outputs))
    context = g.context
    names = [f"{context.builder.node}~branch{index}" for index in range(len(inputs))]
    context.values.update(zip(names, inputs, strict=True))

    def closed(branch: Body) -> Computed:
        def compute(_: object) -> list[AnyValue]:
            given = [context.values[name] for name in names]
            return inline(context, branch, dict(zip(branch.inputs, given, strict=True)))

        return Computed((), branch.outputs, compute, branch.size)

    then, other = map(closed, branches)
    return g.apply_any("If", [condition], {"then_branch": then, "else_branch": other}, len(node.outputs))
