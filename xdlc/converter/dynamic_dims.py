"""Inference of dynamic dimensions that depend on others, over the whole graph.

A node is imported with what shape inference finds for it alone and of the model that it is in; inference
follows computed shapes in the present versions of the operators only, and models are often older.
What has been imported is in one present version, so that inference finds more in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc import ir
from xdlc.errors import XdlcError
from xdlc.runtime.onnx_evaluator import RefusedError, infer_shapes


def resolve(model: ir.Model) -> None:
    """Set the dynamic dimensions of the main graph that follow from others.

    Dimensions that are stated stay as they are.
    """
    graph = model.main
    if not any(tensor.dynamic_axes for tensor in graph.tensors.values()):
        return
    while _resolve_some(model, graph):
        pass


def _resolve_some(model: ir.Model, graph: ir.Graph) -> bool:
    inferred, has_resolved = _inferred(model, graph), False
    for tensor, shape in inferred:
        open_axes = tuple(axis for axis in tensor.dynamic_axes if shape[axis] is None)
        if open_axes != tensor.dynamic_axes:
            has_resolved = True
            tensor.dynamic_axes = open_axes
            tensor.shape = tuple(
                have if extent is None else extent for have, extent in zip(tensor.shape, shape, strict=True)
            )
    return has_resolved


Found = tuple[ir.Tensor, Sequence[int | None]]


def _inferred(model: ir.Model, graph: ir.Graph) -> list[Found]:
    """Return inferred shapes of computed tensors with dynamic dimensions."""
    from xdlc.runtime.export.naming import describe
    from xdlc.runtime.lower import lower

    try:
        lowered = lower(graph, graphs=model.graphs, native=True)
    except XdlcError:
        return []  # what the host does not run stays as it is
    proto = lowered.proto
    describe(lowered, proto, {})
    try:
        inference = infer_shapes(proto)
    except RefusedError:
        return []
    shapes = {
        entry.name: entry.type.tensor_type for entry in (*inference.graph.value_info, *inference.graph.output)
    }
    resolved: list[Found] = []
    for tensor in graph.tensors.values():
        name, order = lowered.form(tensor)
        kind = shapes.get(name)
        if tensor.dynamic_axes and tensor.producer is not None and kind is not None:
            shape = _in_order(kind, order)
            if shape is not None and not _contradicts(tensor, shape):
                resolved.append((tensor, shape))
    return resolved


def _in_order(kind: Any, order: Sequence[int]) -> list[int | None] | None:
    """Return the dimensions of an ONNX value in the axis order of its tensor."""
    if not kind.HasField("shape") or len(kind.shape.dim) != len(order):
        return None
    shape: list[int | None] = [None] * len(order)
    for axis, dim in zip(order, kind.shape.dim, strict=True):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape[axis] = int(dim.dim_value)
    return shape


def _contradicts(tensor: ir.Tensor, shape: Sequence[int | None]) -> bool:
    """Return whether a stated dimension is another."""
    return any(
        extent is not None and axis not in tensor.dynamic_axes and extent != tensor.shape[axis]
        for axis, extent in enumerate(shape)
    )
