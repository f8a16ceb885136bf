"""Nodes of TensorFlow graphs: names of values, attributes as Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from xdlc import ir
from xdlc.converter.protobuf_text import text_of
from xdlc.converter.session.node import TypeName
from xdlc.converter.tensorflow.messages import dtype_name
from xdlc.converter.tensorflow.tensors import shape_of

SHAPES = "_output_shapes"
"""Attribute of the dimensions of a node's outputs, the only one kept of those for TensorFlow alone."""


class Port(NamedTuple):
    """An output of a node.

    Attributes:
        number: Number of the output among all outputs of the node.
    """

    node: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.number}" if self.number else self.node


def text(data: bytes) -> str:
    """Return bytes of a file as text."""
    return data.decode("utf-8", "replace")


def port(name: str) -> Port:
    """Return the output of a node that ``node`` or ``node:k`` names."""
    node, colon, index = name.rpartition(":")
    if colon and index.isdecimal() and len(index) < 10:
        return Port(node, int(index))
    return Port(name)


def data_inputs(node: Any) -> Iterator[str]:
    """Iterate over the inputs of a ``NodeDef`` but control inputs."""
    for name in node.input:
        if not name.startswith(b"^"):
            yield text(name)


def attribute_messages(node: Any) -> dict[str, Any]:
    """Return the ``AttrValue`` of each attribute of a ``NodeDef``."""
    return {text(entry.key): entry.value for entry in node.attr}


def attributes(
    values: Mapping[str, Any],
    data: Callable[[Any], ir.TensorData],
    graph: Callable[[Any], Any],
    where: str,
) -> dict[str, Any]:
    """Return the attributes of a node as Python objects.

    A list of functions becomes one attribute for each: ``branches_0``, ``branches_1``.  Those of a function
    are by path: ``body.T``.

    Args:
        values: ``AttrValue`` by name.
        data: Returns the elements of a ``TensorProto``.
        graph: Returns the graph of a function, a ``NameAttrList``.
    """
    plain_values: dict[str, Any] = {}

    def plain(kind: str, value: Any) -> Any:
        if kind in ("s", "placeholder"):
            return text_of(value)
        if kind == "type":
            return TypeName(dtype_name(value))
        if kind == "shape":
            return shape_of(value, where)
        if kind == "tensor":
            return data(value)
        return graph(value) if kind == "func" else value

    for name, value in values.items():
        kind = value.WhichOneof("kind")
        if kind is None or (name.startswith("_") and name != SHAPES):
            continue
        if kind != "list":
            plain_values[name] = plain(kind, getattr(value, kind))
            for entry in value.func.attr:
                inner = entry.value.WhichOneof("kind")
                if inner not in (None, "list", "func"):
                    plain_values[f"{name}.{text(entry.key)}"] = plain(inner, getattr(entry.value, inner))
            continue
        listed = [plain(field.name, item) for field, items in value.list.ListFields() for item in items]
        if value.list.func:
            plain_values |= {f"{name}_{index}": item for index, item in enumerate(listed)}
        else:
            plain_values[name] = listed
    return plain_values
