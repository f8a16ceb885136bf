"""Operators that only look at the same elements in another way."""

from __future__ import annotations

import math

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value


@importer("Transpose")
def transpose(node: Node, b: Builder) -> Value:
    """Permute the layout only; move elements where the node belongs to an op."""
    value = node.required(0)
    perm = [int(axis) for axis in node.attr("perm", range(value.rank)[::-1])]
    if sorted(perm) != list(range(value.rank)):
        raise node.invalid(f"perm {perm} does not fit rank {value.rank}")
    if b.noted is not None and not value.is_static:
        return b.moved(value, perm, f"{node.name} moves the elements here")
    return b.transpose(value, perm)


@importer("Reshape", since=5)
def reshape(node: Node, b: Builder) -> Value:
    """Reshape; 0 keeps a dimension (unless allowzero), -1 is worked out."""
    value = node.required(0)
    dims = node.required_ints(1, "shape", "the sizes")
    if not node.flag("allowzero"):
        dims = [value.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    if -1 in dims:
        product = math.prod(dim for dim in dims if dim != -1)
        dims[dims.index(-1)] = value.size // product if product else 0
    if math.prod(dims) != value.size or any(dim < 0 for dim in dims):
        raise node.problem(f"{list(value.shape)} cannot become {dims}: the number of elements differs")
    return b.reshape(value, dims)


@importer("Flatten")
def flatten(node: Node, b: Builder) -> Value:
    """Reshape to two axes, cut at ``axis``."""
    value = node.required(0)
    axis = node.attr("axis", 1)
    if not -value.rank <= axis <= value.rank:
        raise node.invalid(f"axis {axis} does not fit rank {value.rank}")
    axis += value.rank if axis < 0 else 0
    head = math.prod(value.shape[:axis])
    return b.reshape(value, (head, math.prod(value.shape[axis:])))


@importer("Squeeze")
def squeeze(node: Node, b: Builder) -> Value:
    """Drop axes of size 1."""
    value = node.required(0)
    axes = node.ints(1, "axes", "the axes")
    if axes is None:
        dropped = {axis for axis, dim in enumerate(value.shape) if dim == 1}
    else:
        dropped = {axis + value.rank if axis < 0 else axis for axis in axes}
    if any(not 0 <= axis < value.rank or value.shape[axis] != 1 for axis in dropped):
        raise node.problem(f"axes {sorted(dropped)} of {list(value.shape)} are not all of size 1")
    return b.reshape(value, [dim for axis, dim in enumerate(value.shape) if axis not in dropped])


@importer("Unsqueeze")
def unsqueeze(node: Node, b: Builder) -> Value:
    """Insert axes of size 1."""
    value = node.required(0)
    axes = node.required_ints(1, "axes", "the axes")
    rank = value.rank + len(axes)
    inserted = {axis + rank if axis < 0 else axis for axis in axes}
    if len(inserted) != len(axes) or any(not 0 <= axis < rank for axis in inserted):
        raise node.problem(f"axes {axes} do not fit rank {value.rank}")
    dims = iter(value.shape)
    return b.reshape(value, [1 if axis in inserted else next(dims) for axis in range(rank)])
