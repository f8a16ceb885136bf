"""Dimensions, numbers, shapes and arguments of handlers of ATen's operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.shapes import dims, permuted, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value, broadcast
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.dtype import INT32, INT64

Size = int | Value
"""A dimension or position: a number, or a computed integer of rank 0 or 1."""
ALL = (1 << 63) - 1
"""End of a slice of all elements that follow."""


def contradiction(problem: str) -> ModelError:
    """Return the error for a node whose shapes do not fit."""
    return ModelError(problem, fix=CONTRADICTION)


def axis_of(node: AtenNode, axis: int, rank: int) -> int:
    """Return an axis counted from the front; a scalar has one."""
    return node.axis(axis, max(rank, 1))


def axes_of(node: AtenNode, axes: Sequence[int] | int, rank: int) -> list[int]:
    """Return axes counted from the front, in their order; an empty list is empty.

    Raises:
        ModelError: If there is no such axis, or one repeats.
    """
    found = [axis_of(node, axis, rank) for axis in ([axes] if isinstance(axes, int) else axes)]
    if len(set(found)) != len(found):
        raise node.invalid(f"axes {found} repeat an axis")
    return found


def known(size: Size) -> Size:
    """Return a computed integer as a number if it is constant."""
    if isinstance(size, Value) and size.is_static and size.size == 1:
        return int(size.numpy().reshape(-1)[0])
    return size


def numbers(sizes: Sequence[Size]) -> list[int] | None:
    """Return integers as numbers; None if any is computed."""
    found = [size for size in map(known, sizes) if not isinstance(size, Value)]
    return found if len(found) == len(sizes) else None


def size_of(x: Value, axis: int) -> int | None:
    """Return the number of elements along an axis; None if it is open."""
    return None if x.dims is None else x.dims[axis]


def sizes_of(g: Operators, x: Value) -> list[Size]:
    """Return the dimensions of a value; open ones are computed.

    Raises:
        UnsupportedOp: If its rank is open.
    """
    found = enumerate(x.dims if x.dims is not None else dims(x))
    return [g("Shape", [x], start=axis, end=axis + 1) if size is None else size for axis, size in found]


def replaced(sizes: Sequence[Size], axis: int, *others: Size, count: int = 1) -> list[Size]:
    """Return dimensions with ``count`` of them from an axis on replaced."""
    return [*sizes[:axis], *others, *sizes[axis + count :]]


def places(g: Operators, *indices: Value, of: Sequence[Value] = ()) -> list[Value]:
    """Return positions in the canonical operators' type, or in int32 without host ops.

    HTP has no int64; what else is done to positions before an operator takes them is done in int32 then.

    Args:
        *indices: Integers.
        of: Other values that the operator reads.
    """
    is_open = any(value.is_dynamic for value in (*indices, *of))
    is_known = all(value.is_static for value in indices)
    return [g.builder.cast(index, INT64 if is_open or is_known else INT32) for index in indices]


def number(g: Operators, size: Size) -> Value:
    """Return an integer as a value of rank 0, int64."""
    if isinstance(size, Value):
        return reshape(g, positions(g, size), ()) if size.rank else positions(g, size)
    return g.builder.const(np.asarray(size, np.int64))


def vector_of(g: Operators, sizes: Sequence[Size]) -> Value:
    """Return integers as a value of rank 1, int64."""
    found = numbers(sizes)
    if found is not None:
        return vector(g, found)
    rows = [
        vector(g, [size]) if not isinstance(size, Value) else rank_one(g, positions(g, size))
        for size in map(known, sizes)
    ]
    return rows[0] if len(rows) == 1 else g("Concat", rows, axis=0)


def product(g: Operators, sizes: Sequence[Size]) -> Size:
    """Return the product of dimensions."""
    whole: Size = math.prod(size for size in sizes if not isinstance(size, Value))
    for size in sizes:
        if isinstance(size, Value):
            factor = number(g, size)
            whole = factor if isinstance(whole, int) and whole == 1 else g("Mul", [number(g, whole), factor])
    return whole


def reshaped(g: Operators, x: Value, sizes: Sequence[Size]) -> Value:
    """Return a value reshaped; a dimension of -1 is inferred.

    Raises:
        ModelError: If it has another number of elements.
    """
    shape = numbers(sizes)
    if shape is not None and not x.is_dynamic:
        if shape.count(-1) == 1:
            others = math.prod(size for size in shape if size != -1)
            shape[shape.index(-1)] = x.size // others if others else 0
        if math.prod(shape) != x.size or min(shape, default=0) < 0:
            raise contradiction(
                f"a tensor {list(x.shape)} cannot become {shape}: the number of elements differs"
            )
        return x if tuple(shape) == x.shape else reshape(g, x, shape)
    wanted = [known(size) for size in sizes]
    computed = [place for place, size in enumerate(wanted) if isinstance(size, Value)]
    if len(computed) == 1 and not any(size in (-1, 0) for size in wanted if not isinstance(size, Value)):
        wanted[computed[0]] = -1
    return g("Reshape", [x, vector_of(g, wanted)], allowzero=1)


def flat(g: Operators, x: Value) -> Value:
    """Return a value reshaped to one axis."""
    return reshaped(g, x, [-1])


def flat_or_along(node: AtenNode, g: Operators, x: Value, dim: int | None) -> tuple[Value, int]:
    """Return a value of rank 1 or more, flattened if ``dim`` is None, and the axis."""
    return (flat(g, x), 0) if dim is None else (rank_one(g, x), axis_of(node, dim, x.rank))


def expanded(g: Operators, x: Value, sizes: Sequence[Size]) -> Value:
    """Return a value broadcast along axes of size 1; a size of -1 keeps an axis.

    Raises:
        ModelError: If the dimensions do not broadcast.
    """
    if len(sizes) < x.rank:
        raise contradiction(f"a tensor {list(x.shape)} has more than {len(sizes)} axes")
    wanted = [1 if not isinstance(size, Value) and size == -1 else size for size in map(known, sizes)]
    shape = numbers(wanted)
    if x.is_dynamic or shape is None:
        return g("Expand", [x, vector_of(g, wanted)])
    whole = (1,) * (len(shape) - x.rank) + x.shape
    target = [old if new == 1 else new for old, new in zip(whole, shape, strict=True)]
    if any(old not in (1, new) for old, new in zip(whole, target, strict=True)):
        raise contradiction(f"a tensor {list(x.shape)} does not broadcast to {shape}")
    if 0 in target:
        return empty(g, target, x.dtype)
    return x if tuple(target) == x.shape else g("Expand", [x, vector(g, target)])


def together(g: Operators, values: Sequence[Value]) -> list[Value]:
    """Return values broadcast to a common shape.

    Raises:
        ModelError: If they do not fit.
        UnsupportedOp: If a dimension is open.
    """
    shapes = [dims(value) for value in values]
    rank = max(map(len, shapes), default=0)
    whole = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    try:
        shape = [broadcast(sizes) for sizes in zip(*whole, strict=True)]
    except ValueError:
        raise contradiction(f"shapes {[list(shape) for shape in shapes]} do not broadcast") from None
    return [expanded(g, value, shape) for value in values]


def empty(g: Operators, shape: Sequence[int], dtype: DType) -> Value:
    """Return a constant without elements."""
    return g.builder.const(np.zeros(shape, dtype.numpy))


def is_empty(x: Value) -> bool:
    """Return whether a value is known to have no elements."""
    return x.dims is not None and 0 in x.dims


def rank_one(g: Operators, x: Value) -> Value:
    """Return a scalar with one axis; other values as is."""
    return x if x.rank else reshape(g, x, (1,))


def moved(g: Operators, x: Value, source: Sequence[int], place: Sequence[int]) -> Value:
    """Return a value with axes moved; the other axes keep their order."""
    at = dict(zip(place, source, strict=True))
    rest = (axis for axis in range(x.rank) if axis not in source)
    return permuted(g, x, [at[axis] if axis in at else next(rest) for axis in range(x.rank)])


def cut(g: Operators, x: Value, axis: int, start: Size, end: Size = ALL, step: int = 1) -> Value:
    """Return elements of an axis at regular steps; positions are clamped to the axis."""
    return g("Slice", [x, vector_of(g, [start]), vector_of(g, [end]), [axis], [step]])


def operand(node: AtenNode, g: Operators, value: Value | float) -> Value:
    """Return a tensor or a number in the data type that the node's result has."""
    if isinstance(value, Value):
        return g.builder.cast(value, node.dtype)
    return g.builder.const(np.asarray(value, node.dtype.numpy))


def spread(values: Sequence[int] | int, count: int) -> list[int]:
    """Return one number per spatial axis; a single number is repeated."""
    given = [values] if isinstance(values, int) else list(values)
    return given * count if len(given) == 1 else given


def batched(g: Operators, x: Value, rank: int) -> Value:
    """Return a value with a batch axis of 1 added if its rank is ``rank`` - 1."""
    return g("Unsqueeze", [x, [0]]) if x.rank == rank - 1 else x


def unbatched(g: Operators, result: Value, x: Value, rank: int | None = None) -> Value:
    """Return a result without its first axis where ``batched`` added that to ``x``.

    Args:
        x: The value before ``batched``.
        rank: Number of axes that ``x`` has then; default: one less than the result.
    """
    rank = result.rank - 1 if rank is None else rank
    return g("Squeeze", [result, [0]]) if x.rank == rank else result
