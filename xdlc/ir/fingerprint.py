"""Fingerprint of a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from xdlc.ir.graph import Graph
from xdlc.ir.tensor import Tensor

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
