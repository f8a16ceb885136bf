"""Nodes and graphs from ONNX messages, which function bodies and ONNX models hold, and messages of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from xdlc import ir
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.protobuf import domain_of, inner_graphs, name_of, needed_names, node_count
from xdlc.converter.operators.registry import SOURCE, find, find_structural
from xdlc.converter.session.context import ImportContext
from xdlc.converter.session.node import Body, Node
from xdlc.converter.session.ordering import Step, ordered, wants_channel_last
from xdlc.errors import XdlcError

_WITHOUT_EFFECT = "consumed_inputs"


class MessageReader:
    """Reads ``NodeProto`` and ``GraphProto``; an ONNX model's reader adds what only a file has.

    Args:
        context: The import.
        import_node: Imports a node.
    """

    def __init__(self, context: ImportContext, import_node: Callable[[Node], None]) -> None:
        self.context = context
        self.import_node = import_node

    # ------------------------------------------------------------------ what a file adds

    def data(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``TensorProto``."""
        return ir.ArrayData(protobuf.to_array(tensor))

    def dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``."""
        raise ValueError("a sparse tensor in the body of a standard operator")

    def size(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` expands to."""
        return node_count(graph)

    def is_udo(self, node: Node) -> bool:
        """Return whether a node certainly becomes an op of a UDO package."""
        return False

    def declare(self, function: Any, name: str) -> None:
        """Take the types that a ``FunctionProto`` states of its values, under a name for this use of it."""

    # ------------------------------------------------------------------ nodes and graphs

    def node(self, proto: Any) -> Node:
        """Return the node of a ``NodeProto``; its attributes are read later."""
        domain = domain_of(proto)
        return Node(
            proto.op_type,
            list(proto.input),
            list(proto.output),
            {},
            name_of(proto),
            domain,
            self.context.frame.opsets.get(domain, 1),
            load=partial(self._attributes, proto),
            message=proto,
        )

    def _attributes(self, proto: Any, strict: bool) -> dict[str, Any]:
        return {
            item.name: self.attribute(item) if strict else self._attribute_or_message(item)
            for item in proto.attribute
            if item.name != _WITHOUT_EFFECT
        }

    def _attribute_or_message(self, attribute: Any) -> Any:
        try:
            return self.attribute(attribute)
        except (XdlcError, LookupError, TypeError, ValueError):
            return attribute

    def attribute(self, attribute: Any) -> Any:
        """Return the value of an ``AttributeProto``.

        A tensor is lazy data, a graph a ``Body``, a type of tensors a ``TensorSpec``; lists hold these.
        """
        value = protobuf.attribute_value(attribute)
        readers: dict[int, Callable[[Any], Any]] = {
            protobuf.TENSOR_ATTRIBUTE: self.data,
            protobuf.GRAPH_ATTRIBUTE: partial(MessageBody, self),
            protobuf.SPARSE_ATTRIBUTE: self.dense,
            protobuf.TYPE_ATTRIBUTE: protobuf.tensor_type,
        }
        if attribute.type in protobuf.LISTS:
            return [readers[protobuf.LISTS[attribute.type]](item) for item in value]
        return readers[attribute.type](value) if attribute.type in readers else value

    def add_initializers(self, graph: Any, read: Collection[str] | None = None) -> None:
        """Bind the initializers of a ``GraphProto``, those of the names in ``read`` if given.

        The last one of a name counts, a sparse one more than others, as in onnxruntime.
        """
        found: dict[str, Callable[[], ir.TensorData]] = {}
        for proto in graph.initializer:
            found[proto.name] = partial(self.data, proto)
        for proto in graph.sparse_initializer:
            found[proto.values.name] = partial(self.dense, proto)
        for name, data in found.items():
            if read is None or name in read:
                self.context.bind_constant(name, data)

    def nodes(self, graph: Any, ends: Sequence[str]) -> list[Node]:
        """Return the nodes that values of a ``GraphProto`` need, producers first, layouts wanted.

        Of several Constant nodes with one result, the last one counts, as in onnxruntime.

        Raises:
            ModelError: If a name is none, two nodes produce a value, or a node needs its own result.
        """
        where = self.context.source.path
        protobuf.check_names(graph, where)
        last = {tuple(proto.output): at for at, proto in enumerate(graph.node) if _is_constant(proto)}
        protos = [
            proto
            for at, proto in enumerate(graph.node)
            if not _is_constant(proto) or last[tuple(proto.output)] == at
        ]
        steps = [Step(name_of(proto), needed_names(proto), list(proto.output)) for proto in protos]
        nodes = [self.node(protos[index]) for index in ordered(steps, ends, where)]
        self.context.wanted |= wants_channel_last(
            (self._layout(node), node.names, node.outputs) for node in nodes
        )
        return nodes

    def _layout(self, node: Node) -> str:
        if self.is_udo(node):
            return SOURCE
        key = node.domain, node.type, node.opset
        entry = find(*key) or find_structural(*key)
        return SOURCE if entry is None else entry.layout


class MessageBody(Body):
    """A ``GraphProto`` inside a node.

    Args:
        reader: Reads its nodes.
        graph: The message.
    """

    def __init__(self, reader: MessageReader, graph: Any) -> None:
        super().__init__([entry.name for entry in graph.input], [entry.name for entry in graph.output])
        self._reader = reader
        self._graph = graph
        self._producers: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """Number of nodes that it expands to."""
        return self._reader.size(self._graph)

    def input_rank(self, index: int) -> int:
        """Return the rank that the graph states of an input."""
        return len(self._graph.input[index].type.tensor_type.shape.dim)

    def add_constants(self, context: ImportContext) -> None:
        """Bind the initializers and the results of Constant nodes."""
        self._reader.add_initializers(self._graph)
        for proto in self._graph.node:
            if _is_constant(proto):
                self._reader.import_node(self._reader.node(proto))

    def add_nodes(self, context: ImportContext) -> None:
        """Import the other nodes."""
        for node in self._reader.nodes(self._graph, self.outputs):
            if not _is_constant(node.message):
                self._reader.import_node(node)

    def operands(self, name: str) -> Sequence[str] | None:
        """Return the names that a value is computed from, as far as that is plain from the graph."""
        if self._producers is None:
            self._producers = {name: node for node in self._graph.node for name in node.output}
        if any(tensor.name == name for tensor in self._graph.initializer):
            return ()
        node = self._producers.get(name)
        if node is None or any(inner_graphs(node)):
            return None
        return () if node.op_type in ("Shape", "Size") else list(node.input)


def _is_constant(proto: Any) -> bool:
    return proto.op_type == "Constant" and not domain_of(proto)


def as_proto(node: Node) -> Any:
    """Return a node as a ``NodeProto``: the one that it was read from, or one made from it."""
    if node.message is None:
        from onnx import helper

        node.message = helper.make_node(
            node.type,
            list(node.names),
            list(node.outputs),
            name=node.own_name,
            domain=node.domain,
            **dict(_plain_attributes(node)),
        )
    return node.message


def _plain_attributes(node: Node) -> Iterator[tuple[str, Any]]:
    for name, value in node.attributes.items():
        if isinstance(value, ir.TensorData):
            from onnx import numpy_helper

            yield name, numpy_helper.from_array(value.numpy(), name)
        elif not isinstance(value, Body) and value != []:  # an operator that runs graphs has no other form
            yield name, value
