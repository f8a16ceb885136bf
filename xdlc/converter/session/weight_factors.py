"""Factors by which a conversion has multiplied the weights of the source, per output channel."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from xdlc.ir import Graph, MappedData, Repeated, TensorData, Transform
from xdlc.ir.data import Array, Reshaped
from xdlc.opdefs.traits import traits


def weight_factors(graph: Graph, sources: Mapping[str, TensorData]) -> dict[str, list[str]]:
    """Return the factors of weights and biases whose values are not those of the source.

    No weight is read: each step between the source and the graph states its own factors.

    Args:
        graph: The graph after the passes.
        sources: Static values of the source by name.

    Returns:
        By name the factors as little-endian float32 in base64; the text is empty if the values were changed
        in another way.  ``reordered`` follows for a matrix whose inputs have another order.
    """
    records: dict[str, list[str]] = {}
    for name, source in sources.items():
        tensor = graph.tensors.get(name)
        readers = graph.consumers(tensor) if tensor is not None else ()
        if tensor is None or tensor.data is None or not readers:
            continue
        rule, place = traits(readers[0]), readers[0].inputs.index(tensor)
        if place not in (rule.weight, rule.bias, rule.scale):
            continue
        axis = rule.channel_axis if place == rule.weight else None
        factors, rank = _lineage(tensor.data, source, 1 if axis is None else tensor.shape[axis])
        notes = ["reordered"] if axis is not None and tensor.rank == 2 < rank else []
        if factors is None or notes or (factors != 1.0).any():
            text = "" if factors is None else base64.b64encode(factors).decode()
            records[name] = [text, *notes]
    return records


def _lineage(data: TensorData, source: TensorData, channels: int) -> tuple[Array | None, int]:
    """Return the factors that lead from a source to data, None for other steps, and the most axes between."""
    import numpy

    factors, rank = numpy.ones(channels), 0
    while isinstance(source, Repeated):
        source = source.base
    while data is not source and not _is_same_place(data, source):
        rank = max(rank, len(data.shape))
        if isinstance(data, Reshaped | Repeated):
            data = data.base
        elif isinstance(data, Transform) and data.factors is not None:
            step = data.factors.numpy() if isinstance(data.factors, TensorData) else numpy.array(data.factors)
            if step.size not in (1, channels) or not numpy.isfinite(step).all():
                return None, rank
            factors = factors * step.reshape(-1)
            data = data.bases[0]
        else:
            return None, rank
    return factors.astype("<f4"), rank


def _is_same_place(data: TensorData, source: TensorData) -> bool:
    if not (isinstance(data, MappedData) and isinstance(source, MappedData)):
        return False
    return data.location == source.location and data.nbytes == source.nbytes
