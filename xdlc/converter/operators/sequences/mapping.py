"""Import of SequenceMap: its body once for each element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.sub_graph import constants, inline
from xdlc.converter.operators.registry import ANY, structural
from xdlc.converter.operators.sequence_values import elements_of, given, sequence, spend, tensor, tensor_of
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue, SequenceValue

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


@structural("SequenceMap", layout=ANY)
def import_map(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SequenceMap: its body once for each element.

    Raises:
        ModelError: If the node is not valid.
        UnsupportedOp: If that takes too many nodes.
        Unresolved: If something inside has been reported.
    """
    body = node.graph("body")
    if len(body.inputs) != len(node.inputs) or len(body.outputs) < len(node.outputs):
        raise node.invalid(
            f"its body does not take {len(node.inputs)} values and give at least {len(node.outputs)}"
        )
    length = len(elements_of(node, 0))
    columns = []
    for index in range(len(node.inputs)):
        value = given(node, index)
        column = value.elements if isinstance(value, SequenceValue) else (tensor(node, index),) * length
        if len(column) != length:
            raise node.invalid(f"it reads sequences of {length} and {len(column)} elements")
        columns.append(column)
    spend(importer, node, length * max(body.size, 1), "its body, once for each element,")
    names, shared = body.inputs, constants(importer.context, body)
    rows = [
        inline(importer.context, body, dict(zip(names, row, strict=True)), shared)
        for row in zip(*columns, strict=True)
    ]
    return [
        sequence(importer, node, [tensor_of(node, row[index], "a result of its body") for row in rows])
        for index in range(len(node.outputs))
    ]
