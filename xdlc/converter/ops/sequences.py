"""Operators on sequences and optionals, which are resolved during import.

A sequence is the list of its tensors, an optional is empty or not; an operator that reads an element gets the
tensor itself, so that nothing of either is in the graph.  Lengths and positions must be known for that
while importing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdlc.converter.control_flow.sub_graph import constants, inline, scalar
from xdlc.converter.functions.shapes import vector
from xdlc.converter.operators.protobuf import INT64
from xdlc.converter.operators.registry import ANY, structural
from xdlc.converter.operators.sequence_values import (
    count_listed,
    elements_of,
    given,
    position,
    sequence,
    spend,
    tensor,
    tensor_of,
)
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.values import AnyValue, OptionalValue, SequenceValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


@structural("SplitToSequence", layout=ANY)
def import_split(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SplitToSequence: a Split into as many pieces as are known."""
    value = tensor(node, 0)
    shape = value.dims
    axis, keeps = int(node.attr("axis", 0)), node.flag("keepdims", 1)
    if shape is None:
        raise node.problem(
            "the rank of its input is only known when the graph runs", "bind the dynamic dimensions"
        )
    if not -len(shape) <= axis < len(shape):
        raise node.invalid(f"axis {axis} does not fit a value of rank {len(shape)}")
    chosen = None if node.input(1) is None else tensor(node, 1)
    if chosen is not None and chosen.dims != ():
        pieces = _cut_by(g, node, value, axis, chosen)
    else:
        pieces = _cut_evenly(g, node, value, axis, chosen)
        if chosen is None and not keeps:
            along = vector(g, [axis])
            pieces = [g("Squeeze", [piece, along]) for piece in pieces]
    return [sequence(g, node, pieces)]


def _cut_by(g: Operators, node: Node, value: Value, axis: int, sizes: Value) -> list[Value]:
    """Return pieces whose sizes are listed, or computed if only their number is known."""
    shape = sizes.dims
    _check_integers(node, sizes)
    if shape is None or len(shape) != 1 or shape[0] is None:
        raise node.problem(
            "the number of its pieces is only known when the graph runs", "make the list of sizes constant"
        )
    if not shape[0]:
        raise node.invalid("the node splits the tensor into no pieces")
    spend(g, node, shape[0], "its pieces")
    extent = (value.dims or ())[axis]
    if sizes.is_static:
        listed = [int(size) for size in sizes.numpy()]
        if min(listed) < 0 or (extent is not None and sum(listed) != extent):
            raise node.invalid(f"sizes {listed} do not cut an axis of {'?' if extent is None else extent}")
    if sizes.dtype.numpy.name != "int64":
        sizes = g("Cast", [sizes], to=INT64)
    return g.apply("Split", [value, sizes], {"axis": axis}, shape[0])


def _cut_evenly(g: Operators, node: Node, value: Value, axis: int, chosen: Value | None) -> list[Value]:
    """Return pieces of one size, 1 if none is given; the last one may be smaller."""
    extent = (value.dims or ())[axis]
    if extent is None:
        raise node.problem(
            f"axis {axis} is dynamic, so xdlc does not know the number of pieces",
            bind_dims(),
        )
    size = 1
    if chosen is not None:
        _check_integers(node, chosen)
        if not chosen.is_static:
            raise node.problem(
                "the number of its pieces is only known when the graph runs",
                "make the size constant",
            )
        size = int(chosen.numpy())
    if size < 1:
        raise node.invalid(f"the size of the pieces must be 1 or more, but is {size}")
    count = -(-extent // size)
    spend(g, node, count, "its pieces")
    if not count:
        return []
    sizes = [min(size, extent - size * index) for index in range(count)]
    return g.apply("Split", [value, vector(g, sizes)], {"axis": axis}, count)


def _check_integers(node: Node, value: Value) -> None:
    if value.dtype.numpy.kind != "i":
        raise node.invalid(f"the sizes of the pieces must be integers, but are {value.dtype}")


@structural("ConcatFromSequence", layout=ANY)
def import_concat(node: Node, g: Operators) -> list[AnyValue]:
    """Import a ConcatFromSequence: a Concat, along a new axis if the node states that."""
    elements, axis, adds = elements_of(node, 0), node.attr("axis"), node.flag("new_axis")
    if not elements:
        raise node.invalid("the node joins the elements of an empty sequence")
    shape = elements[0].dims
    rank = None if shape is None else len(shape) + adds
    if not isinstance(axis, int) or (rank is not None and not -rank <= axis < rank):
        raise node.invalid(f"axis {axis} does not fit a result of rank {'?' if rank is None else rank}")
    count_listed(g, node, len(elements))
    pieces = list(elements)
    if adds:
        spend(g, node, len(pieces), "its elements")
        along = vector(g, [axis])
        pieces = [g("Unsqueeze", [piece, along]) for piece in pieces]
    return [g("Concat", pieces, axis=axis)]


def _check_types(node: Node, elements: Iterable[Value]) -> None:
    types = dict.fromkeys(element.dtype.numpy for element in elements)
    if len(types) > 1:
        raise node.invalid(f"a sequence holds {' and '.join(map(str, types))}, but needs a single type")


@structural("SequenceEmpty", layout=ANY)
def import_empty(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceEmpty; the first inserted element decides the type."""
    node.attr("dtype")
    return [SequenceValue(())]


@structural("SequenceConstruct", layout=ANY)
def import_construct(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceConstruct."""
    elements = [tensor(node, index) for index in range(len(node.inputs))]
    _check_types(node, elements)
    return [sequence(g, node, elements)]


@structural("SequenceInsert", layout=ANY)
def import_insert(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceInsert; without a position it inserts at the end."""
    elements = list(elements_of(node, 0))
    length = len(elements)
    at = length if node.input(2) is None else position(node, 2, length, length)
    element = tensor(node, 1)
    _check_types(node, [*elements[:1], element])
    elements.insert(at, element)
    return [sequence(g, node, elements)]


@structural("SequenceErase", layout=ANY)
def import_erase(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceErase; without a position it removes the last element."""
    elements = list(elements_of(node, 0))
    length = len(elements)
    if not elements:
        raise node.invalid("the node removes an element from an empty sequence")
    del elements[length - 1 if node.input(1) is None else position(node, 1, length, length - 1)]
    return [sequence(g, node, elements)]


@structural("SequenceAt", layout=ANY)
def import_at(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceAt."""
    elements = elements_of(node, 0)
    return [elements[position(node, 1, len(elements), len(elements) - 1)]]


@structural("SequenceLength", layout=ANY)
def import_length(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceLength."""
    return [scalar(g, len(elements_of(node, 0)))]


@structural("SequenceMap", layout=ANY)
def import_map(node: Node, g: Operators) -> list[AnyValue]:
    """Import a SequenceMap: its body once for each element.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If that takes too many nodes.
        Unresolved: If something inside has been reported.
    """
    body = node.graph("body")
    if len(body.inputs) != len(node.inputs) or len(body.outputs) < len(node.outputs):
        raise node.invalid(
            f"its body must accept {len(node.inputs)} values and return {len(node.outputs)} or more"
        )
    length = len(elements_of(node, 0))
    columns = []
    for index in range(len(node.inputs)):
        value = given(node, index)
        column = value.elements if isinstance(value, SequenceValue) else (tensor(node, index),) * length
        if len(column) != length:
            raise node.invalid(
                f"the sequences have {length} and {len(column)} elements, but need the same number"
            )
        columns.append(column)
    spend(g, node, length * max(body.size, 1), "its body, once for each element,")
    names, shared = body.inputs, constants(g.context, body)
    rows = [
        inline(g.context, body, dict(zip(names, row, strict=True)), shared)
        for row in zip(*columns, strict=True)
    ]
    return [
        sequence(g, node, [tensor_of(node, row[index], "a result of its body") for row in rows])
        for index in range(len(node.outputs))
    ]


@structural("Optional", layout=ANY)
def import_optional(node: Node, g: Operators) -> list[AnyValue]:
    """Import an Optional; without an input it is empty."""
    node.attr("type")
    if node.input(0) is None:
        return [OptionalValue(scalar(g, False), None)]
    value = given(node, 0)
    if isinstance(value, OptionalValue):
        raise node.invalid("an optional cannot hold an optional")
    return [OptionalValue(scalar(g, True), value)]


@structural("OptionalHasElement", layout=ANY)
def import_has_element(node: Node, g: Operators) -> list[AnyValue]:
    """Import an OptionalHasElement; a plain value counts as a non-empty optional."""
    value: AnyValue | None = node.input(0)
    return [value.present if isinstance(value, OptionalValue) else scalar(g, value is not None)]


@structural("OptionalGetElement", layout=ANY)
def import_get_element(node: Node, g: Operators) -> list[AnyValue]:
    """Import an OptionalGetElement; a plain value is passed on.

    ONNX does not define the result where the optional turns out to be empty when the graph runs.
    """
    value = given(node, 0)
    if not isinstance(value, OptionalValue):
        return [value]
    if value.element is None:
        raise node.invalid("the node reads the element of an empty optional")
    return [value.element]
