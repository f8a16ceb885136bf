"""Content of a file's graph: nodes, functions, and which of them values need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xdlc import ir
from xdlc.converter.protobuf_scan import Blobs
from xdlc.converter.tensorflow.nodes import Port, attribute_messages, data_inputs, port, text
from xdlc.converter.tensorflow.op_outputs import output_index, output_names
from xdlc.converter.tensorflow.tensors import tensor_data
from xdlc.errors import ModelError

DEPTH = 64
"""Functions that may be inside each other at most."""
_AGAIN = "export the model again"


class Content(NamedTuple):
    """What a file holds of a graph.

    Attributes:
        functions: ``FunctionDef`` by name.
        definitions: ``OpDef`` by operator of those that the file defines.
        file: The file; None for text.
        blobs: Ranges that were cut out of it.
        path: Its path, for errors.
    """

    nodes: Mapping[str, Any]
    functions: Mapping[str, Any]
    definitions: Mapping[str, Any]
    file: ir.MappedFile | None
    blobs: Blobs | None
    path: str

    def constant(self, node: Any) -> ir.TensorData:
        """Return the value of a ``NodeDef`` of operator Const.

        Raises:
            ModelError: If it has none, or one that does not fit its type.
            UnsupportedOp: If no DLC holds its elements.
        """
        where = f"{self.path}: node {text(node.name)!r}"
        value = attribute_messages(node).get("value")
        if value is None or value.WhichOneof("kind") != "tensor":
            raise ModelError("is a constant without a value", where=where, fix=_AGAIN)
        return self.data(value.tensor, where)

    def data(self, tensor: Any, where: str) -> ir.TensorData:
        """Return the elements of a ``TensorProto``."""
        return tensor_data(tensor, self.file, self.blobs, where)


def body_port(value: str, ops: Mapping[str, str], content: Content, where: str) -> Port:
    """Return the output that ``argument`` or ``node:output:k`` names in a function.

    Raises:
        ModelError: If it names none, or one whose number is not known.
    """
    node, *rest = value.split(":")
    if not rest or node not in ops:
        return Port(node)
    name, index = rest[0], rest[1] if len(rest) > 1 else "0"
    if not rest[1:] and name.isdecimal():  # of the main graph's form
        name, index = "", name
    if index.isdecimal() and len(index) < 10:
        function = content.functions.get(ops[node])
        if function is None:
            names = output_names(ops[node], content.definitions)
        else:
            names = [text(each.name) for each in function.signature.output_arg]
        found = output_index(names, name, int(index)) if name else int(index)
        if found is not None:
            return Port(node, found)
    raise ModelError(
        f"reads output {value!r} of operator {ops[node]}, whose outputs are not known",
        where=where,
        fix=_AGAIN,
    )


def waits_for(nodes: Mapping[str, Any], name: str) -> Port | None:
    """Return predicate and side of the Switch that a node without inputs waits for."""
    at, waits = port(name), False
    for _ in range(DEPTH):
        message = nodes.get(at.node)
        if message is None:
            break
        inputs = list(data_inputs(message))
        if text(message.op) == "Switch" and waits and len(inputs) > 1:
            return Port(str(port(inputs[1])), at.number)
        if not inputs:
            inputs, waits = [text(each)[1:] for each in message.input if each.startswith(b"^")], True
        elif not waits or text(message.op) != "Identity":
            break
        if not inputs:
            break
        at = port(inputs[0])
    return None


def _predicates(nodes: Mapping[str, Any], message: Any) -> list[str]:
    """Return the predicates that a Merge needs of its inputs that are constants."""
    if text(message.op) not in ("Merge", "RefMerge"):
        return []
    found = (waits_for(nodes, value) for value in data_inputs(message))
    return [each.node for each in found if each is not None]


def needed_nodes(
    nodes: Mapping[str, Any],
    values: Sequence[str],
    inputs: set[str],
    reads: Callable[[Any], Iterable[str]] = data_inputs,
    *,
    in_body: bool = False,
) -> list[str]:
    """Return the names of the nodes that values need, in the order of the file.

    Args:
        values: Names of the values.
        inputs: Names of values that need nothing.
        reads: Returns the names of the values that a node reads.
        in_body: Whether names have the form of a function's body.
    """
    needed: set[str] = set()
    followed: set[str] = set()
    pending = list(values)
    while pending:
        name = pending.pop()
        node = name.split(":")[0] if in_body else port(name).node
        if node not in nodes or node in followed:
            continue
        needed.add(node)
        if not in_body and str(port(name)) in inputs:
            continue
        followed.add(node)
        pending += reads(nodes[node])
        pending += [] if in_body else _predicates(nodes, nodes[node])
    return [name for name in nodes if name in needed]
