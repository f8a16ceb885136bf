"""Common parts of Loop and Scan: an iteration and the values that it carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.steps import scalar
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.session.context import Scope
from xdlc.converter.session.node import Body, Node
from xdlc.converter.values import AnyValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators

Step = Callable[
    [Value, Value, Sequence[AnyValue], Scope], "tuple[AnyValue | None, list[AnyValue], list[AnyValue]]"
]
"""One iteration: from its number, the condition and the states to the next condition (None: it goes
on), the next states and the elements of the scan outputs."""


@dataclass(slots=True)
class Repeat:
    """A Loop or a Scan.

    Attributes:
        node: The node.
        body: Its graph.
        step: One iteration.
        states: Initial states.
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
        return [tensor_of(self.node, value, "a value of its body") for value in values]

    def number(self, importer: Operators, number: int) -> Value:
        """Return the number of an iteration as the body takes it."""
        return importer.builder.reshape(scalar(importer, number), (1,) * self.ranks[0])

    def flag(self, importer: Operators, go_on: AnyValue | None) -> Value:
        """Return a condition as the body takes it; true if it is omitted."""
        value = scalar(importer, True) if go_on is None else tensor_of(self.node, go_on, "its condition")
        return importer.builder.reshape(value, (1,) * self.ranks[1])


def check_formals(node: Node, body: Body, inputs: int, outputs: int) -> None:
    """Refuse a node whose body takes another number of values, or returns fewer."""
    if len(body.inputs) != inputs or len(body.outputs) < outputs:
        raise node.invalid(f"its body does not take {inputs} values and give at least {outputs}")
