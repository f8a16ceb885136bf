"""MaxUnpool."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import scattered
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value


@importer("MaxUnpool", since=9)
def max_unpool(node: Node, b: Builder) -> Value:
    """Map onto one ScatterElements; a larger output_shape pads with zeros at the ends."""
    x, indices = node.required(0), node.required(1)
    kernel = node.attr("kernel_shape") or []
    axes = x.rank - 2
    strides, pads = node.attr("strides", [1] * axes), node.attr("pads", [0] * (2 * axes))
    if not len(kernel) == len(strides) == len(pads) / 2 == axes or indices.shape != x.shape:
        raise node.invalid("its kernel, strides, pads or indices do not fit its input")
    made = [
        (dim - 1) * strides[axis] - pads[axis] - pads[axis + axes] + kernel[axis]
        for axis, dim in enumerate(x.shape[2:])
    ]
    shape = (*x.shape[:2], *made)
    b.check_table(*shape)
    size = int(np.prod(shape))
    if indices.is_static and indices.size and not 0 <= indices.numpy().min() <= indices.numpy().max() < size:
        raise node.invalid(f"an index is not one of {size} elements")
    nothing = b.const(np.zeros(size, x.dtype.numpy), f"{b.stem}_zeros")
    flat = scattered(b, nothing, b.reshape(indices, (x.size,)), b.reshape(x, (x.size,)), 0)
    result = b.reshape(flat, shape)
    padded_shape = _output_shape(node)
    if padded_shape is None or tuple(padded_shape) == shape:
        return result
    amounts = [[0, padded_dim - dim] for padded_dim, dim in zip(padded_shape, shape, strict=True)]
    if min(after for _, after in amounts) < 0:
        raise node.invalid(f"output_shape {padded_shape} is smaller than {list(shape)}")
    params: dict[str, ir.Param] = {
        "scheme": ir.u32(0),
        "pad_amount": ir.u32s(amounts),
        "pad_constant_value": ir.f32(0.0),
    }
    out = b.emit("Pad", [b.source_order(result)], tuple(padded_shape), x.dtype, params)
    return Value(out, tuple(range(x.rank)))


def _output_shape(node: Node) -> list[int] | None:
    given = node.static(2, "output_shape")
    return None if given is None else [int(dim) for dim in given.reshape(-1)]
