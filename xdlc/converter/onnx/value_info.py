"""Types of the values of an ONNX model: stated and inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from xdlc import ir
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.inference import extent, spec_of
from xdlc.converter.operators.protobuf import all_graphs, all_nodes, domain_of, plain_domain
from xdlc.converter.udo.nodes import Declarations
from xdlc.converter.values import Dims, Spec
from xdlc.errors import UnsupportedOp
from xdlc.ir.data import Array
from xdlc.opdefs.source_match import Declared
from xdlc.runtime.onnx_evaluator import RefusedError, infer_shapes

_UNDEFINED = 0


class DeclaredTypes(Declarations):
    """Types of values by name, as ``value_info`` and the outputs of graphs state them.

    A name that two graphs state in different ways is taken as not stated, and so are all shapes if an
    input has other dimensions than the model states.

    Args:
        model: ``ModelProto``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._shapes: Mapping[str, Sequence[int | None]] = {}
        self._fixed: Mapping[str, Any] = {}

    def bind(self, shapes: Mapping[str, Sequence[int | None]], fixed: Mapping[str, Any]) -> None:
        """Set the shapes of the inputs, and the values of fixed inputs."""
        self._shapes, self._fixed = shapes, fixed

    @cached_property
    def _inputs(self) -> list[Any]:
        return [entry for entry in self._model.graph.input if entry.name not in self._fixed]

    @cached_property
    def _symbols(self) -> dict[str, int | None]:
        return _symbols(self._inputs, self._shapes)

    @cached_property
    def _is_outdated(self) -> bool:
        return _changes(self._inputs, self._shapes)

    @cached_property
    def _types(self) -> dict[str, Any]:
        types: dict[str, Any] = {}
        strings = protobuf.messages().TypeProto()
        strings.tensor_type.elem_type = protobuf.STRING
        for held in all_graphs(self._model.graph):
            inputs = self._inputs if held is self._model.graph else held.input
            for entry in (*held.value_info, *held.output, *inputs):
                _state(types, entry.name, entry.type)
            for entry in held.initializer:
                if entry.data_type == protobuf.STRING:
                    types.setdefault(entry.name, strings)
        return types

    def add(self, types: Iterable[tuple[str, Any]]) -> None:
        """Add ``TypeProto`` by name."""
        for name, kind in types:
            _state(self._types, name, kind)

    def find(self, name: str) -> Declared:
        """Return the stated shape and type of a value.

        Raises:
            UnsupportedOp: If it is nothing that a DLC holds.
        """
        kind = self._types.get(name) if name else None
        if kind is None:
            return Declared(read=bool(name))
        odd = _oddity(kind)
        if odd:
            raise UnsupportedOp(
                f"output {name!r} of the node is {odd}, which a DLC cannot hold",
                fix="convert the part of the model without strings and sequences",
            )
        tensor = kind.tensor_type
        shape = tuple(map(self._extent, tensor.shape.dim)) if tensor.HasField("shape") else None
        dtype = _dtype(tensor.elem_type)
        if shape is not None and self._is_outdated:
            return Declared(None, dtype, is_outdated=True)
        return Declared(shape, dtype)

    def contradicted(self, found: Mapping[str, Dims]) -> Iterator[tuple[str, Dims, Dims]]:
        """Yield values of another shape than stated: name, stated and actual shape."""
        for name, shape in found.items():
            kind = self._types.get(name)
            if kind is None or self._is_outdated or _oddity(kind):
                continue
            stated = self.find(name).shape
            if stated is not None and not _agree(stated, shape):
                yield name, stated, shape

    def oddity(self, name: str) -> str:
        """Return the kind of a value that a DLC cannot store; "" for numeric tensors."""
        kind = self._types.get(name) if name else None
        return "" if kind is None else _oddity(kind)

    def inferred(self) -> Mapping[str, Spec]:
        """Return the result of shape inference over the whole model."""
        return self._inferred

    @cached_property
    def _inferred(self) -> dict[str, Spec]:
        model = protobuf.messages().ModelProto()
        model.CopyFrom(self._model)
        del model.graph.value_info[:]
        imported = {plain_domain(entry.domain) for entry in model.opset_import}
        for domain in sorted({domain_of(node) for node in all_nodes(model.graph)} - imported):
            model.opset_import.add(domain=domain, version=1)  # inference fails on models that omit it
        for entry in model.graph.input:
            bound = self._shapes.get(entry.name)
            if bound is not None and len(bound) == len(entry.type.tensor_type.shape.dim):
                for dim, size in zip(entry.type.tensor_type.shape.dim, bound, strict=True):
                    if size is not None:
                        dim.dim_value = size
        for entry in model.graph.output if self._is_outdated else ():
            entry.type.tensor_type.ClearField("shape")
        for name, array in self._fixed.items():
            _fix(model.graph, name, array)
        try:
            found = infer_shapes(model)
        except RefusedError:  # what it finds is welcome; a model that it cannot follow is judged node by node
            return {}
        return {info.name: spec_of(info.type) for info in (*found.graph.value_info, *found.graph.output)}

    def _extent(self, dim: Any) -> int | None:
        stated = extent(dim)
        return self._symbols.get(dim.dim_param) if stated is None else stated


def _state(types: dict[str, Any], name: str, kind: Any) -> None:
    """Add a ``TypeProto``; None if the name has another one already."""
    if kind.WhichOneof("value") is not None and types.setdefault(name, kind) != kind:
        types[name] = None


def _agree(one: Dims, other: Dims) -> bool:
    return len(one) == len(other) and all(
        a is None or b is None or a == b for a, b in zip(one, other, strict=True)
    )


def _changes(inputs: Iterable[Any], input_shapes: Mapping[str, Sequence[int | None]]) -> bool:
    """Return whether an input has other dimensions than the model states."""
    for entry in inputs:
        tensor = entry.type.tensor_type
        stated = tuple(map(extent, tensor.shape.dim))
        if tensor.HasField("shape") and not _agree(stated, tuple(input_shapes.get(entry.name, stated))):
            return True
    return False


def _oddity(kind: Any) -> str:
    """Return the kind of a ``TypeProto`` that a DLC cannot store, or ""."""
    if not kind.HasField("tensor_type"):
        return f"a {str(kind.WhichOneof('value')).removesuffix('_type').replace('_', ' ')}"
    data_type = kind.tensor_type.elem_type
    if data_type == protobuf.STRING:
        return "strings"
    try:
        _dtype(data_type)
    except (KeyError, TypeError):
        return f"data type {data_type}"
    return ""


def _dtype(data_type: int) -> ir.DType | None:
    return None if data_type == _UNDEFINED else ir.dtype.from_numpy(protobuf.numpy_dtype(data_type))


def _symbols(
    inputs: Iterable[Any], input_shapes: Mapping[str, Sequence[int | None]]
) -> dict[str, int | None]:
    """Return the symbols of the inputs' dimensions that have one size in all of them."""
    sizes: dict[str, int | None] = {}
    for entry in inputs:
        dims = entry.type.tensor_type.shape.dim
        shape: Dims = tuple(input_shapes.get(entry.name, ()))
        for dim, size in zip(dims, shape, strict=False):
            if dim.dim_param and sizes.setdefault(dim.dim_param, size) != size:
                sizes[dim.dim_param] = None
    return sizes


def _fix(graph: Any, name: str, array: Array) -> None:
    """Make a stored tensor of an input of a ``GraphProto``."""
    entry = next(entry for entry in graph.input if entry.name == name)
    for tensor in [tensor for tensor in graph.initializer if tensor.name == name]:
        graph.initializer.remove(tensor)
    tensor = graph.initializer.add(name=name, data_type=entry.type.tensor_type.elem_type, dims=array.shape)
    tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    graph.input.remove(entry)
