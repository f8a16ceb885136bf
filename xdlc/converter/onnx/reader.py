"""Reader of ONNX files: sparse tensors, and names that ``xdlc-to-onnx`` wrote.

A ``SparseTensorProto`` lists the values that are not zero and where they stand: by one number each, their
place in row-major order, or by one number for each axis.

ONNX has no field for the name of an op that shares its source node with others, nor for the moment at
which a Transpose really moves elements.  The records are entries of ``metadata_props``, a standard field
of nodes: ``xdlc.op`` the op's name, ``xdlc.type`` its type, ``xdlc.origin`` its source nodes after the
reason for an inserted op, as in the trace of a container, ``xdlc.statics`` the names of the op's static
operands, where the node has them in another form.  They have no influence on what is computed: a
name is taken if it is free, and everything else of the node is read as it is.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc import ir
from xdlc.converter import weights
from xdlc.converter.emitter import RecordedNames
from xdlc.converter.formats import ONNX, recognize
from xdlc.converter.onnx.value_info import DeclaredTypes
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.protobuf import INT64, MessageReader, labels_of
from xdlc.converter.operators.registry import CanonicalHandlers
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.protobuf_fields import Layout, without_blobs
from xdlc.converter.session.context import Allowance, Source
from xdlc.converter.session.node import GraphInput, Node
from xdlc.errors import ModelError, UnsupportedOp, damaged
from xdlc.ir import TensorData
from xdlc.json_fields import fits, json_value

if TYPE_CHECKING:
    from xdlc.ir.data import Array


DENSE_BYTES = 1 << 30
"""Most bytes of the sparse tensors of a model when they are dense."""


def too_large(where: str) -> UnsupportedOp:
    """Return the error of sparse tensors of more than ``DENSE_BYTES`` bytes."""
    return UnsupportedOp(
        f"the sparse tensors of the model need more than {DENSE_BYTES} bytes as dense tensors",
        where=where,
        fix="store tensors with many values as dense tensors, or remove the embedding from the model",
    )


def dense(file: OnnxFile, tensor: Any) -> TensorData:
    """Return the dense elements of a ``SparseTensorProto``, computed when used.

    Raises:
        ModelError: If shapes and positions contradict each other, or positions are not in ascending order.
        UnsupportedOp: If it holds strings, or is too large.
    """
    where = f"{file.path}: sparse tensor {tensor.values.name!r}"
    shape = tuple(tensor.dims)
    if not shape or min(shape) < 1:
        raise ModelError(f"the tensor has impossible dimensions {list(shape)}", where=where)
    count = tensor.values.dims[0] if len(tensor.values.dims) == 1 else -1
    listed = tuple(tensor.indices.dims)
    if count < 0 or listed not in ((count,), (count, len(shape))) or tensor.indices.data_type != INT64:
        raise ModelError(
            f"a tensor {list(shape)} has values of shape {list(tensor.values.dims)} and positions of shape "
            f"{list(listed)}",
            where=where,
            fix="store an int64 position for each value, or for each value and axis",
        )
    values = file.data(tensor.values)
    if math.prod(shape) * values.dtype.itemsize > DENSE_BYTES:
        raise too_large(where)
    places = _places(file.data(tensor.indices).numpy(), shape, where)

    def spread(array: Array) -> Array:
        import numpy

        made: Array = numpy.zeros(math.prod(shape), array.dtype)
        made[places] = array
        return made.reshape(shape)

    return values.transform(spread, shape=shape)


def _places(indices: Array, shape: Sequence[int], where: str) -> Array:
    """Return the place of each value in row-major order."""
    import numpy

    bounds = list(shape) if indices.ndim == 2 else [math.prod(shape)]
    columns = indices.reshape(len(indices), len(bounds))
    for column, bound in zip(columns.T, bounds, strict=True):
        if len(column) and (int(column.min()) < 0 or int(column.max()) >= bound):
            raise ModelError(f"the tensor has positions outside the shape {list(shape)}", where=where)
    places = numpy.zeros(len(columns), numpy.int64)
    for column, bound in zip(columns.T, bounds, strict=True):
        places = places * bound + column
    if (places[1:] <= places[:-1]).any():
        raise ModelError(
            "the positions must be distinct and in ascending order",
            where=where,
            fix="sort the positions and their values",
        )
    return places


OP, TYPE, ORIGIN, STATICS = "xdlc.op", "xdlc.type", "xdlc.origin", "xdlc.statics"
LONGEST = 1 << 16
LONGEST_SCOPES = 1 << 12
"""Characters of texts that are read."""


SCOPES = "pkg.torch.onnx.name_scopes"
"""Modules around a node, as torch's exporter writes them: ``['', 'layer1', 'layer1.0', 'conv2d']``."""


def module_of(proto: Any) -> str | None:
    """Return the path of a ``NodeProto``'s module; None if it states none."""
    text = next((entry.value for entry in proto.metadata_props if entry.key == SCOPES), "")
    try:
        names = ast.literal_eval(text) if 0 < len(text) <= LONGEST_SCOPES else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(names, list) or not fits(names, [str]):
        return None
    return "/".join(filter(None, names[:-1]))


def recorded_names(proto: Any) -> RecordedNames | None:
    """Return the names that a ``NodeProto`` records, or None."""
    notes = {entry.key: entry.value for entry in proto.metadata_props if len(entry.value) <= LONGEST}
    name = notes.get(OP)
    if not name:
        return None
    try:
        reason, *nodes = json_value(notes.get(ORIGIN, "[null]"))
        statics = tuple(json_value(notes.get(STATICS, "[]")))
    except (ValueError, TypeError):
        return None
    type = notes.get(TYPE, "")
    if not fits([name, type, reason or "", *nodes, *statics], [str]):
        return None
    return RecordedNames(name, type, statics, _made_for(name, nodes))


def _made_for(name: str, nodes: list[str]) -> str:
    """Return the source node whose name, with a number appended, is the op's name."""
    for node in reversed(nodes):
        rest = name.removeprefix(node)
        if node and name.startswith(node) and (not rest or (rest[0] == "_" and rest[1:].isdecimal())):
            return node
    return nodes[-1] if nodes and nodes[-1] else name


_EXTERNAL = 1
_FORBIDDEN_DIM = 1 << 31
_SURE_OPSET = 23  # every onnx that is installed beside this package has it

LAYOUT = Layout(
    "an ONNX file",
    "model",
    {
        "model": {7: "graph", 25: "function"},
        "graph": {1: "node", 5: "tensor"},
        "function": {7: "node"},
        "node": {5: "attribute"},
        "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
    },
    {"tensor": 9},
)
"""Fields of onnx.proto on the way to ``raw_data``."""


def read(path: str | os.PathLike[str], options: Options) -> SourceModel:
    """Return the graph of an ONNX file; external data are in its folder.

    Raises:
        XdlcError: If it is damaged, or of another format.
    """
    file = OnnxFile(path)
    message, declared = file.proto.graph, DeclaredTypes(file.proto)
    reader = FileReader(file, declared)
    graph = reader.graph(message)
    graph.inputs = [GraphInput(entry.name, _dtype(entry), labels_of(entry)) for entry in message.input]
    graph.output_dims = {entry.name: labels_of(entry) or () for entry in message.output}
    graph.problems = {
        entry.name: _no_input(entry, str(path))
        for entry, (name, dtype, _) in zip(message.input, graph.inputs, strict=True)
        if dtype is None and name not in graph.constants
    }
    return SourceModel(
        Source("onnx", str(path), message.name or "main", has_opsets=True, checker="onnx.checker"),
        graph,
        _handlers(file.proto, reader),
        options,
        nbytes=lambda: file.nbytes,
        declared=declared,
    )


class OnnxFile:
    """An ONNX model whose large tensors stay in the file.

    Attributes:
        proto: The parsed ``ModelProto``; large raw data are tickets.
        opsets: Opset version by domain; the default domain is ``""``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from google.protobuf.message import DecodeError

        self.path = Path(path)
        if self.path.is_dir():
            _refuse_other(self.path)
        self._file = ir.MappedFile(path)
        self._external: dict[str, ir.MappedFile] = {}
        self.proto = protobuf.messages().ModelProto()
        try:
            stripped, self._blobs = without_blobs(
                self._file.view(0, self._file.size), LAYOUT, str(path), self._file.release
            )
            self.proto.ParseFromString(stripped)
        except ModelError:
            _refuse_other(self.path)
            raise
        except DecodeError as error:
            _refuse_other(self.path)
            raise ModelError(
                "the file is not an ONNX file, or is damaged: protobuf cannot parse it",
                where=str(path),
                fix="check that the path names a complete .onnx file",
                code="XD301",
            ) from error
        if not self.proto.HasField("graph") or not self.proto.opset_import:
            _refuse_other(self.path)
            raise ModelError(
                "the file is not an ONNX model: it has no graph or imports no operator set",
                where=str(path),
                fix="check the file with onnx.checker",
            )
        protobuf.check_texts(self.proto, str(path))
        self.opsets = _opsets(self.proto.opset_import, str(path))
        self._file.release(0, self._file.size)

    @property
    def nbytes(self) -> int:
        """Size of the file and of the files of external data that were read so far."""
        return self._file.size + sum(file.size for file in self._external.values())

    def data(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``TensorProto`` as lazy data.

        Raises:
            ModelError: If size, type or external location are wrong.
        """
        where = f"{self.path}: tensor {tensor.name!r}"
        dtype = self._numpy_dtype(tensor, where)
        shape = tuple(tensor.dims)
        if any(not 0 <= extent < _FORBIDDEN_DIM for extent in shape):
            raise ModelError(f"the tensor has impossible dimensions {list(shape)}", where=where)
        if tensor.data_location == _EXTERNAL:
            source, offset, length = self._external_range(tensor, where)
            return self._range(source, offset, length, shape, dtype, where)
        found = self._blobs.find(tensor.raw_data) if tensor.HasField("raw_data") else None
        if found is not None:
            return self._range(self._file, *found, shape, dtype, where)
        return self._small(tensor, shape, where)

    def _numpy_dtype(self, tensor: Any, where: str) -> Any:
        if tensor.data_type == protobuf.STRING:
            raise UnsupportedOp(
                "the tensor holds strings, which a DLC cannot hold",
                where=where,
                fix="remove the string processing from the model",
            )
        try:
            return protobuf.numpy_dtype(tensor.data_type)
        except KeyError:
            raise ModelError(f"the tensor has unknown data type {tensor.data_type}", where=where) from None

    def _range(
        self,
        source: ir.MappedFile,
        offset: int,
        length: int | None,
        shape: tuple[int, ...],
        dtype: Any,
        where: str,
    ) -> ir.TensorData:
        count = 1
        for extent in shape:
            count *= extent
        narrow = {"int4", "uint4", "float4_e2m1fn", "int2", "uint2"}
        if dtype.isbuiltin != 1 and dtype.name in narrow:
            import onnx

            size = length if length is not None else (count + 1) // 2
            raw = bytes(source.view(offset, size))
            proto = onnx.TensorProto(
                data_type=onnx.helper.np_dtype_to_tensor_dtype(dtype), dims=shape, raw_data=raw
            )
            return self._small(proto, shape, where)
        return weights.mapped(source, offset, length, shape, dtype, where)

    def _small(self, tensor: Any, shape: tuple[int, ...], where: str) -> ir.TensorData:
        try:
            return ir.ArrayData(protobuf.to_array(tensor).reshape(shape))
        except (ValueError, TypeError, RuntimeError) as error:
            raise damaged(
                f"the data do not fit type and dimensions {list(shape)} ({error})", where
            ) from error

    def _external_range(self, tensor: Any, where: str) -> tuple[ir.MappedFile, int, int | None]:
        entries: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries["length"]) if entries.get("length") else None
        except ValueError:
            raise ModelError(
                "the offset or length of the external data is not a number", where=where
            ) from None
        if offset < 0 or (length is not None and length < 0):
            raise ModelError("the offset or length of the external data is negative", where=where)
        if location not in self._external:
            self._external[location] = ir.MappedFile(weights.beside(self.path, location, where))
        return self._external[location], offset, length


def _refuse_other(path: Path) -> None:
    """Refuse a file of another known format.

    Raises:
        ModelError: If it is.
    """
    with suppress(OSError):
        found = recognize(path)
        if found not in (None, ONNX):
            raise ModelError(
                f"the file is {found.name}, not an ONNX model", where=str(path), fix=found.fix_for(path)
            )


def _opsets(imports: Any, where: str) -> dict[str, int]:
    """Return the version of each operator domain; the default domain is ``""``.

    Raises:
        ModelError: If a version is invalid or unknown, or a domain has two.
    """
    versions = protobuf.opsets(imports, where)
    newest = versions.get("", 1)
    if newest > _SURE_OPSET:
        import onnx

        if newest > onnx.defs.onnx_opset_version():
            raise ModelError(
                f"the model imports opset {newest}; the installed onnx {onnx.__version__} supports at most "
                f"{onnx.defs.onnx_opset_version()}",
                where=where,
                fix="run `pip install --upgrade onnx`, or export the model for an older opset",
                code="XD304",
            )
    return versions


class FileReader(MessageReader):
    """Reader of the messages of a file: lazy tensors, recorded names.

    Args:
        declared: Types that the file states of its values.
        function: The ``FunctionProto`` whose messages it reads; default: those of the graphs.
        dense_bytes: Bytes of sparse tensors that may be made dense.
    """

    def __init__(
        self,
        file: OnnxFile,
        declared: DeclaredTypes,
        function: Any = None,
        dense_bytes: Allowance | None = None,
    ) -> None:
        own = {} if function is None else protobuf.opsets(function.opset_import)
        super().__init__({**file.opsets, **own}, str(file.path))
        self._file = file
        self._declared = declared
        self._dense_bytes = dense_bytes or Allowance(DENSE_BYTES)

    def inside(self, function: Any) -> FileReader:
        """Return the reader of the messages of a ``FunctionProto``.

        Raises:
            ModelError: If it imports versions of operators that do not exist.
        """
        return FileReader(self._file, self._declared, function, self._dense_bytes)

    def data(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``TensorProto`` as lazy data."""
        return self._file.data(tensor)

    def dense(self, tensor: Any) -> ir.TensorData:
        """Return the elements of a ``SparseTensorProto``, whose size is limited."""
        data = dense(self._file, tensor)
        if not self._dense_bytes.take(data.nbytes):
            raise too_large(f"{self._file.path}: sparse tensor {tensor.values.name!r}")
        return data

    def declare(self, function: Any, name: str) -> None:
        """Add the types that a function states, under the name of a call of it."""
        if function.value_info:
            self._declared.add((f"{name}/{entry.name}", entry.type) for entry in function.value_info)

    def node(self, proto: Any) -> Node:
        """Return the node of a ``NodeProto``, with the names recorded for its op."""
        node = super().node(proto)
        if proto.metadata_props:
            node.recorded = recorded_names(proto)
            node.module = module_of(proto)
        return node


def _dtype(entry: Any) -> ir.DType | None:
    """Return the data type of an input; None if it is not a supported tensor."""
    try:
        kind = entry.type.tensor_type.elem_type
        return ir.dtype.from_numpy(protobuf.numpy_dtype(kind)) if entry.type.HasField("tensor_type") else None
    except (TypeError, KeyError):
        return None


def _no_input(entry: Any, where: str) -> UnsupportedOp:
    """Return the problem of an input that is not a supported tensor."""
    names, number = protobuf.messages().TensorProto.DataType, entry.type.tensor_type.elem_type
    reason = f"a DLC cannot hold the type {names.Name(number) if number in names.values() else number}"
    if not entry.type.HasField("tensor_type"):
        kind = str(entry.type.WhichOneof("value")).removesuffix("_type").replace("_", " ")
        reason = f"the input has type {kind}, but a DLC holds only tensors"
    return UnsupportedOp(
        f"input {entry.name!r} cannot be a DLC input: {reason}",
        where=where,
        fix="export the model with inputs that are tensors of numbers",
        code="XD405",
    )


def _handlers(model: Any, reader: FileReader) -> CanonicalHandlers:
    """Return the handlers of the functions that a model defines."""
    if not model.functions:
        return CanonicalHandlers()
    from xdlc.converter.onnx.functions import ModelFunctions

    return ModelFunctions(model, reader)
