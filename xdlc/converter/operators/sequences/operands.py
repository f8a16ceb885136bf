"""Operands of operators on sequences and optionals, and limits of their results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdlc.converter.session.context import SEQUENCE_ELEMENTS
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, SequenceValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.applying import Operators


def given(node: Node, index: int) -> AnyValue:
    """Return an input of any kind."""
    return node.required(index)


def tensor(node: Node, index: int) -> Value:
    """Return an input that must be a tensor."""
    value = given(node, index)
    if not isinstance(value, Value):
        raise node.invalid(f"input {index} is no tensor")
    return value


def elements_of(node: Node, index: int) -> tuple[Value, ...]:
    """Return the elements of an input that is a sequence."""
    value = given(node, index)
    if not isinstance(value, SequenceValue):
        raise node.invalid(f"input {index} is no sequence")
    return value.elements


def position(node: Node, index: int, length: int, last: int) -> int:
    """Return a position in a sequence, counted from its start.

    Args:
        node: The node.
        index: Which input it is; negative positions count from the end.
        length: Number of elements.
        last: Largest position.

    Raises:
        ModelError: If it is outside the sequence.
        UnsupportedOp: If it is computed at run time.
    """
    value = tensor(node, index)
    if not value.is_static:
        raise node.problem(
            f"its position in a sequence (input {index}, {value.tensor.name!r}) is computed, not constant",
            "choose the element by Gather from a tensor, or by If; if the position counts the iterations of "
            "a loop, unroll it with --unroll_loops",
        )
    array = value.numpy()
    if array.size != 1 or array.dtype.kind != "i":
        raise node.invalid(f"its position is {array.dtype}{list(array.shape)}, not one integer")
    position = int(array.reshape(-1)[0])
    if not -length <= position <= last:
        raise node.invalid(f"position {position} is outside of a sequence of {length}")
    return position + length if position < 0 else position


def sequence(importer: Operators, node: Node, elements: Iterable[Value]) -> SequenceValue:
    """Return a sequence, whose elements are counted."""
    made = SequenceValue(tuple(elements))
    count_listed(importer, node, len(made.elements))
    return made


def count_listed(importer: Operators, node: Node, count: int) -> None:
    """Count elements that a node lists.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not importer.context.budget.sequence_elements.take(count):
        raise node.problem(
            f"the sequences of the model list more than {SEQUENCE_ELEMENTS} elements",
            "keep the elements in one tensor",
        )


def spend(importer: Operators, node: Node, nodes: int, what: str) -> None:
    """Count nodes that replace one node.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not importer.context.budget.unrolled_nodes.take(nodes):
        raise node.problem(
            f"{what} would take {nodes} nodes, which is too many", "keep the data in one tensor"
        )
