"""Writer of the entries of format 4, in the layout of the vendor's writer.

The versions differ in the place of the data: 4.0 has it inside ``model.params``, where a flatbuffer's 32-bit
offsets end at 2 GiB; 4.1 has ranges of the entry ``model.params.bin``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from xdlc.container.encodings import EncodingWriter
from xdlc.container.flatbuffer_encode import Alike, Made, Part, Stream, encode, encode_parts
from xdlc.container.opnames import from_qnn
from xdlc.container.read4 import ROLE_PARAMETER
from xdlc.errors import ContainerError, UsageError
from xdlc.ir import NATIVE_PACKAGE, Graph, MappedData, Model, Op, Param, Role, Scalar, Tensor, string, u32
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import FLOAT32
from xdlc.records import record
from xdlc.schema._generated import dlc4_model, dlc4_params

INLINE = "4.0"
SEPARATE = "4.1"
PREFIXES = {INLINE: b"\xd5\x0a\4\0\0\0\0\0", SEPARATE: b"\xd5\x0a\4\0\1\0\0\0"}
ROLE_SUPPLEMENT = 2
KIND_TENSOR = 1
NOT_SET = -1
NULL_NAME = "null_tensor"
DATA_ALIGNMENT = 4


@record
class Entries:
    """Contents of the entries of a model.

    Attributes:
        params: Index of the data, part by part; in format 4.0 with the data.
        data: The data, part by part; empty if the model has none, and in format 4.0.
        encodings: Scales of block encodings; empty if none are used.
    """

    model: list[Part]
    params: list[Part]
    data: list[Part]
    encodings: bytes


def check_version(version: str) -> None:
    """Check that a version of the container can be written.

    Raises:
        UsageError: If it cannot.
    """
    if version not in PREFIXES:
        reason = ": xdlc reads SNPE 1 files, but does not write them" if version in ("3", "3.0") else ""
        raise UsageError(
            f"xdlc cannot write format {version!r}{reason}",
            where="version",
            fix=f"write format {SEPARATE}, or {INLINE} for older viewers",
        )


def make_entries(model: Model, version: str = SEPARATE) -> Entries:
    """Return the contents of all entries with graphs.

    Format 4.1 stores equal data of several graphs once: data whose size occurs in more than one graph is read
    for its hash.  Other data is not read.

    Args:
        version: ``4.1`` or ``4.0``.

    Raises:
        UsageError: If the version is another.
        ContainerError: If something of the model cannot be stored in a DLC of this version.
    """
    check_version(version)
    return _Writer(version).write(model)


class _Row(NamedTuple):
    """What the table of an op is made of, when it is written.

    Attributes:
        first: Id of the first tensor among its parameters.
        names: Names of these tensors.
        key: Facts that its parameters follow from, but ids and names; None if one has an encoding.
    """

    op: Op
    type: str
    first: int
    names: tuple[str, ...]
    key: tuple[Hashable, ...] | None


class _Writer:
    def __init__(self, version: str) -> None:
        self.version = version
        self.encodings = EncodingWriter()
        self.next_id = 1
        self.keys: dict[Hashable, tuple[Hashable, ...] | None] = {}
        self.parts: list[Part] = []
        self.position = 0
        self.where = ""
        self.hashes: dict[int, bytes] = {}
        self.stored: dict[bytes, dlc4_params.Range] = {}

    def write(self, model: Model) -> Entries:
        if self.version != INLINE and len(model.graphs) > 1:
            self.hashes = _hashes(model.graphs.values())
        graphs, params = [], []
        # The vendor's reader finds a graph by bisection, so they are sorted by name.
        for graph in sorted(model.graphs.values(), key=_by_name):
            self.where = f"graph {graph.name!r}"
            content, data = self.graph(graph)
            graphs.append(content)
            params.append(data)
        prefix = PREFIXES[self.version]
        index = encode_parts(dlc4_params.Params(params), fix=f"write format {SEPARATE}, which has no limit")
        return Entries(
            [prefix, encode(dlc4_model.Model(graphs))],
            [prefix, *index],
            self.parts,
            bytes(self.encodings.blocks),
        )

    def graph(self, graph: Graph) -> tuple[dlc4_model.Graph, dlc4_params.GraphParams]:
        ordered = list(_ordered(graph))
        null = NULL_NAME
        while null in graph.tensors:
            null += "_"
        if any(None in op._inputs for op in graph.ops):
            described = [*ordered, Tensor(null, (0,), FLOAT32, role=Role.NULL)]
        else:
            described = ordered
        tensors = [self.tensor(tensor, id) for id, tensor in enumerate(described, self.next_id)]
        self.next_id += len(tensors)
        static = sorted((tensor for tensor in ordered if tensor.data is not None), key=_by_name)
        elements = [self.elements(tensor) for tensor in static]
        rows, data = [], []
        for op in graph.ops:
            row, values = self.row(op)
            rows.append(row)
            data.append(dlc4_params.NodeParams(values))
        nodes: Any = Made(len(rows), lambda: (self.node(row, null) for row in rows))
        return (
            dlc4_model.Graph(graph.name, nodes, tensors, params_name=graph.name),
            dlc4_params.GraphParams(graph.name, elements, data),
        )

    def tensor(self, tensor: Tensor, id: int) -> dlc4_model.Tensor:
        role = Role.STATIC if tensor.data is not None else tensor.role
        if role is Role.STATIC and tensor.data is None:
            raise ContainerError(
                "the tensor is static, but has no data", where=f"{self.where}: tensor {tensor.name!r}"
            )
        return dlc4_model.Tensor(
            id,
            tensor.name,
            int(role),
            tensor.shape,
            NOT_SET,
            self.encodings.table(tensor),
            tensor.dtype.code,
            tensor.dtype.code,
            tensor.dtype is FLOAT32 or tensor.encoding is not None,
            source_axis_format=NOT_SET,
            dynamic_axes=tensor.dynamic_axes or None,
            unknown32=(),
        )

    def elements(self, tensor: Tensor) -> dlc4_params.Elements:
        data = tensor.data
        where = f"{self.where}: tensor {tensor.name!r}"
        if data is None:
            raise ContainerError("is static but has no data", where=where)
        nbytes = data.nbytes
        if tensor.dtype.bits and nbytes not in tensor.dtype.stored_sizes(tensor.shape):
            raise ContainerError(
                f"has {nbytes} bytes of data, but {tensor.dtype}{list(tensor.shape)} needs {tensor.nbytes}",
                where=where,
                fix="set data of the tensor's own type and shape",
            )
        if self.version == INLINE:
            return dlc4_params.Elements(tensor.name, Stream(data))
        content = self.hashes.get(id(data))
        extent = None if content is None else self.stored.get(content)
        if extent is None:
            extent = dlc4_params.Range(self.position, nbytes)
            self.parts.append(data)
            padding = -nbytes % DATA_ALIGNMENT
            if padding:
                self.parts.append(bytes(padding))
            self.position += nbytes + padding
            if content is not None:
                self.stored[content] = extent
        return dlc4_params.Elements(tensor.name, range=extent)

    def row(self, op: Op) -> tuple[_Row, list[dlc4_params.Elements]]:
        """Return what the table of an op is made of, and where its parameters' data are."""
        type, params = self.params(op)
        key: list[Hashable] = []
        values: list[dlc4_params.Elements] = []
        first, is_plain = self.next_id, True
        for name, param, role in params:
            if isinstance(param, Tensor):
                key.append((name, param.shape, param.dtype, param.dynamic_axes))
                values.append(self.elements(param))
                is_plain = is_plain and param.encoding is None
            else:
                key.append((name, role, param.dtype, param.value.__class__, str(param.value)))
        self.next_id += len(values)
        form = tuple(key) if is_plain else None
        names = tuple([elements.name or "" for elements in values])
        return _Row(op, type, first, names, self.keys.setdefault(form, form)), values

    def node(self, row: _Row, null: str) -> dlc4_model.Node:
        """Return the table of an op; omitted inputs have the name ``null``."""
        op = row.op
        inputs = [null if tensor is None else tensor.name for tensor in op._inputs]
        outputs = [tensor.name for tensor in op._outputs]
        ids = enumerate(row.names, row.first)
        if row.key is None:
            attributes: Any = list(self.attributes(op, ids))
        else:
            tables = partial(self.attributes, op, ids)
            attributes = Alike(len(row.key), tables, row.key, dlc4_model.Tensor, ids)
        return dlc4_model.Node(op.name, row.type, inputs, outputs, attributes)

    def params(self, op: Op) -> tuple[str, list[tuple[str, Param, int]]]:
        """Return an op's type in the file, and its parameters by name: value and role."""
        type, params, strings = from_qnn(op.type, op.package, op.params)
        supplements: dict[str, Scalar] = {name: string(text) for name, text in strings.items()}
        supplements["packageName"] = string(op.package)
        if op.type in ("Gru", "Lstm") and op.package == NATIVE_PACKAGE and op.outputs and op.outputs[0].shape:
            supplements["hidden_size"] = u32(op.outputs[0].shape[-1])  # required by the vendor's reader
        names = set()
        for name, param in sorted(params.items()):
            if name in supplements or (isinstance(param, Tensor) and param.name in names):
                raise ContainerError(
                    f"another parameter or tensor already has the name of parameter {name!r}",
                    where=f"{self.where}: op {op.name!r}",
                    fix="give the parameters of an op, and their tensors, different names",
                )
            if isinstance(param, Tensor):
                names.add(param.name)
        stated: list[tuple[str, Param, int]] = [
            (name, param, ROLE_PARAMETER) for name, param in params.items()
        ]
        stated += [(name, param, ROLE_SUPPLEMENT) for name, param in supplements.items()]
        return type, sorted(stated, key=itemgetter(0))

    def attributes(self, op: Op, ids: Iterator[tuple[int, str]]) -> Iterator[dlc4_model.Attribute]:
        """Yield the tables of an op's parameters, whose tensors have ``ids``."""
        for name, param, role in self.params(op)[1]:
            if isinstance(param, Tensor):
                content = self.tensor(param, next(ids)[0])
                content.role = int(Role.STATIC)
                yield dlc4_model.Attribute(name, KIND_TENSOR, role, tensor=content)
            else:
                yield dlc4_model.Attribute(name, role=role, scalar=_scalar(param))


def _by_name(named: Graph | Tensor) -> bytes:
    """Return the key of the order of names; the writer refuses invalid Unicode."""
    return named.name.encode("utf-8", "surrogatepass")


class _Hash:
    """A file that keeps only the hash of what is written."""

    def __init__(self) -> None:
        import hashlib

        self._sum = hashlib.blake2b(digest_size=32)

    def write(self, content: Any) -> None:
        self._sum.update(content)

    def digest(self) -> bytes:
        return self._sum.digest()


def _hashes(graphs: Iterable[Graph]) -> dict[int, bytes]:
    """Return the hash of data that several graphs may have in common, by its ``id``."""
    of_graphs = [{id(data): data for data in _data_of(graph)} for graph in graphs]
    sizes = Counter(size for by_id in of_graphs for size in {data.nbytes for data in by_id.values()})
    by_place: dict[object, bytes] = {}
    hashes: dict[int, bytes] = {}
    for data in itertools.chain.from_iterable(by_id.values() for by_id in of_graphs):
        if sizes[data.nbytes] < 2 or not data.nbytes:
            continue
        place: object = id(data)
        if isinstance(data, MappedData):
            source, offset = data.location
            place = id(source), offset, data.nbytes
        if place not in by_place:
            target: Any = _Hash()
            data.write_to(target)
            by_place[place] = target.digest()
        hashes[id(data)] = by_place[place]
    return hashes


def _data_of(graph: Graph) -> Iterator[TensorData]:
    """Yield the data of a graph's tensors and of the parameters of its ops."""
    params = (param for op in graph.ops for param in op.params.values() if isinstance(param, Tensor))
    for tensor in itertools.chain(graph.tensors.values(), params):
        if tensor.data is not None:
            yield tensor.data


def _scalar(param: Scalar) -> dlc4_model.Scalar:
    code, value = param.dtype.code, param.value
    if isinstance(value, str):
        return dlc4_model.Scalar(code, text=value)
    if param.dtype.is_float:
        return dlc4_model.Scalar(code, real=float(value))
    number = int(value)
    return dlc4_model.Scalar(code, number - (1 << 64) if number >= 1 << 63 else number)


def _ordered(graph: Graph) -> Iterator[Tensor]:
    """Yield the tensors by node, inputs then outputs; graph outputs last.

    Graph inputs come first only where that order would change theirs or lose one.
    """
    late = set(graph.outputs)
    seen: dict[Tensor, None] = {}
    for op in graph.ops:
        for tensor in itertools.chain(op._inputs, op._outputs):
            if tensor is not None and tensor not in late:
                seen.setdefault(tensor)
    early = [tensor for tensor in graph.inputs if tensor not in late]
    if [tensor for tensor in seen if tensor.role is Role.INPUT] != early:
        yield from early
        yield from (tensor for tensor in seen if tensor.role is not Role.INPUT)
    else:
        yield from seen
    yield from graph.outputs
