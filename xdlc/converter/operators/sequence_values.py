"""Sequences and optionals as the tensors that they are made of, to go from graph to graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdlc import ir
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, OptionalValue, SequenceValue, Value, identity


def tensor_of(node: Node, value: AnyValue | None, what: str) -> Value:
    """Return a value of a node that must be a tensor.

    Args:
        node: The node.
        value: The value.
        what: What it is to the node, as the start of a sentence.

    Raises:
        UnsupportedOp: If it is a sequence or an optional.
    """
    if isinstance(value, Value):
        return value
    kind = "sequence" if isinstance(value, SequenceValue) else "optional"
    raise node.problem(f"{what} is of type {kind}, but a DLC holds tensors only", "give it as a tensor")


def leaves(value: AnyValue) -> list[Value]:
    """Return the tensors that a value is made of."""
    if isinstance(value, Value):
        return [value]
    if isinstance(value, SequenceValue):
        return list(value.elements)
    return [value.present, *([] if value.element is None else leaves(value.element))]


def rebuilt(like: AnyValue, tensors: Iterator[Value]) -> AnyValue:
    """Return a value made as ``like`` is, of the next of other tensors."""
    if isinstance(like, Value):
        return next(tensors)
    if isinstance(like, SequenceValue):
        return SequenceValue(tuple(next(tensors) for _ in like.elements))
    present = next(tensors)
    if like.element is None:
        return OptionalValue(present, None)
    element = rebuilt(like.element, tensors)
    return OptionalValue(present, None if isinstance(element, OptionalValue) else element)


def matched(node: Node, one: AnyValue, other: AnyValue) -> tuple[AnyValue, AnyValue]:
    """Return two values of which one is chosen when the graph runs, made of the same number of tensors.

    An optional that is empty gets zeros for the element that nothing reads.

    Raises:
        ModelError: If one is a sequence or an optional and the other is not.
        UnsupportedOp: If they are sequences of different lengths.
    """
    if isinstance(one, OptionalValue) and isinstance(other, OptionalValue):
        one, other = _filled(node, one, other), _filled(node, other, one)
        if one.element is not None and other.element is not None:
            matched(node, one.element, other.element)
        return one, other
    if type(one) is not type(other):
        raise node.invalid("a value is of one type in one branch and of another in the other")
    if len(leaves(one)) != len(leaves(other)):
        raise node.problem(
            f"its branches give sequences of {len(leaves(one))} and {len(leaves(other))} elements, and which "
            "one is only known when the graph runs",
            "let both branches give sequences of one length, or join the elements inside of them",
        )
    return one, other


def _filled(node: Node, value: OptionalValue, like: OptionalValue) -> OptionalValue:
    """Return an empty optional with an element like another's; any other as it is."""
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
