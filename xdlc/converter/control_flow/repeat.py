"""Common parts of Loop and Scan: iterations, carried values, and unrolling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.control_flow.sub_graph import (
    constants,
    grown,
    known,
    scalar,
    stacked,
    trial,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import UNROLLED_NODES, Scope
from xdlc.converter.session.node import Body, Node
from xdlc.converter.values import AnyValue, Value
from xdlc.ir.dtype import BOOL8, INT64
from xdlc.records import record

Step = Callable[
    [Value, Value, Sequence[AnyValue], Scope], "tuple[AnyValue | None, list[AnyValue], list[AnyValue]]"
]
"""One iteration: from its number, the condition and the states to the next condition (None: it goes
on), the next states and the elements of the scan outputs."""


@record
class Repeat:
    """A Loop or a Scan.

    Attributes:
        step: One iteration.
        trip: The largest number of iterations; None for any.
        condition: Whether to begin; None if so.
        scans: Axis of each scan output, and whether it is filled from its end.
        ranks: Ranks in which the body takes the number of the iteration and the condition.
    """

    node: Node
    body: Body
    step: Step
    states: list[AnyValue]
    trip: Value | None
    condition: Value | None
    scans: list[tuple[int, bool]]
    ranks: tuple[int, int] = (0, 0)

    @property
    def holds_tensors(self) -> bool:
        """Whether all states are tensors."""
        return all(isinstance(state, Value) for state in self.states)

    def tensors(self, values: Sequence[AnyValue]) -> list[Value]:
        """Return values of the body as tensors."""
        return [tensor_of(self.node, value, "a value of the loop's body") for value in values]

    def number(self, g: Operators, number: int) -> Value:
        """Return the number of an iteration in the shape that the body expects."""
        return g.builder.reshape(scalar(g, number), (1,) * self.ranks[0])

    def flag(self, g: Operators, go_on: AnyValue | None) -> Value:
        """Return a condition in the shape that the body expects; true if omitted."""
        value = scalar(g, True) if go_on is None else tensor_of(self.node, go_on, "the condition of the loop")
        return g.builder.reshape(value, (1,) * self.ranks[1])


def unrolled(g: Operators, loop: Repeat) -> list[AnyValue] | None:
    """Return the results of unrolled iterations; None if there are too many.

    A loop that carries sequences is unrolled as far as nodes are left, as there is no other way.
    """
    if any(value is not None and known(value) is None for value in (loop.trip, loop.condition)):
        return None
    begins = loop.condition is None or known(loop.condition)
    count = known(loop.trip) if begins else 0
    limit = g.unroll_loops if loop.holds_tensors else UNROLLED_NODES
    if count is not None and count > limit:
        return None
    if count != 0 and not _ends_known(g, loop):
        return None
    forget = g.context.checkpoint()
    made = _iterations(g, loop, count, limit)
    if made is None:
        forget()
        return None
    states, rows = made
    if not rows and loop.scans:
        return [*states, *_empty(g, loop)]
    columns = [[row[index] for row in rows] for index in range(len(loop.scans))]
    joined = [stacked(g, column, *scan) for column, scan in zip(columns, loop.scans, strict=True)]
    return [*states, *joined]


def _iterations(
    g: Operators, loop: Repeat, count: int | None, limit: int
) -> tuple[list[AnyValue], list[list[Value]]] | None:
    """Return final states and elements of all iterations, or None beyond a limit.

    Args:
        count: Number of iterations; None if only the body ends them.
        limit: Most iterations; None is returned for a loop that does not end before.
    """
    shared = constants(g.context, loop.body)
    states, rows = loop.states, list[list[Value]]()
    size = loop.body.size
    go_on: AnyValue | None = None
    while count is None or len(rows) < count:
        if len(rows) >= limit or not g.context.budget.unrolled_nodes.take(size):
            return None
        number = loop.number(g, len(rows))
        go_on, states, row = loop.step(number, loop.flag(g, go_on), states, shared)
        rows.append(loop.tensors(row))
        if go_on is None:
            continue
        if known(go_on) is None:
            return None
        if not known(go_on):
            break
    return states, rows


def _ends_known(g: Operators, loop: Repeat) -> bool:
    """Return whether the condition of each iteration can be known, by names."""
    body, names = loop.body, loop.body.inputs
    if loop.node.type != "Loop" or not body.outputs:
        return True
    settled = set(names[:2]) | {
        name for name, state in zip(names[2:], loop.states, strict=False) if state.is_static
    }
    pending, seen = [body.outputs[0]], set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name in settled or not name:
            continue
        seen.add(name)
        operands, values = body.operands(name), g.context.values
        if operands is not None:
            pending.extend(operands)
        elif name in names or name not in values or not values[name].is_static:
            return False
    return True


def _empty(g: Operators, loop: Repeat) -> list[Value]:
    """Return scan outputs without elements, whose types an import of the body shows."""
    import numpy

    with trial(g, loop.node, "none", loop.states) as (sub, states):
        number = sub.input("number", (1,) * loop.ranks[0], INT64)
        flag = sub.input("flag", (1,) * loop.ranks[1], BOOL8)
        _, _, elements = loop.step(number, flag, states, constants(g.context, loop.body))
    return [
        g.builder.const(numpy.zeros(grown(value.dims, axis, 0), value.dtype.numpy))
        for value, (axis, _) in zip(loop.tensors(elements), loop.scans, strict=True)
    ]
