"""ONNX's protobuf messages, and the nodes and graphs that they hold.

The generated message classes are imported without the rest of the ``onnx`` package.  ``import onnx`` also
loads the checker, the version converter and much of numpy's typing, which takes longer than converting a
small network.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc import ir
from xdlc.converter.protobuf_text import text_of
from xdlc.converter.session.boundary import UNNAMED
from xdlc.converter.session.node import Body, GraphInput, Labels, Node, SourceGraph
from xdlc.converter.values import EXTENT_LIMIT
from xdlc.errors import BackendError, ModelError, XdlcError
from xdlc.ir.dtype import from_numpy
from xdlc.opdefs.op_view import TensorSpec

if TYPE_CHECKING:
    from types import ModuleType

    from xdlc.ir.data import Array

_MESSAGES = "onnx.onnx_ml_pb2"
INT64, STRING = 7, 8  # TensorProto.DataType
TENSOR_ATTRIBUTE, GRAPH_ATTRIBUTE, SPARSE_ATTRIBUTE, TYPE_ATTRIBUTE = (
    4,
    5,
    11,
    13,
)  # AttributeProto.AttributeType
LISTS = {9: 4, 10: 5, 12: 11, 14: 13}
"""Types of attributes that are lists, and those of their items."""
_GRAPHS = (GRAPH_ATTRIBUTE, 10)
_WITHOUT_EFFECT = "consumed_inputs"
# TensorProto.DataType numbers of onnx.proto that numpy has itself.
_PLAIN = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
# The field of TensorProto that holds the values of a type, where raw_data does not.
_TYPED = {"float32": "float_data", "float64": "double_data", "int64": "int64_data"}
_TYPED |= {"uint64": "uint64_data", "uint32": "uint64_data"}
_NARROW = ("int32", "int16", "int8", "uint16", "uint8", "bool")


@cache
def messages() -> ModuleType:
    """Return the module of message classes, which ``import onnx`` shares."""
    if _MESSAGES in sys.modules:
        return sys.modules[_MESSAGES]
    package = importlib.util.find_spec("onnx")
    folders = list(package.submodule_search_locations or ()) if package else []
    if not folders:
        raise BackendError(
            "the package onnx is not installed", fix="install it: `pip install onnx`", code="XD706"
        )
    spec = importlib.util.spec_from_file_location(_MESSAGES, Path(folders[0], "onnx_ml_pb2.py"))
    if spec is None or spec.loader is None:
        raise BackendError(
            "the package onnx has no message classes",
            fix="install it again: `pip install --force-reinstall onnx`",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MESSAGES] = module
    spec.loader.exec_module(module)
    return module


@cache
def numpy_dtype(data_type: int) -> Any:
    """Return the numpy dtype of a TensorProto.DataType.

    Raises:
        KeyError: If numpy has no such type.
    """
    import numpy

    if data_type in _PLAIN:
        return numpy.dtype(_PLAIN[data_type])
    import onnx

    return onnx.helper.tensor_dtype_to_np_dtype(data_type)


def to_array(tensor: Any) -> Array:
    """Return the elements of a TensorProto without external data.

    Raises:
        ValueError: If their number does not fit the dimensions.
    """
    import numpy

    name = _PLAIN.get(tensor.data_type)
    if name is not None:
        dtype = numpy.dtype(name)
        if tensor.HasField("raw_data"):
            return numpy.frombuffer(tensor.raw_data, dtype.newbyteorder("<")).reshape(tuple(tensor.dims))
        field = "int32_data" if name in _NARROW else _TYPED.get(name)
        if field is not None:
            return numpy.asarray(getattr(tensor, field)).astype(dtype).reshape(tuple(tensor.dims))
    import onnx

    return onnx.numpy_helper.to_array(tensor)


def attribute_value(attribute: Any) -> Any:
    """Return the value of an AttributeProto as a Python object; strings are decoded.

    Raises:
        ValueError: If it has no type that ONNX defines.
    """
    kinds: dict[int, Callable[[], Any]] = {
        1: lambda: attribute.f,
        2: lambda: attribute.i,
        3: lambda: text_of(attribute.s),
        4: lambda: attribute.t,
        5: lambda: attribute.g,
        6: lambda: list(attribute.floats),
        7: lambda: list(attribute.ints),
        8: lambda: [text_of(item) for item in attribute.strings],
        9: lambda: list(attribute.tensors),
        10: lambda: list(attribute.graphs),
        11: lambda: attribute.sparse_tensor,
        12: lambda: list(attribute.sparse_tensors),
        13: lambda: attribute.tp,
        14: lambda: list(attribute.type_protos),
    }
    if attribute.type not in kinds:
        raise ValueError(f"attribute {attribute.name!r} has unknown type {attribute.type}")
    return kinds[attribute.type]()


def tensor_type(message: Any) -> Any:
    """Return a ``TypeProto`` as a ``TensorSpec``; other types as is."""
    tensor = message.tensor_type
    if not message.HasField("tensor_type") or not tensor.HasField("shape"):
        return message
    try:
        dtype = from_numpy(numpy_dtype(tensor.elem_type))
    except (KeyError, TypeError):
        return message
    dims = (dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return TensorSpec(tuple(dims), dtype)


def plain_domain(domain: str) -> str:
    """Return a domain under its first name: that of ONNX's own operators is empty."""
    return "" if domain == "ai.onnx" else domain


def domain_of(node: Any) -> str:
    """Return the domain of a node's operator; ONNX's own is empty."""
    return plain_domain(node.domain)


def key_of(node: Any) -> tuple[str, str, str]:
    """Return domain, name and overload of a node's operator or function."""
    return domain_of(node), node.op_type, node.overload


def full_type(node: Any) -> str:
    """Return a node's operator, with its domain in front where that is not ONNX's own."""
    domain = domain_of(node)
    return f"{domain}::{node.op_type}" if domain else str(node.op_type)


def name_of(node: Any) -> str:
    """Return a node's name, or a name from its first output."""
    return str(node.name) or next((name for name in node.output if name), node.op_type)


def inner_graphs(node: Any) -> Iterator[Any]:
    """Iterate over the sub-graphs of a node, without nested ones."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_graphs(*held: Any) -> Iterator[Any]:
    """Iterate over graphs and functions, and all graphs inside their nodes."""
    stack = list(held)
    while stack:
        yield (graph := stack.pop())
        for node in graph.node:
            stack.extend(inner_graphs(node))


def all_nodes(graph: Any) -> Iterator[Any]:
    """Iterate over the nodes of a graph or function, and of the graphs inside of them."""
    for node in graph.node:
        yield node
        yield from inner_nodes(node)


def inner_nodes(node: Any) -> Iterator[Any]:
    """Iterate over the nodes of a node's sub-graphs, including nested ones."""
    stack = list(inner_graphs(node))[::-1]
    while stack:
        for inner in stack.pop().node:
            yield inner
            stack.extend(inner_graphs(inner))


def node_count(graph: Any) -> int:
    """Return the number of nodes of a graph or function and of the graphs inside it."""
    return sum(1 for _ in all_nodes(graph))


def check_texts(model: Any, where: str) -> None:
    """Refuse a ``ModelProto`` with names that are not UTF-8.

    Raises:
        ModelError: If it has one.
    """
    for held in all_graphs(model.graph, *model.functions):
        for text in _texts(held):
            if not isinstance(text, str):
                raise ModelError(f"the name {text!r} is not UTF-8", where=where, fix="export the model again")


def _texts(graph: Any) -> Iterator[object]:
    """Iterate over the names in a graph or function, without its inner graphs."""
    yield graph.name
    entries = list(graph.value_info)
    if hasattr(graph, "initializer"):
        entries += [*graph.input, *graph.output]
        yield from (tensor.name for tensor in graph.initializer)
        yield from (tensor.values.name for tensor in graph.sparse_initializer)
    else:
        yield from (graph.domain, graph.overload, *graph.input, *graph.output, *graph.attribute)
    for entry in entries:
        yield entry.name
        yield from (dim.dim_param for dim in entry.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)


def check_names(graph: Any, where: str) -> None:
    """Refuse a ``GraphProto`` whose names contradict one another.

    Raises:
        ModelError: If two initializers of one name differ in type or dimensions, one has the name of a node's
            result, or an operator type is invalid.
    """
    stored: dict[str, Any] = {}
    for tensor in graph.initializer:
        other = stored.setdefault(tensor.name, tensor)
        if (tensor.data_type, tensor.dims) != (other.data_type, other.dims):
            raise ModelError(
                f"two initializers are named {tensor.name!r}, of other types or dimensions",
                where=where,
                fix="export the model again",
            )
    for node in graph.node:
        for name in stored.keys() & set(node.output) if node.op_type != "Constant" else ():
            raise ModelError(f"{name!r} is stored, and a node's", where=where, fix="export the model again")
    for type in {type for node in graph.node for type in (node.op_type, node.domain)}:
        if not type.isprintable():
            raise ModelError(f"{type!r} is not an operator name", where=where, fix="export the model again")


def opsets(imports: Any, where: str | None = None) -> dict[str, int]:
    """Return the version of each operator domain that a model or a function imports.

    Raises:
        ModelError: If a version is invalid, or a domain has two.
    """
    versions: dict[str, int] = {}
    for entry in sorted(imports, key=lambda entry: -entry.version):  # an entry of version 0 states nothing
        domain, version = plain_domain(entry.domain), entry.version
        if version == 0 and domain in versions:
            continue
        if not 0 < version <= EXTENT_LIMIT or versions.setdefault(domain, version) != version:
            raise ModelError(
                f"the model imports opset {version} of domain {domain or 'ai.onnx'!r}"
                + (
                    f" and opset {versions[domain]}"
                    if domain in versions
                    else "; versions have 31 bits, from 1"
                ),
                where=where,
                fix="check the file with onnx.checker",
            )
    return versions


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
        return ir.ArrayData(to_array(tensor))

    def dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``."""
        raise ValueError("a sparse tensor in the body of a standard operator is not supported")

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
        check_names(proto, self._path)
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
        value = attribute_value(attribute)
        readers: dict[int, Callable[[Any], Any]] = {
            TENSOR_ATTRIBUTE: self.data,
            GRAPH_ATTRIBUTE: self.graph,
            SPARSE_ATTRIBUTE: self.dense,
            TYPE_ATTRIBUTE: tensor_type,
        }
        if attribute.type in LISTS:
            return [readers[LISTS[attribute.type]](item) for item in value]
        return readers[attribute.type](value) if attribute.type in readers else value


class LazyConstants(Mapping[str, ir.TensorData]):
    """Stored tensors by name; each is read when it is looked up.

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
