"""TopK."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64


@importer("TopK")
def top_k(node: Node, b: Builder) -> list[Value]:
    """Map onto TopK along the last axis; its int32 indices are cast to int64."""
    x = node.required(0)
    (k,) = node.ints(1, "k", "k") or [0]
    axis = node.axis(node.attr("axis", -1), x.rank)
    node.flag("sorted", 1)  # QNN's result is sorted always
    if not 0 < k <= x.shape[axis]:
        raise node.problem(f"k = {k} of {x.shape[axis]} elements")
    order = (*(held for held in x.order if held != axis), axis)
    tensor = b.to_layout(x, order, why=f"{node.name} works along the last axis")
    shape = (*tensor.shape[:-1], k)
    params = {"k": ir.u32(k), "largest": ir.b8(node.flag("largest", 1))}
    values, indices = b.emit_many("TopK", [tensor], [(shape, x.dtype), (shape, INT32)], params)
    return [Value(values, order), b.cast(Value(indices, order), INT64)]
