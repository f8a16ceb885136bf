"""Handlers of operators that write a part of a tensor back into it."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import vector
from xdlc.converter.nhwc.slicing import updated
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    expanded,
    known,
    sizes_of,
    vector_of,
)
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table

_ALL = (1 << 63) - 1


def _replaced(g: Operators, x: Value, part: Value, axis: int, start: int, end: int) -> Value:
    """Return a value with the elements of an axis from one position to before another replaced."""
    size = x.dims[axis] if x.dims is not None else None
    after = [] if end in (size, _ALL) else [cut(g, x, axis, end, _ALL)]
    before = [cut(g, x, axis, 0, start)] if start else []
    return g("Concat", [*before, part, *after], axis=axis) if before or after else part


@aten("select_scatter", symbolic=["index"])
def _select_scatter(node: AtenNode, g: Operators, self: Value, src: Value, dim: int, index: Size) -> Value:
    axis, place, sizes = node.axis(dim, self.rank), known(index), sizes_of(g, self)
    size = known(sizes[axis])
    part = expanded(node, g, g.builder.cast(src, self.dtype), [*sizes[:axis], *sizes[axis + 1 :]])
    part = g("Unsqueeze", [part, vector(g, [axis])])
    if isinstance(place, Value):
        return updated(g, self, part, vector_of(g, [place if at == axis else 0 for at in range(self.rank)]))
    if not isinstance(size, Value):
        if not -size <= place < size:
            raise node.invalid(f"element {place} of {size} along axis {axis}")
        place %= size
    return _replaced(g, self, part, axis, place, place + 1 or _ALL)


@aten("slice_scatter", symbolic=["start", "end"])
def _slice_scatter(
    node: AtenNode,
    g: Operators,
    self: Value,
    src: Value,
    dim: int,
    start: Size | None,
    end: Size | None,
    step: int,
) -> Value:
    axis = node.axis(dim, self.rank)
    first, last = known(0 if start is None else start), known(_ALL if end is None else end)
    src, sizes = g.builder.cast(src, self.dtype), sizes_of(g, self)
    size = known(sizes[axis])
    if isinstance(first, Value) or isinstance(last, Value) or isinstance(size, Value):
        if step != 1 or src.rank != self.rank:
            raise node.problem(
                "a computed part with a step", "bind the dimensions of the inputs with --input_dim"
            )
        if isinstance(first, Value) or isinstance(last, Value):
            starts: list[Size] = [first if at == axis else 0 for at in range(self.rank)]
            return updated(g, self, src, vector_of(g, starts))
        if last <= first and (last < 0) == (first < 0):
            return self
        return _replaced(g, self, src, axis, first, last)
    bounds = range(*slice(first, last, step).indices(size))
    if not bounds:
        return self
    part = expanded(node, g, src, [*sizes[:axis], len(bounds), *sizes[axis + 1 :]])
    if step == 1:
        return _replaced(g, self, part, axis, bounds[0], bounds[-1] + 1)
    check_table(size)
    source, held = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    source[bounds], held[bounds] = np.arange(len(bounds)), True
    spread = g("Gather", [part, vector(g, source)], axis=axis)
    mask = held.reshape([-1 if at == axis else 1 for at in range(self.rank)])
    return where(g, g.builder.const(mask), spread, self)
