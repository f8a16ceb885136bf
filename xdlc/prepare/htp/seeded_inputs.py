"""Seeded inputs of a graph, which depend on names and shapes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from zlib import crc32

from xdlc.errors import UsageError
from xdlc.ir import Graph, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.traits import traits

_FLOATS = 3.0
"""Largest seeded number of a float input."""
_MOST = 1 << 27
"""Most values of all inputs."""


class NoInputError(UsageError):
    """Inputs that cannot be made, or a network that cannot be verified."""


def seeded(graph: Graph, states: Mapping[str, object] = {}) -> dict[str, Array]:
    """Return inputs of a graph that depend on names and shapes alone.

    Raises:
        NoInputError: If an input has dynamic dimensions, or the inputs are too large.
    """
    import numpy as np

    count = sum(tensor.size for tensor in graph.inputs)
    if count > _MOST:
        raise NoInputError(f"its inputs have {count:,} values, more than {_MOST:,}")
    feeds: dict[str, Array] = {}
    for tensor in graph.inputs:
        if tensor.name in states:
            continue
        if tensor.dynamic_axes:
            raise NoInputError(f"input {tensor.name!r} has dynamic dimensions")
        rng = np.random.default_rng(crc32(tensor.name.encode()))
        if isinstance(tensor.encoding, ScaleOffset) and tensor.dtype.is_fixed:
            scale, bits = tensor.encoding.scale, 8 * tensor.dtype.numpy.itemsize
            first = -(1 << bits - 1) if tensor.dtype.numpy.kind == "i" else 0
            low, high = ((first + add + tensor.encoding.offset) * scale for add in (0, (1 << bits) - 1))
            values = rng.normal((low + high) / 2, (high - low) / 6, tensor.shape)
            feeds[tensor.name] = np.clip(values, low, high).astype(np.float32)
        elif tensor.dtype.is_float:
            values = np.clip(rng.standard_normal(tensor.shape), -_FLOATS, _FLOATS)
            feeds[tensor.name] = values.astype(np.float32).astype(tensor.dtype.numpy)
        else:
            most = min(_bounds(graph, tensor), default=2)
            feeds[tensor.name] = rng.integers(0, max(most, 1), tensor.shape).astype(tensor.dtype.numpy)
    return feeds


def _bounds(graph: Graph, tensor: Tensor) -> Iterator[int]:
    """Yield how many entries each table has that integers are indices of."""
    reached, waiting = {tensor}, [tensor]
    while waiting:
        source = waiting.pop()
        for op in graph.consumers(source):
            table = op.inputs[0]
            if traits(op).selects and len(op.inputs) > 1 and op.inputs[1] is source and table is not None:
                if op.type == "Gather":
                    yield table.shape[int(op.param("axis", 0))]
                else:
                    yield min(table.shape, default=1)
            elif traits(op).copies or op.type == "Cast":
                waiting += [result for result in op.outputs if result not in reached]
                reached.update(op.outputs)
