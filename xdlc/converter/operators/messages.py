"""Nodes and graphs of ONNX messages, and messages of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from xdlc import ir
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.protobuf import domain_of, name_of
from xdlc.converter.session.boundary import UNNAMED
from xdlc.converter.session.node import Body, GraphInput, Labels, Node, SourceGraph
from xdlc.errors import XdlcError

_GRAPHS = (protobuf.GRAPH_ATTRIBUTE, 10)
_WITHOUT_EFFECT = "consumed_inputs"


class MessageReader:
    """Reader of ``NodeProto`` and ``GraphProto``; files of ONNX extend it.

    Args:
        opsets: Version of each operator domain; the default domain is ``""``.
        path: The file, for errors.
    """

    def __init__(self, opsets: Mapping[str, int], path: str = "") -> None:
        self._opsets = opsets
        self._path = path

    # ------------------------------------------------------------------ what a file adds

    def data(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``TensorProto``."""
        return ir.ArrayData(protobuf.to_array(tensor))

    def dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``."""
        raise ValueError("a sparse tensor in the body of a standard operator")

    def declare(self, function: Any, name: str) -> None:
        """Add the types that a function states, under the name of a call of it."""

    # ------------------------------------------------------------------ nodes and graphs

    def node(self, proto: Any) -> Node:
        """Return the node of a ``NodeProto``; its plain attributes are read later."""
        domain = domain_of(proto)
        graphs = {item.name: self.attribute(item) for item in proto.attribute if item.type in _GRAPHS}
        return Node(
            proto.op_type,
            list(proto.input),
            list(proto.output),
            graphs,
            name_of(proto),
            domain,
            self._opsets.get(domain, 1),
            load=partial(self._attributes, proto, graphs),
            message=proto,
        )

    def graph(self, proto: Any) -> SourceGraph:
        """Return the graph of a ``GraphProto``; its tensors are read later.

        The last initializer of a name counts, a sparse one more than others, and the last of several Constant
        nodes with one result, as in onnxruntime.

        Raises:
            ModelError: If names contradict one another.
        """
        protobuf.check_names(proto, self._path)
        tensors = {tensor.name: partial(self.data, tensor) for tensor in proto.initializer}
        tensors |= {tensor.values.name: partial(self.dense, tensor) for tensor in proto.sparse_initializer}
        nodes = list(map(self.node, proto.node))
        last = {tuple(node.outputs): node for node in nodes if is_constant(node)}
        return SourceGraph(
            [GraphInput(entry.name, None, labels_of(entry)) for entry in proto.input],
            [entry.name for entry in proto.output],
            [node for node in nodes if not is_constant(node) or last[tuple(node.outputs)] is node],
            LazyConstants(tensors),
        )

    def _attributes(self, proto: Any, graphs: Mapping[str, Any], strict: bool) -> dict[str, Any]:
        attributes = dict(graphs)
        for item in proto.attribute:
            if item.name not in graphs and item.name != _WITHOUT_EFFECT:
                attributes[item.name] = self.attribute(item) if strict else self._attribute_or_message(item)
        return attributes

    def _attribute_or_message(self, attribute: Any) -> Any:
        try:
            return self.attribute(attribute)
        except (XdlcError, LookupError, TypeError, ValueError):
            return attribute

    def attribute(self, attribute: Any) -> Any:
        """Return the value of an ``AttributeProto``.

        A tensor is lazy data, a graph a ``SourceGraph``, a type of tensors a ``TensorSpec``.
        """
        value = protobuf.attribute_value(attribute)
        readers: dict[int, Callable[[Any], Any]] = {
            protobuf.TENSOR_ATTRIBUTE: self.data,
            protobuf.GRAPH_ATTRIBUTE: self.graph,
            protobuf.SPARSE_ATTRIBUTE: self.dense,
            protobuf.TYPE_ATTRIBUTE: protobuf.tensor_type,
        }
        if attribute.type in protobuf.LISTS:
            return [readers[protobuf.LISTS[attribute.type]](item) for item in value]
        return readers[attribute.type](value) if attribute.type in readers else value


class LazyConstants(Mapping[str, ir.TensorData]):
    """Stored tensors by name; each is read at its first use.

    Args:
        readers: Functions that read them.
    """

    def __init__(self, readers: Mapping[str, Callable[[], ir.TensorData]]) -> None:
        self._readers = readers

    def __getitem__(self, name: str) -> ir.TensorData:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, name: object) -> bool:
        return name in self._readers


def labels_of(entry: Any) -> Labels | None:
    """Return the dimensions of a ``ValueInfoProto``, None without a shape."""
    if entry.type.HasField("tensor_type") and not entry.type.tensor_type.HasField("shape"):
        return None
    return [
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or UNNAMED
        for dim in entry.type.tensor_type.shape.dim
    ]


def is_constant(node: Node) -> bool:
    """Return whether a node is a Constant of ONNX, equal in all iterations."""
    return node.type == "Constant" and node.is_canonical and not node.domain


def as_proto(node: Node) -> Any:
    """Return a node as a ``NodeProto``: the original, or a new one."""
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
