"""Import of an ONNX model: its main graph node by node, every problem on the way collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from xdlc import ir
from xdlc.converter.onnx import sparse
from xdlc.converter.onnx.expansion import Expansion
from xdlc.converter.onnx.roundtrip_metadata import recorded_names
from xdlc.converter.onnx.source import OnnxFile
from xdlc.converter.onnx.value_info import DeclaredTypes, inferred
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.applying import Operators
from xdlc.converter.operators.inference import Spec
from xdlc.converter.operators.messages import MessageReader
from xdlc.converter.operators.protobuf import all_nodes, domain_of, inner_nodes, plain_domain, read_names
from xdlc.converter.operators.registry import load_all
from xdlc.converter.pipeline import Options, Step
from xdlc.converter.session.boundary import (
    UNNAMED,
    DeclaredInput,
    Labels,
    add_input,
    add_outputs,
    check_outputs,
)
from xdlc.converter.session.context import ImportContext, Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.node import Node
from xdlc.converter.udo.nodes import UdoNodes
from xdlc.errors import UnsupportedOp


def import_model(
    file: OnnxFile,
    input_shapes: Mapping[str, Sequence[int | None]],
    options: Options,
    diagnostics: Diagnostics,
    step: Step | None = None,
) -> ir.Model:
    """Return the IR of a model, or what could be imported of it: the main graph, then those that it runs.

    Args:
        file: The opened model.
        input_shapes: Shape of every graph input, None for dynamic dimensions.
        options: Options of the conversion.
        diagnostics: Collects the problems, all of them, and the nodes.
        step: Progress callback.

    Raises:
        ModelError: If the model is no graph: two nodes produce a value, or one needs its own result.
    """
    graph, path = file.proto.graph, str(file.path)
    ends = list(options.out_name or [output.name for output in graph.output])
    source = Source("onnx", path, graph.name or "main", has_opsets=True, checker="onnx.checker")
    context = ImportContext(source, diagnostics, file.opsets)

    @cache
    def of_model() -> dict[str, Spec]:
        return inferred(file.proto, input_shapes)

    @cache
    def declared() -> DeclaredTypes:
        return DeclaredTypes(graph, input_shapes)

    @cache
    def udos() -> UdoNodes:
        return UdoNodes(context, options.udos, _is_native, declared, _types(file.proto))

    has_udos = bool(options.udos.ops)
    functions = _ModelFunctions(file.proto) if file.proto.functions else None
    operators = Operators(
        context,
        nbytes=lambda: file.nbytes,
        unroll_loops=options.unroll_loops,
        random_inputs=options.random is not None,
        overrides=[*([udos()] if has_udos else ()), *([functions] if functions is not None else ())],
        uncovered=lambda node, where: udos().uncovered(node, where),
        of_model=of_model,
    )
    if functions is not None:
        functions.operators = operators
    reader = operators.reader = _FileReader(operators, file, udos() if has_udos else None, declared)
    nodes = reader.nodes(graph, ends)
    operators.read = {*ends, *(name for node in nodes for name in read_names(node.message))}
    reader.add_initializers(graph, operators.read)
    stored = _initializers(graph)
    for entry in graph.input:
        if entry.name not in stored:
            _add_input(context, entry, input_shapes)
    for number, node in enumerate(nodes, 1):
        operators.import_node(node)
        if step is not None:
            step("importing", number, len(nodes))
    if has_udos:
        diagnostics.notices += udos().contradictions()
    check_outputs(context, ends, [name for proto in graph.node for name in proto.output if name])
    needed, final = {id(node.message) for node in nodes}, set(ends)
    for proto in graph.node:
        inner = map(reader.node, inner_nodes(proto))
        diagnostics.note_node(context.frame, final, reader.node(proto), id(proto) in needed, inner)
    add_outputs(context, ends)
    diagnostics.note_values(context.values)
    return ir.Model(context.graphs)


def declared_inputs(graph: Any) -> list[DeclaredInput]:
    """Return the inputs of a ``GraphProto`` that are no initializers."""
    initializers = _initializers(graph)
    return [
        DeclaredInput(entry.name, _labels(entry), entry.type.WhichOneof("value") in (None, "tensor_type"))
        for entry in graph.input
        if entry.name not in initializers
    ]


def _initializers(graph: Any) -> set[str]:
    """Return the names of the stored tensors of a ``GraphProto``."""
    return {held.name for held in graph.initializer} | {held.values.name for held in graph.sparse_initializer}


def declared_outputs(graph: Any) -> dict[str, Labels]:
    """Return the dimensions that a ``GraphProto`` states of its outputs."""
    return {entry.name: _labels(entry) or () for entry in graph.output}


def _labels(entry: Any) -> Labels | None:
    """Return the dimensions of a ``ValueInfoProto``; None if it is a tensor without a shape."""
    if entry.type.HasField("tensor_type") and not entry.type.tensor_type.HasField("shape"):
        return None
    return [
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or UNNAMED
        for dim in entry.type.tensor_type.shape.dim
    ]


def _is_native(domain: str, type: str) -> bool:
    return (domain, type) in load_all()


def _types(model: Any) -> Iterator[tuple[str, str]]:
    """Iterate over the domains and names of the operators of a model."""
    for graph in (model.graph, *model.functions):
        yield from ((domain_of(node), node.op_type) for node in all_nodes(graph))


def _add_input(context: ImportContext, entry: Any, shapes: Mapping[str, Sequence[int | None]]) -> None:
    """Add the input of a ``ValueInfoProto``, or report why it cannot be one."""
    try:
        dtype = _dtype(entry)
    except UnsupportedOp as problem:
        problem.where = context.source.path
        context.frame.unresolved.add(entry.name)
        context.problems.append(problem)
        return
    add_input(context, entry.name, shapes[entry.name], dtype)


def _dtype(entry: Any) -> ir.DType:
    elem = entry.type.tensor_type.elem_type
    try:
        if not entry.type.HasField("tensor_type"):
            kind = str(entry.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
            raise TypeError(f"it is of type {kind}, but a DLC holds tensors only")
        return ir.dtype.from_numpy(protobuf.numpy_dtype(elem))
    except (TypeError, KeyError) as error:
        raise UnsupportedOp(
            f"input {entry.name!r} cannot be a DLC input: {error or f'data type {elem}'}",
            fix="export the model with tensor inputs of plain numbers",
        ) from error


class _FileReader(MessageReader):
    """Reads the messages of a file, whose large tensors are lazy and whose functions expand."""

    def __init__(
        self,
        operators: Operators,
        file: OnnxFile,
        udos: UdoNodes | None,
        declared: Callable[[], DeclaredTypes],
    ) -> None:
        super().__init__(operators.context, operators.import_node)
        self._file = file
        self._expansion = Expansion(file.proto) if file.proto.functions else None
        self._udos = udos
        self._declared = declared

    def data(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``TensorProto`` as lazy data."""
        return self._file.data(tensor)

    def size(self, graph: Any) -> int:
        """Return the number of nodes that a ``GraphProto`` expands to."""
        return super().size(graph) if self._expansion is None else self._expansion.size(graph)

    def is_udo(self, node: Node) -> bool:
        """Return whether a UDO definition certainly matches a node."""
        return self._udos is not None and self._udos.covers_surely(node)

    def dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``, whose size is limited."""
        data = sparse.dense(self._file, tensor)
        if not self.context.budget.dense_bytes.take(data.nbytes):
            raise sparse.too_large(f"{self._file.path}: sparse tensor {tensor.values.name!r}")
        return data

    def declare(self, function: Any, name: str) -> None:
        """Take the types that a function states of its values, under a name for this use of it."""
        self._declared().add((f"{name}/{entry.name}", entry.type) for entry in function.value_info)

    def node(self, proto: Any) -> Node:
        """Return the node of a ``NodeProto``, with the names that xdlc recorded for its op."""
        node = super().node(proto)
        if proto.metadata_props:
            node.recorded = recorded_names(proto)
        return node


class _ModelFunctions:
    """Functions that an ONNX model defines, as an override of canonical operators.

    Args:
        model: ``ModelProto``.
    """

    operators: Operators

    def __init__(self, model: Any) -> None:
        self._functions = {
            (plain_domain(function.domain), function.name, function.overload): function
            for function in model.functions
        }

    def _find(self, node: Node) -> Any | None:
        if node.type in self.operators.context.diagnostics.requested:
            return None
        overload = node.message.overload if node.message is not None else ""
        return self._functions.get((node.domain, node.type, overload)) if self._functions else None

    def covers(self, node: Node) -> bool:
        """Return whether the model defines the operator of a node."""
        return self._find(node) is not None

    def import_node(self, node: Node, where: str) -> bool:
        """Import the body of the function that a node calls, if it calls one."""
        function = self._find(node)
        if function is not None:
            self.operators.expand(function, node)
        return function is not None
