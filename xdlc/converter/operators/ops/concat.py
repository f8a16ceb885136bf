"""Concat and Split."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Concat", since=4, layout=ANY)
def concat(node: Node, b: Builder) -> Value:
    """Join values along an axis, in the axis order that most of them have."""
    values = [
        value for value in (node.input(index) for index in range(len(node.inputs))) if value is not None
    ]
    if len({value.rank for value in values}) > 1 and not node.is_applied:
        raise node.invalid(f"values of {' and '.join(str(value.rank) for value in values[:4])} axes")
    values = [value for value in values if value.size] or values[:1]
    first = values[0]
    axis = node.axis(node.attr("axis"), first.rank)
    weights: dict[tuple[int, ...], int] = {}
    for value in values:
        if not value.is_static:
            weights[value.order] = weights.get(value.order, 0) + value.tensor.nbytes
    order = max(weights, key=lambda key: (weights[key], key != tuple(range(first.rank))), default=first.order)
    tensors = [
        b.to_layout(value, order, why=f"{node.name} joins values of different axis order") for value in values
    ]
    if len(tensors) == 1:
        return values[0]
    shape = list(tensors[0].shape)
    lying = order.index(axis)
    shape[lying] = sum(tensor.shape[lying] for tensor in tensors)
    out = b.emit(
        "Concat", tensors, shape, first.dtype, {"axis": ir.u32(lying)}, encoding=first.tensor.encoding
    )
    return Value(out, order)


@importer("Split", since=2, layout=ANY)
def split(node: Node, b: Builder) -> list[Value]:
    """Cut a value along an axis."""
    value = node.required(0)
    axis = node.axis(node.attr("axis", 0), value.rank)
    dim, count = value.shape[axis], len(node.outputs)
    sizes = node.ints(1, "split", "the sizes")
    if sizes is None:
        if node.attr("num_outputs", count) != count:
            raise node.invalid(f"num_outputs does not fit its {count} outputs")
        step = -(-dim // count)
        sizes = [min(step, dim - step * index) for index in range(count)]
    if sum(sizes) != dim or any(size < 0 for size in sizes) or len(sizes) != len(node.outputs):
        raise node.problem(f"sizes {sizes} do not cut {dim} elements into {len(node.outputs)} outputs")
    full = [size for size in sizes if size]
    made = iter(_parts(b, value, axis, full))
    empty = (*value.shape[:axis], 0, *value.shape[axis + 1 :])
    return [
        next(made) if size else b.const(np.zeros(empty, value.dtype.numpy), name)
        for size, name in zip(sizes, node.outputs, strict=True)
    ]


def _parts(b: Builder, value: Value, axis: int, sizes: list[int]) -> list[Value]:
    """Append a Split into non-empty parts of the given sizes."""
    if len(sizes) < 2:
        return [value] * len(sizes)
    lying = value.axis(axis)
    params: dict[str, ir.Param] = {
        "axis": ir.u32(lying),
        "split_index": ir.static("", np.cumsum(sizes[:-1]).astype(np.uint32)),
    }
    outputs = [
        (
            [size if position == lying else held for position, held in enumerate(value.tensor.shape)],
            value.dtype,
        )
        for size in sizes
    ]
    made = b.emit_many(
        "Split", [value.tensor], outputs, params, encodings=[value.tensor.encoding] * len(sizes)
    )
    return [Value(tensor, value.order) for tensor in made]
