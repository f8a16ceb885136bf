"""Takes sequences and optionals apart while importing, as a DLC holds tensors only.

A sequence is the list of its tensors, an optional is empty or not; what asks for an element gets the
tensor itself, so that nothing of either is left in the graph.  Lengths and positions must be known for
that while importing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdlc.converter.onnx.budget import SEQUENCE_ELEMENTS
from xdlc.converter.onnx.control_flow.interface import Importer
from xdlc.converter.onnx.control_flow.steps import ints, scalar
from xdlc.converter.onnx.inference import extents
from xdlc.converter.onnx.protobuf import INT64
from xdlc.converter.onnx.registry import Node
from xdlc.converter.onnx.structures import tensor_of
from xdlc.converter.values import AnyValue, OptionalValue, SequenceValue, Value


def find(
    type: str, domain: str, inputs: Sequence[AnyValue | None] = ()
) -> Callable[[Importer, Node], list[AnyValue]] | None:
    """Return the function that imports an operator on sequences or optionals, or None."""
    if domain:
        return None
    if type == "Identity" and isinstance(inputs[0] if inputs else None, SequenceValue | OptionalValue):
        return pass_on
    return _IMPORTERS.get(type)


def check_tensors(node: Node) -> None:
    """Refuse a node that reads a sequence or an optional, if it is none of the operators here.

    Raises:
        UnsupportedOp: If an input is no tensor.
    """
    for index in range(len(node.inputs)):
        value: AnyValue | None = node.input(index)
        if value is not None:
            tensor_of(node, value, f"input {index}")


def pass_on(importer: Importer, node: Node) -> list[AnyValue]:
    """Import an Identity of a sequence or an optional."""
    return [_given(node, 0)]


# ---------------------------------------------------------------------------- operands


def _given(node: Node, index: int) -> AnyValue:
    """Return an input of any kind."""
    return node.required(index)


def _tensor(node: Node, index: int) -> Value:
    value = _given(node, index)
    if not isinstance(value, Value):
        raise node.invalid(f"input {index} is no tensor")
    return value


def _elements(node: Node, index: int) -> tuple[Value, ...]:
    """Return the elements of an input that is a sequence."""
    value = _given(node, index)
    if not isinstance(value, SequenceValue):
        raise node.invalid(f"input {index} is no sequence")
    return value.elements


def _position(node: Node, index: int, length: int, last: int) -> int:
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
    value = _tensor(node, index)
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


def _check_integers(node: Node, value: Value) -> None:
    if value.dtype.numpy.kind != "i":
        raise node.invalid(f"the sizes of its pieces are {value.dtype}, not integers")


def _sequence(importer: Importer, node: Node, elements: Iterable[Value]) -> SequenceValue:
    """Return a sequence, whose elements are counted."""
    made = SequenceValue(tuple(elements))
    _list(importer, node, len(made.elements))
    return made


def _check_types(node: Node, elements: Iterable[Value]) -> None:
    types = dict.fromkeys(element.dtype.numpy for element in elements)
    if len(types) > 1:
        raise node.invalid(f"a sequence of {' and '.join(map(str, types))}; all elements must be of one type")


def _list(importer: Importer, node: Node, count: int) -> None:
    """Count elements that a node lists.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not importer.list_elements(count):
        raise node.problem(
            f"the sequences of the model list more than {SEQUENCE_ELEMENTS} elements",
            "keep the elements in one tensor",
        )


def _spend(importer: Importer, node: Node, nodes: int, what: str) -> None:
    """Count nodes that stand for one node.

    Raises:
        UnsupportedOp: If they are too many.
    """
    if not importer.spend(nodes):
        raise node.problem(
            f"{what} would take {nodes} nodes, which is too many", "keep the data in one tensor"
        )


# ---------------------------------------------------------------------------- sequences


def import_empty(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceEmpty; the type of its elements is that of the first one inserted."""
    node.attr("dtype")
    return [SequenceValue(())]


def import_construct(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceConstruct."""
    elements = [_tensor(node, index) for index in range(len(node.inputs))]
    _check_types(node, elements)
    return [_sequence(importer, node, elements)]


def import_insert(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceInsert; without a position at the end."""
    elements = list(_elements(node, 0))
    length = len(elements)
    at = length if node.input(2) is None else _position(node, 2, length, length)
    element = _tensor(node, 1)
    _check_types(node, [*elements[:1], element])
    elements.insert(at, element)
    return [_sequence(importer, node, elements)]


def import_erase(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceErase; without a position it takes the last element away."""
    elements = list(_elements(node, 0))
    length = len(elements)
    if not elements:
        raise node.invalid("takes an element away from an empty sequence")
    del elements[length - 1 if node.input(1) is None else _position(node, 1, length, length - 1)]
    return [_sequence(importer, node, elements)]


def import_at(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceAt."""
    elements = _elements(node, 0)
    return [elements[_position(node, 1, len(elements), len(elements) - 1)]]


def import_length(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceLength."""
    return [scalar(importer, len(_elements(node, 0)))]


def import_split(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SplitToSequence: a Split into as many pieces as are known."""
    value = _tensor(node, 0)
    shape = extents(value)
    axis, keeps = int(node.attr("axis", 0)), bool(node.attr("keepdims", 1))
    if shape is None:
        raise node.problem(
            "the rank of its input is only known when the graph runs", "bind the open dimensions"
        )
    if not -len(shape) <= axis < len(shape):
        raise node.invalid(f"it splits axis {axis} of a value of rank {len(shape)}")
    chosen = None if node.input(1) is None else _tensor(node, 1)
    if chosen is not None and extents(chosen) != ():
        pieces = _cut_by(importer, node, value, axis, chosen)
    else:
        pieces = _cut_evenly(importer, node, value, axis, chosen)
        if chosen is None and not keeps:
            along = ints(importer, axis)
            pieces = [importer.apply("Squeeze", [piece, along]) for piece in pieces]
    return [_sequence(importer, node, pieces)]


def _cut_by(importer: Importer, node: Node, value: Value, axis: int, sizes: Value) -> list[Value]:
    """Return pieces whose sizes are listed, or computed if only their number is known."""
    shape = extents(sizes)
    _check_integers(node, sizes)
    if shape is None or len(shape) != 1 or shape[0] is None:
        raise node.problem(
            "the number of its pieces is only known when the graph runs", "give it a constant list of sizes"
        )
    if not shape[0]:
        raise node.invalid("it splits into no pieces")
    _spend(importer, node, shape[0], "its pieces")
    extent = (extents(value) or ())[axis]
    if sizes.is_static:
        listed = [int(size) for size in sizes.numpy()]
        if min(listed) < 0 or (extent is not None and sum(listed) != extent):
            raise node.invalid(f"sizes {listed} do not cut extent {'?' if extent is None else extent}")
    if sizes.dtype.numpy.name != "int64":
        sizes = importer.apply("Cast", [sizes], to=INT64)
    return importer.apply_many("Split", [value, sizes], shape[0], axis=axis)


def _cut_evenly(importer: Importer, node: Node, value: Value, axis: int, chosen: Value | None) -> list[Value]:
    """Return pieces of one size, 1 if none is given; the last one may be smaller."""
    extent = (extents(value) or ())[axis]
    if extent is None:
        raise node.problem(
            f"it splits axis {axis}, whose extent is open, so the number of pieces is not known",
            "bind the open dimensions with --input_dim, --define_symbol or --batch",
        )
    size = 1
    if chosen is not None:
        _check_integers(node, chosen)
        if not chosen.is_static:
            raise node.problem(
                "the size of its pieces is computed when the graph runs, and so is their number",
                "give it a constant size",
            )
        size = int(chosen.numpy())
    if size < 1:
        raise node.invalid(f"the size of its pieces is {size}")
    count = -(-extent // size)
    _spend(importer, node, count, "its pieces")
    if not count:
        return []
    sizes = [min(size, extent - size * index) for index in range(count)]
    return importer.apply_many("Split", [value, ints(importer, *sizes)], count, axis=axis)


def import_concat(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a ConcatFromSequence: a Concat, along a new axis if asked for."""
    elements, axis, adds = _elements(node, 0), node.attr("axis"), bool(node.attr("new_axis", 0))
    if not elements:
        raise node.invalid("joins the elements of an empty sequence")
    shape = extents(elements[0])
    rank = None if shape is None else len(shape) + adds
    if not isinstance(axis, int) or (rank is not None and not -rank <= axis < rank):
        raise node.invalid(
            f"it joins along axis {axis}, the result is of rank {'?' if rank is None else rank}"
        )
    _list(importer, node, len(elements))
    pieces = list(elements)
    if adds:
        _spend(importer, node, len(pieces), "its elements")
        along = ints(importer, axis)
        pieces = [importer.apply("Unsqueeze", [piece, along]) for piece in pieces]
    return [importer.apply("Concat", pieces, axis=axis)]


def import_map(importer: Importer, node: Node) -> list[AnyValue]:
    """Import a SequenceMap: its body once for each element.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If that takes too many nodes.
        Unsettled: If something inside has been reported.
    """
    body = node.graph("body")
    if len(body.input) != len(node.inputs) or len(body.output) < len(node.outputs):
        raise node.invalid(
            f"its body does not take {len(node.inputs)} values and give at least {len(node.outputs)}"
        )
    length = len(_elements(node, 0))
    columns = []
    for index in range(len(node.inputs)):
        value = _given(node, index)
        column = value.elements if isinstance(value, SequenceValue) else (_tensor(node, index),) * length
        if len(column) != length:
            raise node.invalid(f"it reads sequences of {length} and {len(column)} elements")
        columns.append(column)
    _spend(importer, node, length * max(importer.size_of(body), 1), "its body, once for each element,")
    names, shared = [entry.name for entry in body.input], importer.constants(body)
    rows = [
        importer.inline(body, dict(zip(names, row, strict=True)), shared)
        for row in zip(*columns, strict=True)
    ]
    return [
        _sequence(importer, node, [tensor_of(node, row[index], "what its body gives") for row in rows])
        for index in range(len(node.outputs))
    ]


# ---------------------------------------------------------------------------- optionals


def import_optional(importer: Importer, node: Node) -> list[AnyValue]:
    """Import an Optional; without an input it is empty."""
    node.attr("type")
    if node.input(0) is None:
        return [OptionalValue(scalar(importer, False), None)]
    value = _given(node, 0)
    if isinstance(value, OptionalValue):
        raise node.invalid("it holds an optional")
    return [OptionalValue(scalar(importer, True), value)]


def import_has_element(importer: Importer, node: Node) -> list[AnyValue]:
    """Import an OptionalHasElement; from opset 18 on, what is no optional counts as a full one."""
    value: AnyValue | None = node.input(0)
    return [value.present if isinstance(value, OptionalValue) else scalar(importer, value is not None)]


def import_get_element(importer: Importer, node: Node) -> list[AnyValue]:
    """Import an OptionalGetElement; from opset 18 on, what is no optional is passed on.

    ONNX leaves open what it gives where the optional turns out to be empty when the graph runs.
    """
    value = _given(node, 0)
    if not isinstance(value, OptionalValue):
        return [value]
    if value.element is None:
        raise node.invalid("it takes the element of an empty optional")
    return [value.element]


_IMPORTERS: dict[str, Callable[[Importer, Node], list[AnyValue]]] = {
    "SequenceEmpty": import_empty,
    "SequenceConstruct": import_construct,
    "SequenceInsert": import_insert,
    "SequenceErase": import_erase,
    "SequenceAt": import_at,
    "SequenceLength": import_length,
    "SplitToSequence": import_split,
    "ConcatFromSequence": import_concat,
    "SequenceMap": import_map,
    "Optional": import_optional,
    "OptionalHasElement": import_has_element,
    "OptionalGetElement": import_get_element,
}
