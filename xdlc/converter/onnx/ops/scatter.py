"""ScatterElements and ScatterND."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops.gather import index_value
from xdlc.converter.onnx.registry import Node, importer
from xdlc.converter.values import Value, identity
from xdlc.ir.dtype import INT32

_REDUCTIONS = {"none": 0, "add": 1, "mul": 2, "max": 3}


def _reduction(node: Node) -> ir.Scalar:
    name = node.attr("reduction", "none")
    if name not in _REDUCTIONS:
        raise node.problem(f"reduction {name!r}; QNN has {', '.join(_REDUCTIONS)}")
    return ir.u32(_REDUCTIONS[name])


@importer("ScatterElements", since=11)
@importer("Scatter", since=9)
def scatter_elements(node: Node, b: Builder) -> Value:
    """Map onto ScatterElements."""
    x, indices, updates = (node.required(index) for index in range(3))
    axis = node.attr("axis", 0) % x.rank
    positions = index_value(node, b, indices, x.shape[axis])
    inputs = [b.source_order(x), b.source_order(positions), b.source_order(updates)]
    params = {"axis": ir.u32(axis), "reduction": _reduction(node)}
    return Value(b.emit("ScatterElements", inputs, x.shape, x.dtype, params), identity(x.rank))


@importer("ScatterND", since=11)
def scatter_nd(node: Node, b: Builder) -> Value:
    """Map onto ScatterNd."""
    x, indices, updates = (node.required(index) for index in range(3))
    if indices.is_static and indices.numpy().min(initial=0) < 0:
        raise node.problem("negative indices", "use indices counted from the start")
    inputs = [b.source_order(x), b.source_order(b.cast(indices, INT32)), b.source_order(updates)]
    params = {"reduction": _reduction(node)}
    return Value(b.emit("ScatterNd", inputs, x.shape, x.dtype, params), identity(x.rank))
