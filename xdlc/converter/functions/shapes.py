"""Dimensions, constants and types of values for channel-last handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import bind_dims
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import DType
from xdlc.ir.data import Array, ArrayData
from xdlc.ir.dtype import INT64


def dims(x: Value, axes: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return dimensions that must be known while converting.

    Args:
        axes: Axes whose sizes are wanted, negative from the end; default: all.

    Raises:
        UnsupportedOp: If one of them is only known when the graph runs.
    """
    known = x.dims
    wanted = [] if known is None else [known[axis] for axis in (range(x.rank) if axes is None else axes)]
    found = tuple(size for size in wanted if size is not None)
    if known is None or len(found) != len(wanted):
        raise UnsupportedOp(f"the shape of {x.tensor.name!r} must be static", fix=bind_dims(), code="XD403")
    return found


def known(x: Value, what: str) -> Array:
    """Return the elements of a value that must be constant.

    Args:
        what: What it is, in words, for the message.

    Raises:
        UnsupportedOp: If it is computed when the graph runs.
    """
    if not x.is_static:
        raise UnsupportedOp(
            f"{what} ({x.tensor.name!r}) must be constant, but is computed",
            fix=f"make it a constant, or {bind_dims()}",
            code="XD404",
        )
    return x.numpy()


def ints(x: Value, what: str) -> list[int]:
    """Return a constant's elements as integers; a scalar as a list of length 1."""
    return [int(item) for item in known(x, what).reshape(-1)]


def number(g: Operators, like: Value, value: float) -> Value:
    """Return a constant of rank 0 of the type of ``like``."""
    return g.builder.const(np.asarray(value, like.dtype.numpy))


def vector(g: Operators, values: Sequence[int] | Array) -> Value:
    """Return constant int64 integers, like shapes, axes and positions.

    Raises:
        UnsupportedOp: If there are too many.
    """
    if isinstance(values, range):
        check_table(len(values))
    return g.builder.const(np.asarray(values, np.int64).reshape(-1))


def cast(g: Operators, x: Value, dtype: DType) -> Value:
    """Return a value converted to another type: floats are cut towards 0, as in C."""
    return g.builder.cast(x, dtype)


def positions(g: Operators, x: Value) -> Value:
    """Return integers as int64, as canonical operators require."""
    return g.builder.cast(x, INT64)


def reshape(g: Operators, x: Value, shape: Sequence[int]) -> Value:
    """Return a value under another shape, without -1 and 0 as marks."""
    return g("Reshape", [x, vector(g, shape)], allowzero=1)


def permuted(g: Operators, x: Value, perm: Sequence[int]) -> Value:
    """Return a value whose axis i is axis ``perm[i]``; costs no operation."""
    return x if list(perm) == list(range(x.rank)) else g.transpose(x, perm)


def channel_first(g: Operators, x: Value) -> Value:
    """Return [N, spatial..., C] as [N, C, spatial...]."""
    return permuted(g, x, (0, x.rank - 1, *range(1, x.rank - 1)))


def channel_last(g: Operators, x: Value) -> Value:
    """Return [N, C, spatial...] as [N, spatial..., C]."""
    return permuted(g, x, (0, *range(2, x.rank), 1))


def in_channel_last(
    is_channel_first: bool, g: Operators, x: Value, function: Callable[[Value], Value]
) -> Value:
    """Apply a channel-last function; return the result in the layout of the value."""
    return channel_first(g, function(channel_last(g, x))) if is_channel_first else function(x)


def transposed(g: Operators, x: Value, perm: Value) -> Value:
    """Return a value with its axes in a constant order."""
    return permuted(g, x, [axis_of(axis, x.rank) for axis in ints(perm, "the permutation")])


def with_axes(g: Operators, x: Value, axes: Value) -> Value:
    """Return a value with further axes of size 1 at constant places."""
    return g("Unsqueeze", [x, ints(axes, "the axis")])


def filled(g: Operators, shape: Value, value: Value) -> Value:
    """Return one element in all places of a shape."""
    if value.is_static:
        return g("ConstantOfShape", [positions(g, shape)], value=ArrayData(value.numpy().reshape(1)))
    return broadcast_to(g, value, shape)


def broadcast_to(g: Operators, x: Value, shape: Value) -> Value:
    """Return a value broadcast to a computed shape."""
    return g("Expand", [x, positions(g, shape)])


def tiled(g: Operators, x: Value, repeats: Value) -> Value:
    """Return a value repeated along each axis."""
    return g("Tile", [x, positions(g, repeats)]) if x.rank else x


def broadcast_shape(g: Operators, first: Value, second: Value) -> Value:
    """Return the shape, constant if both are, to which values of two shapes broadcast.

    Raises:
        ModelError: If they are known and do not.
        UnsupportedOp: If a rank is open.
    """
    if first.is_static and second.is_static:
        given = [tuple(ints(shape, "a shape")) for shape in (first, second)]
        try:
            return g.builder.const(np.asarray(np.broadcast_shapes(*given), first.dtype.numpy))
        except (ValueError, RuntimeError):  # the latter for more than 32 dimensions
            raise ModelError(f"shapes {given} do not broadcast", fix="correct the model") from None
    rank = max(dims(first)[0], dims(second)[0])
    one = number(g, first, 1)
    first, second = (x if x.size == rank else g("Pad", [x, [rank - x.size, 0], one]) for x in (first, second))
    return g("Where", [g("Equal", [first, one]), second, first])


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        UnsupportedOp: If there is no such axis.
    """
    if not -rank <= axis < rank:
        raise UnsupportedOp(f"axis {axis} does not fit an input of rank {rank}", fix="correct the model")
    return axis % rank
