"""Takes sequences and optionals apart while importing, as a DLC holds tensors only.

A sequence is the list of its tensors, an optional is empty or not; what asks for an element gets the
tensor itself, so that nothing of either is left in the graph.  Lengths and positions must be known for
that while importing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.converter.operators.control_flow.sub_graph import Importer
from xdlc.converter.operators.sequence_values import tensor_of
from xdlc.converter.operators.sequences import listing, mapping, optionals, pieces
from xdlc.converter.operators.sequences.operands import given
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, OptionalValue, SequenceValue


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
    return [given(node, 0)]


_IMPORTERS: dict[str, Callable[[Importer, Node], list[AnyValue]]] = {
    "SequenceEmpty": listing.import_empty,
    "SequenceConstruct": listing.import_construct,
    "SequenceInsert": listing.import_insert,
    "SequenceErase": listing.import_erase,
    "SequenceAt": listing.import_at,
    "SequenceLength": listing.import_length,
    "SplitToSequence": pieces.import_split,
    "ConcatFromSequence": pieces.import_concat,
    "SequenceMap": mapping.import_map,
    "Optional": optionals.import_optional,
    "OptionalHasElement": optionals.import_has_element,
    "OptionalGetElement": optionals.import_get_element,
}
