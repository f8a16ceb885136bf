"""Import of Loop: as unrolled iterations, or as a ``While``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.repeat import Repeat, check_formals
from xdlc.converter.operators.control_flow.sub_graph import inline
from xdlc.converter.operators.control_flow.unroll import unrolled
from xdlc.converter.operators.control_flow.while_loop import looped
from xdlc.converter.operators.registry import structural
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import Scope
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


@structural("Loop")
def import_loop(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a node.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If a value has no form in a DLC.
        Unresolved: If something inside has been reported.
    """
    body = node.graph("body")
    first, second, *initial = (*node.inputs, None, None)[: max(len(node.inputs), 2)]
    trip = None if first is None else tensor_of(node, first, "its trip count")
    condition = None if second is None else tensor_of(node, second, "its condition")
    states: list[AnyValue] = [value for value in initial if value is not None]
    if len(states) != len(initial):
        raise node.problem("an initial value is omitted", "give every state of the loop a tensor")
    check_formals(node, body, 2 + len(states), 1 + len(states))

    def step(
        number: Value, flag: Value, held: Sequence[AnyValue], shared: Scope
    ) -> tuple[AnyValue | None, list[AnyValue], list[AnyValue]]:
        given = dict(zip(body.inputs, (number, flag, *held), strict=True))
        go_on, *rest = inline(importer.context, body, given, shared)
        return go_on, rest[: len(held)], rest[len(held) :]

    scans = [(0, False)] * (len(body.outputs) - 1 - len(states))
    loop = Repeat(node, body, step, states, trip, condition, scans, (body.input_rank(0), body.input_rank(1)))
    return iterated(importer, loop)


def iterated(importer: Operators, loop: Repeat) -> list[AnyValue]:
    """Return the final states and the scan outputs.

    Raises:
        UnsupportedOp: If a state is a sequence or an optional and the loop cannot be unrolled.
    """
    results = unrolled(importer, loop)
    if results is not None:
        return results
    if loop.holds_tensors:
        return looped(importer, loop)
    raise loop.node.problem(
        "a state is a sequence or an optional, which a DLC cannot hold, and the loop cannot be unrolled: "
        "its length is not known, or too large",
        "keep the state in a tensor, for instance as a scan output, or make the length constant",
    )
