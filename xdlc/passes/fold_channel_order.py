"""Folding of an order of channels into the first layer, which reads the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.ir.data import Array
from xdlc.passes._first_layer import first_layer, take_over
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("merge_views",), op_types=("Gather",))
@dataclass(frozen=True, slots=True)
class FoldChannelOrder:
    """Fold a Gather of channels that a convolution reads into its weights; channels not read weigh zero."""

    name: str = "fold_channel_order"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [
            _fold(graph, op) for op in graph.ops if op.type == "Gather" and op.package == ir.NATIVE_PACKAGE
        ]
        return any(results)


def _fold(graph: Graph, op: Op) -> bool:
    source, places = op.inputs[0], op.inputs[1]
    if source is None or places is None or places.data is None or places.rank != 1 or source.is_static:
        return False
    found = first_layer(graph, op) if source.encoding is None else None
    if found is None:
        return False
    layer, views = found
    axis, last, weight = int(op.param("axis")), *layer.inputs[:2]
    for view in views:
        if view.type != "Transpose":
            return False
        axis = [int(entry) for entry in view.param("perm")].index(axis)
    if (
        weight is None
        or last is None
        or layer.type == "FullyConnected"
        or axis != last.rank - 1
        or weight.shape[-2] != last.shape[-1]
    ):
        return False
    indices, count = places.numpy().astype(numpy.int64), source.shape[int(op.param("axis"))]
    if any(not 0 <= index < count for index in indices):
        return False
    shape = (*weight.shape[:-2], count, weight.shape[-1])

    def moved(array: Array) -> Array:
        made = numpy.zeros(shape, array.dtype)
        for place, index in enumerate(indices):
            made[..., index, :] += array[..., place, :]
        return made

    held = source.shape
    for view in views:
        held = view.outputs[0].shape = tuple(held[int(entry)] for entry in view.param("perm"))
    take_over(graph, layer, op, shape, moved, None)
    return True
