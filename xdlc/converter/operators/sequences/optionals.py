"""Import of the operators on optionals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.steps import scalar
from xdlc.converter.operators.registry import ANY, structural
from xdlc.converter.operators.sequence_values import given
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, OptionalValue

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


@structural("Optional", layout=ANY)
def import_optional(node: Node, importer: Operators) -> list[AnyValue]:
    """Import an Optional; without an input it is empty."""
    node.attr("type")
    if node.input(0) is None:
        return [OptionalValue(scalar(importer, False), None)]
    value = given(node, 0)
    if isinstance(value, OptionalValue):
        raise node.invalid("it holds an optional")
    return [OptionalValue(scalar(importer, True), value)]


@structural("OptionalHasElement", layout=ANY)
def import_has_element(node: Node, importer: Operators) -> list[AnyValue]:
    """Import an OptionalHasElement; a plain value counts as a full optional."""
    value: AnyValue | None = node.input(0)
    return [value.present if isinstance(value, OptionalValue) else scalar(importer, value is not None)]


@structural("OptionalGetElement", layout=ANY)
def import_get_element(node: Node, importer: Operators) -> list[AnyValue]:
    """Import an OptionalGetElement; a plain value is passed on.

    ONNX does not define the result where the optional turns out to be empty when the graph runs.
    """
    value = given(node, 0)
    if not isinstance(value, OptionalValue):
        return [value]
    if value.element is None:
        raise node.invalid("it takes the element of an empty optional")
    return [value.element]
