"""Imports Loop."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.operators.control_flow.interface import Importer
from xdlc.converter.operators.control_flow.iterate import iterated
from xdlc.converter.operators.control_flow.repeat import Repeat, check_formals, formals
from xdlc.converter.operators.registry import Node
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.scope import Scope
from xdlc.converter.values import AnyValue, Value


def import_loop(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a node.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC.
        Unsettled: If something inside has been reported.
    """
    body = node.graph("body")
    first, second, *initial = (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    trip = None if first is None else tensor_of(node, first, "its trip count")
    condition = None if second is None else tensor_of(node, second, "its condition")
    states: list[AnyValue] = [value for value in initial if value is not None]
    if len(states) != len(initial):
        raise node.problem("an initial value is left out", "give every state of the loop a tensor")
    check_formals(node, body, 2 + len(states), 1 + len(states))
    names = formals(body)

    def step(
        number: Value, flag: Value, held: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        given = dict(zip(names, (number, flag, *held), strict=True))
        go_on, *rest = importer.inline(body, given, shared)
        return go_on, rest[: len(held)], rest[len(held) :]

    scans = [(0, False)] * (len(body.output) - 1 - len(states))
    ranks = tuple(len(entry.type.tensor_type.shape.dim) for entry in body.input[:2])
    loop = Repeat(node, body, step, states, trip, condition, scans, (ranks[0], ranks[1]))
    return iterated(importer, loop)
