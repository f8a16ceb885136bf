"""Import of operators that make sequences, change them, and read their elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.steps import scalar
from xdlc.converter.operators.registry import ANY, structural
from xdlc.converter.operators.sequence_values import elements_of, position, sequence, tensor
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, SequenceValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


def _check_types(node: Node, elements: Iterable[Value]) -> None:
    types = dict.fromkeys(element.dtype.numpy for element in elements)
    if len(types) > 1:
        raise node.invalid(f"a sequence of {' and '.join(map(str, types))}; all elements must be of one type")


@structural("SequenceEmpty", layout=ANY)
def import_empty(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceEmpty; the first inserted element decides the type."""
    node.attr("dtype")
    return [SequenceValue(())]


@structural("SequenceConstruct", layout=ANY)
def import_construct(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceConstruct."""
    elements = [tensor(node, index) for index in range(len(node.inputs))]
    _check_types(node, elements)
    return [sequence(importer, node, elements)]


@structural("SequenceInsert", layout=ANY)
def import_insert(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceInsert; without a position at the end."""
    elements = list(elements_of(node, 0))
    length = len(elements)
    at = length if node.input(2) is None else position(node, 2, length, length)
    element = tensor(node, 1)
    _check_types(node, [*elements[:1], element])
    elements.insert(at, element)
    return [sequence(importer, node, elements)]


@structural("SequenceErase", layout=ANY)
def import_erase(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceErase; without a position it takes the last element away."""
    elements = list(elements_of(node, 0))
    length = len(elements)
    if not elements:
        raise node.invalid("takes an element away from an empty sequence")
    del elements[length - 1 if node.input(1) is None else position(node, 1, length, length - 1)]
    return [sequence(importer, node, elements)]


@structural("SequenceAt", layout=ANY)
def import_at(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceAt."""
    elements = elements_of(node, 0)
    return [elements[position(node, 1, len(elements), len(elements) - 1)]]


@structural("SequenceLength", layout=ANY)
def import_length(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceLength."""
    return [scalar(importer, len(elements_of(node, 0)))]
