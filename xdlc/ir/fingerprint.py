"""Fingerprint of a graph, and differences between graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from xdlc.ir.data import Elided, TensorData
from xdlc.ir.graph import Graph, Op
from xdlc.ir.model import Model
from xdlc.ir.tensor import Param, Tensor

_SIZE = 16  # bytes


def fingerprint(graph: Graph) -> str:
    """Return a hexadecimal hash of all that decides the results of a graph.

    These are its ops in order with types, parameters and wiring, its tensors with shapes, types, encodings
    and data, and its inputs and outputs.  Names and origins of ops and the name of the
    graph do not count.
    """
    total = hashlib.blake2b(digest_size=_SIZE)

    def feed(text: str) -> None:
        encoded = text.encode()
        total.update(len(encoded).to_bytes(8, "little"))
        total.update(encoded)

    def feed_data(tensor: Tensor) -> None:
        import numpy

        if tensor.data is not None:
            array: Any = numpy.ascontiguousarray(tensor.data.numpy())
            total.update(array.nbytes.to_bytes(8, "little"))
            total.update(array.reshape(-1).view(numpy.uint8).data)
            tensor.data.release()

    for word in _structure(graph):
        feed(word)
    for tensor in sorted((tensor for tensor in graph.tensors.values() if tensor.is_static), key=_name):
        feed_data(tensor)
    for op in graph.ops:
        for _, param in sorted(op.params.items()):
            if isinstance(param, Tensor):
                feed_data(param)
    return total.hexdigest()


def _name(tensor: Tensor) -> str:
    return tensor.name


def _structure(graph: Graph) -> Iterator[str]:
    for side in (graph.inputs, graph.outputs):
        yield repr([tensor.name for tensor in side])
    for tensor in sorted(graph.tensors.values(), key=_name):
        yield repr((tensor.name, tensor.shape, tensor.dtype.name, tensor.encoding, tensor.dynamic_axes))
    for op in graph.ops:
        yield repr(
            (
                op.package,
                op.type,
                *([held and held.name for held in side] for side in (op.inputs, op.outputs)),
            )
        )
        for name, param in sorted(op.params.items()):
            held = (param.shape, param.dtype.name) if isinstance(param, Tensor) else param
            yield repr((name, held))


def differences(a: Model | Graph, b: Model | Graph, *, origin: bool = True) -> list[str]:
    """Return a line for each difference of two models or graphs.

    Compared are ops in order with their types, packages, parameters and wiring; tensors by name
    with shapes, types, roles, encodings and the bytes of their data; graph inputs and outputs in
    order; metadata and records.  The order of ``Graph.tensors`` does not count.

    Args:
        a: One side.
        b: The other side, of the same class.
        origin: Whether the origins of ops count.
    """
    if isinstance(a, Graph) and isinstance(b, Graph):
        return list(_graph(a, b, origin))
    if isinstance(a, Model) and isinstance(b, Model):
        return list(_model(a, b, origin))
    return [f"{type(a).__name__} against {type(b).__name__}"]


def _model(a: Model, b: Model, origin: bool) -> Iterator[str]:
    if list(a.graphs) != list(b.graphs):
        yield f"graphs: {list(a.graphs)} against {list(b.graphs)}"
    for name in a.graphs:
        if name in b.graphs:
            yield from _graph(a.graphs[name], b.graphs[name], origin)
    if a.metadata != b.metadata:
        keys = [key for key in a.metadata | b.metadata if a.metadata.get(key) != b.metadata.get(key)]
        yield f"metadata: {', '.join(map(repr, keys)) or 'keys'} differ"
    if list(a.records) != list(b.records):
        yield f"records: {list(a.records)} against {list(b.records)}"
    for name in a.records:
        if name in b.records and not _same_data(a.records[name], b.records[name]):
            yield f"record {name!r}: bytes differ"


def _graph(a: Graph, b: Graph, origin: bool) -> Iterator[str]:
    where = f"graph {a.name!r}"
    if a.name != b.name:
        yield f"{where}: name {a.name!r} against {b.name!r}"
    for what, these, those in (("inputs", a.inputs, b.inputs), ("outputs", a.outputs, b.outputs)):
        if _names(these) != _names(those):
            yield f"{where}: {what} {_names(these)} against {_names(those)}"
    for name in a.tensors | b.tensors:
        if name not in a.tensors or name not in b.tensors:
            yield f"{where}: tensor {name!r} only in the {'first' if name in a.tensors else 'second'}"
        else:
            yield from _tensor(f"{where}: tensor {name!r}", a.tensors[name], b.tensors[name])
    if len(a) != len(b):
        yield f"{where}: {len(a)} ops against {len(b)}"
    for mine, other in zip(a.ops, b.ops, strict=False):
        yield from _op(f"{where}: op {mine.name!r}", mine, other, origin)


def _op(where: str, a: Op, b: Op, origin: bool) -> Iterator[str]:
    pairs: list[tuple[str, object, object]] = [
        ("name", a.name, b.name),
        ("type", f"{a.package}.{a.type}", f"{b.package}.{b.type}"),
        ("inputs", _names(a.inputs), _names(b.inputs)),
        ("outputs", _names(a.outputs), _names(b.outputs)),
        ("parameters", sorted(a.params), sorted(b.params)),
    ]
    if origin:
        pairs.append(("origin", a.origin, b.origin))
    for what, mine, other in pairs:
        if mine != other:
            yield f"{where}: {what} {mine} against {other}"
    for key in a.params:
        if key in b.params:
            yield from _param(f"{where}: parameter {key!r}", a.params[key], b.params[key])


def _param(where: str, a: Param, b: Param) -> Iterator[str]:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.name != b.name:
            yield f"{where}: tensor name {a.name!r} against {b.name!r}"
        yield from _tensor(where, a, b)
    elif repr(a) != repr(b) and a != b:  # nan differs from itself, its repr does not
        yield f"{where}: {a} against {b}"


def _tensor(where: str, a: Tensor, b: Tensor) -> Iterator[str]:
    pairs: list[tuple[str, object, object]] = [
        ("shape", a.shape, b.shape),
        ("dtype", a.dtype, b.dtype),
        ("role", a.role.name, b.role.name),
        ("dynamic axes", a.dynamic_axes, b.dynamic_axes),
        ("data", a.data is not None, b.data is not None),
    ]
    for what, mine, other in pairs:
        if mine != other:
            yield f"{where}: {what} {mine} against {other}"
    if a.encoding != b.encoding and repr(a.encoding) != repr(b.encoding):
        yield f"{where}: encoding {_short(a.encoding)} against {_short(b.encoding)}"
    if a.data is not None and b.data is not None and not _same_data(a.data, b.data):
        yield f"{where}: data differs"


def _names(tensors: list[Tensor] | tuple[Tensor | None, ...]) -> list[str | None]:
    return [None if tensor is None else tensor.name for tensor in tensors]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _same_data(a: TensorData, b: TensorData) -> bool:
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if isinstance(a, Elided) or isinstance(b, Elided):
        return isinstance(a, Elided) and isinstance(b, Elided) and a.digest == b.digest
    import numpy

    mine, other = (numpy.ascontiguousarray(data.numpy()).reshape(-1).view(numpy.uint8) for data in (a, b))
    same = bool(numpy.array_equal(mine, other))
    a.release()
    b.release()
    return same
