"""Handlers of differences of neighbours, and of integrals and derivatives made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import dims, number, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import axes_of, empty
from xdlc.converter.pytorch.ops.joining import joined
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_ALL = (1 << 63) - 1
_MOST = 64
"""Most times that differences are taken."""


def _steps(g: Operators, x: Value, axis: int) -> Value:
    """Return what each element is more than the one before, of truth values whether it is another."""
    later, earlier = cut(g, x, axis, 1, _ALL), cut(g, x, axis, 0, -1)
    if x.dtype is BOOL8:
        return g("Xor", [later, earlier])
    return g("Sub", [later, earlier])


@aten("diff")
def _diff(
    node: AtenNode, g: Operators, self: Value, n: int, dim: int, prepend: Value | None, append: Value | None
) -> Value:
    axis = node.axis(dim, self.rank)
    parts = [value for value in (prepend, self, append) if value is not None]
    x = joined(node, g, parts, axis) if len(parts) > 1 else self
    if not 0 <= n <= _MOST:
        raise node.problem(f"differences taken {n} times", f"take them at most {_MOST} times")
    size = x.dims[axis] if x.dims is not None else None
    if n and size is not None and size <= n:
        return empty(g, [0 if at == axis else each for at, each in enumerate(dims(x))], x.dtype)
    for _ in range(n):
        x = _steps(g, x, axis)
    return x


# ------------------------------------------------------------------ integrals


def _areas(node: AtenNode, g: Operators, y: Value, x: Value | float, axis: int) -> Value:
    """Return the areas between neighbours, by trapezoids, at places or at one distance."""
    y = g.builder.cast(y, node.dtype)
    both = g("Add", [cut(g, y, axis, 1, _ALL), cut(g, y, axis, 0, -1)])
    if not isinstance(x, Value):
        return g("Mul", [both, number(g, both, x / 2)])
    x = g.builder.cast(x, node.dtype)
    if x.rank == 1:
        x = reshape(g, x, _along(x, axis, y))
    elif x.rank < y.rank:
        x = reshape(g, x, [*([1] * (y.rank - x.rank)), *dims(x)])
    widths = _steps(g, x, axis) if x.shape[axis] > 1 else x
    return g("Mul", [g("Mul", [both, widths]), number(g, both, 0.5)])


def _along(x: Value, axis: int, like: Value) -> list[int]:
    return [x.size if at == axis else 1 for at in range(like.rank)]


@aten("trapezoid.x", "trapz.x", "cumulative_trapezoid.x")
def _integral(node: AtenNode, g: Operators, y: Value, x: Value | float, dim: int) -> Value:
    axis = node.axis(dim, y.rank)
    is_sum = not node.type.startswith("cumulative")
    shape = dims(y)
    if shape[axis] < 2:
        rest = [size for at, size in enumerate(shape) if at != axis]
        if is_sum:
            return g.builder.const(np.zeros(rest, node.dtype.numpy))
        return empty(g, [0 if at == axis else size for at, size in enumerate(shape)], node.dtype)
    areas = _areas(node, g, y, x, axis)
    if is_sum:
        return g("ReduceSum", [areas, vector(g, [axis])], keepdims=0)
    return g("CumSum", [areas, g.builder.const(np.asarray(axis, np.int64))])


@aten("trapezoid.dx", "trapz.dx", "cumulative_trapezoid.dx")
def _integral_at(node: AtenNode, g: Operators, y: Value, dim: int, dx: float) -> Value:
    return _integral(node, g, y, dx, dim)


# ------------------------------------------------------------------ derivatives


def _weighted(g: Operators, parts: Sequence[tuple[Value, Value]]) -> Value:
    made = [g("Mul", pair) for pair in parts]
    return made[0] if len(made) == 1 else g("Sum", made)


def _slope(
    node: AtenNode, g: Operators, x: Value, places: Value | float, axis: int, edge_order: int
) -> Value:
    """Return the derivative along an axis, of second order inside and of a given order at the ends.

    The formulas are those of three points at distances p and q (torch.gradient).
    """
    size = dims(x, [axis])[0]
    if edge_order not in (1, 2) or size <= edge_order:
        raise node.invalid(f"a derivative of edge order {edge_order} of {size} elements")
    if isinstance(places, Value):
        at = reshape(g, g.builder.cast(places, x.dtype), _along(places, axis, x))
        gaps = _steps(g, at, axis)
    else:
        shape = [size - 1 if held == axis else 1 for held in range(x.rank)]
        gaps = g.builder.const(np.full(shape, places, x.dtype.numpy))

    def points(first: int, last: int) -> list[Value]:
        """Return three elements next to each other, of each place from one to before another."""
        return [cut(g, x, axis, first + more, last + more) for more in range(3)]

    def over(first: Value, *divisors: Value) -> Value:
        for divisor in divisors:
            first = g("Div", [first, divisor])
        return first

    ends = []
    for start in (0, size - 2):
        rise = g("Sub", [cut(g, x, axis, start + 1, start + 2), cut(g, x, axis, start, start + 1)])
        ends.append(over(rise, cut(g, gaps, axis, start, start + 1)))
    inner: list[Value] = []
    if size > 2:
        p, q = cut(g, gaps, axis, 0, size - 2), cut(g, gaps, axis, 1, size - 1)
        both = g("Add", [p, q])
        weights = [
            g("Neg", [over(q, p, both)]),
            over(g("Sub", [q, p]), p, q),
            over(p, q, both),
        ]
        inner = [_weighted(g, list(zip(points(0, size - 2), weights, strict=True)))]
    if edge_order == 2:
        p, q = cut(g, gaps, axis, 0, 1), cut(g, gaps, axis, 1, 2)
        both = g("Add", [p, q])
        weights = [
            g("Neg", [over(g("Add", [both, p]), p, both)]),
            over(both, p, q),
            g("Neg", [over(p, q, both)]),
        ]
        ends[0] = _weighted(g, list(zip(points(0, 1), weights, strict=True)))
        p, q = cut(g, gaps, axis, size - 3, size - 2), cut(g, gaps, axis, size - 2, size - 1)
        both = g("Add", [p, q])
        weights = [over(q, p, both), g("Neg", [over(both, p, q)]), over(g("Add", [both, q]), q, both)]
        ends[1] = _weighted(g, list(zip(points(size - 3, size - 2), weights, strict=True)))
    return g("Concat", [ends[0], *inner, ends[1]], axis=axis)


@aten("gradient")
def _gradient(
    node: AtenNode,
    g: Operators,
    self: Value,
    edge_order: int,
    spacing: float | Sequence[float] | Sequence[Value] | None = None,
    dim: int | Sequence[int] | None = None,
) -> list[Value]:
    axes = list(range(self.rank)) if dim is None else axes_of(node, dim, self.rank)
    given: list[Value | float]
    given = list(spacing) if isinstance(spacing, Sequence) else [1.0 if spacing is None else spacing]
    given = given * len(axes) if len(given) == 1 and not isinstance(given[0], Value) else given
    if len(given) != len(axes):
        raise node.invalid(f"{len(given)} distances along {len(axes)} axes")
    x = g.builder.cast(self, node.dtype)
    return [_slope(node, g, x, places, axis, edge_order) for axis, places in zip(axes, given, strict=True)]
