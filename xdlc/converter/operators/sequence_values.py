"""Sequences and optionals as operands, and their tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from xdlc import ir
from xdlc.converter.session.context import SEQUENCE_ELEMENTS
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, OptionalValue, SequenceValue, Value, identity
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


def tensor_of(node: Node, value: AnyValue | None, what: str) -> Value:
    """Return a value of a node that must be a tensor.

    Args:
        what: What it is to the node, as the start of a sentence.

    Raises:
        UnsupportedOp: If it is a sequence or an optional.
    """
    if isinstance(value, Value):
        return value
    kind = "sequence" if isinstance(value, SequenceValue) else "optional"
    raise node.problem(f"{what} has type {kind}, but a DLC holds only tensors", "use a tensor instead")


def leaves(value: AnyValue) -> list[Value]:
    """Return the tensors of a value."""
    if isinstance(value, Value):
        return [value]
    if isinstance(value, SequenceValue):
        return list(value.elements)
    return [value.present, *([] if value.element is None else leaves(value.element))]


def rebuilt(like: AnyValue, tensors: Iterator[Value]) -> AnyValue:
    """Return a value with the structure of ``like``, from the next tensors."""
    if isinstance(like, Value):
        return next(tensors)
    if isinstance(like, SequenceValue):
        return SequenceValue(tuple(next(tensors) for _ in like.elements))
    present = next(tensors)
    if like.element is None:
        return OptionalValue(present, None)
    element = rebuilt(like.element, tensors)
    return OptionalValue(present, None if isinstance(element, OptionalValue) else element)


def matched(node: Node, first: AnyValue, second: AnyValue) -> tuple[AnyValue, AnyValue]:
    """Return two alternatives, padded to the same number of tensors.

    An optional that is empty gets zeros for the element that nothing reads.

    Raises:
        ModelError: If one is a sequence or an optional and the other is not.
        UnsupportedOp: If they are sequences of different lengths.
    """
    if isinstance(first, OptionalValue) and isinstance(second, OptionalValue):
        first, second = _filled(node, first, second), _filled(node, second, first)
        if first.element is not None and second.element is not None:
            matched(node, first.element, second.element)
        return first, second
    if type(first) is not type(second):
        raise node.invalid("the branches return values of different types")
    if len(leaves(first)) != len(leaves(second)):
        raise node.problem(
            f"its branches return sequences of {len(leaves(first))} and {len(leaves(second))} elements, "
            "and the condition is only known when the graph runs",
            "let both branches return sequences of equal length, or join the elements inside the branches",
        )
    return first, second


def _filled(node: Node, value: OptionalValue, like: OptionalValue) -> OptionalValue:
    """Return an empty optional with a dummy element like another's; others as is."""
    if value.element is not None or like.element is None:
        return value
    element = rebuilt(like.element, _zeros(node, leaves(like.element)))
    return value if isinstance(element, OptionalValue) else OptionalValue(value.present, element)


def _zeros(node: Node, tensors: Iterable[Value]) -> Iterator[Value]:
    import numpy

    for value in tensors:
        shape = tuple(1 if extent is None else extent for extent in value.dims or ())
        data = ir.fill(ir.ArrayData(numpy.zeros((), value.dtype.numpy)), shape)
        held = ir.Tensor(
            f"{node.name}_empty", shape, value.dtype, value.tensor.encoding, data, ir.Role.STATIC
        )
        yield Value(held, identity(len(shape)))


# ------------------------------------------------------------------ operands of operators on them


def given(node: Node, index: int) -> AnyValue:
    """Return an input of any kind."""
    return node.required(index)


def tensor(node: Node, index: int) -> Value:
    """Return an input that must be a tensor."""
    value = given(node, index)
    if not isinstance(value, Value):
        raise node.invalid(f"input {index} is not a tensor")
    return value


def elements_of(node: Node, index: int) -> tuple[Value, ...]:
    """Return the elements of an input that is a sequence."""
    value = given(node, index)
    if not isinstance(value, SequenceValue):
        raise node.invalid(f"input {index} is not a sequence")
    return value.elements


def position(node: Node, index: int, length: int, last: int) -> int:
    """Return a position in a sequence, counted from its start.

    Args:
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
            f"the position in a sequence (input {index}, {value.tensor.name!r}) must be constant",
            "choose the element by Gather from a tensor, or by If; if the position counts the iterations of "
            f"a loop, unroll it with {spell('unroll_loops')}",
        )
    array = value.numpy()
    if array.size != 1 or array.dtype.kind != "i":
        raise node.invalid(f"the position must be one integer, but is {array.dtype}{list(array.shape)}")
    position = int(array.reshape(-1)[0])
    if not -length <= position <= last:
        raise node.invalid(f"position {position} is outside of a sequence of {length}")
    return position + length if position < 0 else position


def sequence(g: Operators, node: Node, elements: Iterable[Value]) -> SequenceValue:
    """Return a sequence, whose elements are counted."""
    made = SequenceValue(tuple(elements))
    count_listed(g, node, len(made.elements))
    return made


def count_listed(g: Operators, node: Node, count: int) -> None:
    """Count elements that a node lists.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not g.context.budget.sequence_elements.take(count):
        raise node.problem(
            f"the sequences of the model list more than {SEQUENCE_ELEMENTS} elements",
            "keep the elements in one tensor",
        )


def spend(g: Operators, node: Node, nodes: int, what: str) -> None:
    """Count nodes that replace one node.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not g.context.budget.unrolled_nodes.take(nodes):
        raise node.problem(f"{what} needs {nodes} nodes, which is too many", "keep the data in one tensor")
