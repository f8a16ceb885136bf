"""Reader of format 4: 4.1 and later (data in its own entry), and 4.0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdlc.container.archive import Entry, entry_bytes
from xdlc.container.encodings import Blocks, read_encoding
from xdlc.container.flatbuffer import decode
from xdlc.container.opnames import to_qnn
from xdlc.errors import ContainerError, ModelError
from xdlc.ir import (
    NATIVE_PACKAGE,
    DType,
    Graph,
    MappedData,
    MappedFile,
    Model,
    Op,
    Param,
    Role,
    Scalar,
    Tensor,
    TensorData,
    as_float32,
)
from xdlc.ir.dtype import BY_CODE, FLOAT32, STRING, UINT8
from xdlc.schema._generated import dlc4_large, dlc4_model, dlc4_params
from xdlc.schema.table import Blob

MODEL = "model"
PARAMS = "model.params"
DATA = "model.params.bin"
ENCODINGS = "model.encodings.bin"
PREFIX = 8
ROLE_PARAMETER = 1
NO_TYPE = 0x7FFFFFFF
# numpy's limits; QNN's own are lower.
MAX_RANK = 64
MAX_ELEMENTS = 1 << 59
MAX_UNTYPED = 1 << 24
"""Bytes of strings, and of data of no type."""

Locate = Callable[[dlc4_params.Elements, str], tuple[int, int]]


def read_graphs(
    source: MappedFile, entries: dict[str, Entry], version: tuple[int, int], model: Model
) -> None:
    """Add a file's graphs to ``model``; weights stay in the file until they are used.

    Args:
        version: Major and minor version of the entry ``model``.

    Raises:
        ContainerError: If an entry is missing or breaks a rule: names the entry and the rule.
    """
    where = str(source.path)
    body = entry_bytes(source, entries[MODEL], PREFIX)
    content = decode(body, dlc4_model.Model, f"{where}: entry {MODEL!r}", by_item=True)
    if not content.graphs:
        return
    if PARAMS not in entries:
        raise ContainerError(
            f"the DLC has a model, but no entry {PARAMS!r}", where=where, fix="get the file again"
        )
    params, locate = _open_params(source, entries, version)
    by_name = {graph.name: graph for graph in params.graphs or ()}
    blocks = Blocks(entry_bytes(source, entries[ENCODINGS]) if ENCODINGS in entries else memoryview(b""))
    for graph in content.graphs:
        key = graph.name if graph.params_name is None else graph.params_name
        if graph.name is None or key not in by_name:
            raise ContainerError(
                f"the entry has no data for graph {graph.name!r} under the name {key!r}",
                where=f"{where}: entry {PARAMS!r}",
            )
        reader = _GraphReader(source, graph, by_name[key], locate, blocks)
        try:
            model.add_graph(reader.read())
        except ModelError as error:
            inside = f"{where}: graph {graph.name!r}"
            raise ContainerError(error.problem, where=inside, fix=error.fix) from error


def _open_params(
    source: MappedFile, entries: dict[str, Entry], version: tuple[int, int]
) -> tuple[dlc4_params.Params, Locate]:
    """Return the data's index, and a function that finds the bytes of a tensor."""
    entry = entries[PARAMS]
    where = f"{source.path}: entry {PARAMS!r}"
    first = entry.offset + PREFIX
    if version != (4, 0):
        data = entries.get(DATA, Entry(DATA, 0, 0))

        def in_data(elements: dlc4_params.Elements, name: str) -> tuple[int, int]:
            extent = elements.range
            if extent is None:
                raise ContainerError("has no range for its data", where=name)
            if extent.offset < 0 or extent.nbytes < 0 or extent.offset + extent.nbytes > data.size:
                raise ContainerError(
                    f"has bytes {extent.offset} to {extent.offset + extent.nbytes}, "
                    f"but the entry {DATA!r} has {data.size}",
                    where=name,
                    fix="get the file again: it is truncated",
                )
            return data.offset + extent.offset, extent.nbytes

        return decode(entry_bytes(source, entry, PREFIX), dlc4_params.Params, where, by_item=True), in_data
    body = entry_bytes(source, entry, PREFIX, most=source.size)
    buffers: list[tuple[int, int]] = []
    if bytes(body[4:8]) == dlc4_large.Large.IDENTIFIER:
        large = decode(body, dlc4_large.Large, where)
        if not isinstance(large.params, Blob):
            raise ContainerError("has no index of its buffers", where=where)
        for buffer in large.buffers or ():
            content = buffer.content
            buffers.append((first + content.start, len(content)) if isinstance(content, Blob) else (first, 0))
        body = large.params.view

    def in_params(elements: dlc4_params.Elements, name: str) -> tuple[int, int]:
        if elements.buffer >= 0:
            if elements.buffer >= len(buffers):
                raise ContainerError(f"uses buffer {elements.buffer} of {len(buffers)}", where=name)
            return buffers[elements.buffer]
        content = elements.inline_bytes
        if not isinstance(content, Blob):
            raise ContainerError("has no data", where=name)
        return first + content.start, len(content)

    return decode(body, dlc4_params.Params, where, by_item=True), in_params


class _GraphReader:
    def __init__(
        self,
        source: MappedFile,
        content: dlc4_model.Graph,
        params: dlc4_params.GraphParams,
        locate: Locate,
        blocks: Blocks,
    ) -> None:
        self.source = source
        self.content = content
        self.params = params
        self.locate = locate
        self.blocks = blocks
        self.graph = Graph(content.name or "")
        self.where = f"{source.path}: graph {content.name!r}"

    def read(self) -> Graph:
        graph = self.graph
        static = {elements.name: elements for elements in self.params.tensors or ()}
        tensors: dict[str, Tensor] = {}
        for given in self.content.tensors or ():
            tensor = self.tensor(given, static)
            if tensor.name in tensors:
                raise ContainerError(f"has two tensors named {tensor.name!r}", where=self.where)
            tensors[tensor.name] = tensor
            self.place(tensor)
        nodes = self.content.nodes or ()
        data = self.params.nodes or ()
        if len(data) != len(nodes):
            raise ContainerError(
                f"the graph has {len(nodes)} nodes, but data for {len(data)}",
                where=self.where,
                fix="get the file again",
            )
        for node, node_data in zip(nodes, data, strict=True):
            graph.append(self.op(node, node_data.tensors or (), tensors))
        graph.verify()
        return graph

    def place(self, tensor: Tensor) -> None:
        if tensor.role is Role.INPUT:
            self.graph.add_input(tensor)
        elif tensor.role is Role.OUTPUT:
            self.graph.add_output(tensor)
        elif tensor.role is not Role.NULL:
            self.graph.add_tensor(tensor)
            if tensor.role is Role.INPUT_OUTPUT:
                self.graph.inputs.append(tensor)
                self.graph.outputs.append(tensor)

    def tensor(self, stored: dlc4_model.Tensor, static: dict[str | None, dlc4_params.Elements]) -> Tensor:
        name = stored.name
        where = f"{self.where}: tensor {name!r}"
        if not name or stored.dims is None:
            raise ContainerError("has no name or no dimensions", where=where)
        if not 0 <= stored.role <= Role.NULL:
            raise ContainerError(f"has tensor type {stored.role}; only 0 to 5 are known", where=where)
        dtype = BY_CODE.get(stored.dtype)
        if dtype is None:
            raise ContainerError(f"has the unknown data type {stored.dtype:#x}", where=where)
        shape = tuple(stored.dims)
        if len(shape) > MAX_RANK or math.prod(dim or 1 for dim in shape) > MAX_ELEMENTS:
            raise ContainerError(
                f"has {len(shape)} axes; at most {MAX_RANK} axes and {MAX_ELEMENTS} elements are supported",
                where=where,
            )
        dynamic = tuple(stored.dynamic_axes or ())
        if any(axis >= len(shape) for axis in dynamic):
            raise ContainerError(f"has dynamic axes {list(dynamic)} of {len(shape)}", where=where)
        data = None
        if stored.role == Role.STATIC:
            elements = static.get(name)
            if elements is None:
                raise ContainerError("is static but has no data", where=where, fix="get the file again")
            data = self.data(elements, shape, dtype, where)
        encoding = read_encoding(stored.quantization, shape, dtype, self.blocks, where)
        return Tensor(name, shape, dtype, encoding, data, Role(stored.role), dynamic)

    def data(
        self, elements: dlc4_params.Elements, shape: tuple[int, ...], dtype: DType, where: str
    ) -> TensorData:
        offset, nbytes = self.locate(elements, where)
        if dtype.bits == 0 or dtype.kind == "undefined":
            if nbytes > MAX_UNTYPED:
                raise ContainerError(
                    f"has {nbytes} bytes of {dtype}; xdlc reads at most {MAX_UNTYPED}", where=where
                )
            return MappedData(self.source, offset, (nbytes,), UINT8)
        if nbytes not in dtype.stored_sizes(shape):
            raise ContainerError(
                f"has {nbytes} bytes of data, but {dtype}{list(shape)} needs {dtype.nbytes(shape)}",
                where=where,
                fix="get the file again",
            )
        return MappedData(self.source, offset, (nbytes,) if dtype.bits == 4 else shape, dtype)

    def op(
        self, node: dlc4_model.Node, data: Sequence[dlc4_params.Elements], tensors: dict[str, Tensor]
    ) -> Op:
        where = f"{self.where}: node {node.name!r} ({node.type})"
        if not node.name or not node.type:
            raise ContainerError("has no name or no type", where=where)
        static = {elements.name: elements for elements in data}
        params: dict[str, Param] = {}
        supplements: dict[str, str] = {}
        for attribute in node.attributes or ():
            name = attribute.name
            if not name or name in params:
                raise ContainerError(f"has no name or two values for its parameter {name!r}", where=where)
            scalar = attribute.scalar
            if attribute.role != ROLE_PARAMETER:
                if scalar is not None and scalar.text is not None:
                    supplements[name] = scalar.text
            elif attribute.kind == 1 and attribute.tensor is not None:
                params[name] = self.tensor(attribute.tensor, static)
            elif attribute.kind == 0 and scalar is not None:
                params[name] = _scalar(scalar, f"{where}: parameter {name!r}")
            else:
                raise ContainerError(f"has no value for its parameter {name!r}", where=where)
        package = supplements.get("packageName", NATIVE_PACKAGE)
        try:
            type, params = to_qnn(node.type, package, params, supplements)
        except ValueError as error:
            raise ContainerError(str(error), where=where) from error
        ends = []
        for name in [*(node.inputs or ()), *(node.outputs or ())]:
            tensor = tensors.get(name)
            if tensor is None:
                raise ContainerError(f"refers to tensor {name!r}, which does not exist", where=where)
            ends.append(tensor)
        count = len(node.inputs or ())
        if any(tensor.role is Role.NULL for tensor in ends[count:]):
            raise ContainerError("writes to a null tensor", where=where)
        inputs = [None if tensor.role is Role.NULL else tensor for tensor in ends[:count]]
        return Op(type, inputs, ends[count:], params, name=node.name, package=package)


def _scalar(stored: dlc4_model.Scalar, where: str) -> Scalar:
    code = stored.dtype
    if code == NO_TYPE and stored.text is not None:
        code = STRING.code
    dtype = BY_CODE.get(code)
    if dtype is None or dtype.kind == "undefined":
        raise ContainerError(f"has the unknown data type {code:#x}", where=where)
    if dtype.kind == "string":
        return Scalar(dtype, stored.text or "")
    if dtype.kind == "bool":
        return Scalar(dtype, bool(stored.integer))
    if dtype.is_float:
        try:
            return Scalar(dtype, as_float32(stored.real) if dtype is FLOAT32 else stored.real)
        except OverflowError as error:
            raise ContainerError(f"is {stored.real}, too large for {dtype}", where=where) from error
    low, high = dtype.limits
    value = stored.integer
    if low == 0 and -(high + 1) // 2 <= value < 0:
        value += high + 1  # an unsigned value that went through a signed one
    if not low <= value <= high:
        raise ContainerError(f"is {stored.integer}, outside of {dtype}", where=where)
    return Scalar(dtype, value)
