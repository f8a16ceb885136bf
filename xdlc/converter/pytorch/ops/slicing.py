"""Handlers of slices, diagonals and triangles, read or written back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from xdlc.converter.functions.diagonals import matrix_diagonals, set_diagonals
from xdlc.converter.functions.elementwise import where
from xdlc.converter.functions.gathering import split, unstack
from xdlc.converter.functions.shapes import dims, number, reshape, vector
from xdlc.converter.functions.slicing import updated
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import ALL, Size, operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import bind_dims
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32


@aten("select.int", "select_copy.int", layout=ANY, symbolic=["index"])
def _select(node: AtenNode, g: Operators, self: Value, dim: int, index: Size) -> Value:
    axis, place = node.axis(dim, self.rank), shapes.known(index)
    if isinstance(place, Value):
        return g("Gather", [self, shapes.number(g, place)], axis=axis)
    _check_inside(node, self, axis, place)
    return g("Squeeze", [shapes.cut(g, self, axis, place, place + 1 or ALL), [axis]])


def _check_inside(node: AtenNode, x: Value, axis: int, place: int) -> None:
    size = shapes.size_of(x, axis)
    if size is not None and not -size <= place < size:
        raise node.invalid(f"element {place} is outside {size} elements along axis {axis}")


@aten("slice.Tensor", "slice_copy.Tensor", layout=ANY, symbolic=["start", "end"])
def _slice(
    node: AtenNode, g: Operators, self: Value, dim: int, start: Size | None, end: Size | None, step: int
) -> Value:
    if step < 1:
        raise node.invalid(f"a step of {step} is not valid")
    axis = node.axis(dim, self.rank)
    return shapes.cut(g, self, axis, 0 if start is None else start, ALL if end is None else end, step)


@aten("narrow", "narrow_copy", "narrow.Tensor", layout=ANY, symbolic=["start", "length"])
def _narrow(node: AtenNode, g: Operators, self: Value, dim: int, start: Size, length: Size) -> Value:
    axis, start, length = node.axis(dim, self.rank), shapes.known(start), shapes.known(length)
    if isinstance(start, Value) and isinstance(length, int):
        taken = g("Add", [shapes.vector_of(g, [start]), range(length)])
        return g("Gather", [self, taken], axis=axis)
    if isinstance(start, Value) or isinstance(length, Value):
        return shapes.cut(g, self, axis, start, g("Add", [shapes.number(g, start), shapes.number(g, length)]))
    size = shapes.size_of(self, axis)
    start += size if start < 0 and size is not None else 0
    if size is not None and not 0 <= start <= start + length <= size:
        raise node.invalid(f"{length} elements from {start} on exceed {size} elements along axis {axis}")
    return shapes.cut(g, self, axis, start, ALL if start < 0 and start + length == 0 else start + length)


# ------------------------------------------------------------------ all parts


def _parts(g: Operators, x: Value, sizes: Sequence[Size], axis: int) -> list[Value]:
    """Return parts of stated sizes along an axis."""
    found = shapes.numbers(sizes)
    if found is not None:
        return split(g, x, found, axis)
    if len(sizes) == 1:
        return [x]
    return g.apply("Split", [x, shapes.vector_of(g, sizes)], {"axis": axis}, len(sizes))


def _every(node: AtenNode, g: Operators, x: Value, size: int, axis: int) -> list[Value]:
    """Return parts of equal size along an axis; the last may be smaller."""
    (whole,) = dims(x, [axis])
    if size < 0 or (size == 0 and whole):
        raise node.invalid(f"parts of {size} elements are not valid")
    return _parts(g, x, [min(size, whole - at) for at in range(0, whole, size)] if whole else [0], axis)


@aten("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor", layout=ANY)
def _split(node: AtenNode, g: Operators, self: Value, split_size: int, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    if shapes.size_of(self, axis) is None:
        return _parts(g, self, [split_size] * (len(node.outputs) - 1) + [-1], axis)
    return _every(node, g, self, split_size, axis)


@aten("chunk", "unsafe_chunk", layout=ANY)
def _chunk(node: AtenNode, g: Operators, self: Value, chunks: int, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    if chunks < 1:
        raise node.invalid(f"{chunks} chunks are not valid")
    return _every(node, g, self, -(-dims(self, [axis])[0] // chunks), axis)


_SIZES = ["split_sizes", "split_size"]


@aten("split", "split_with_sizes", "split_with_sizes_copy", layout=ANY, symbolic=_SIZES)
@aten("unsafe_split_with_sizes", layout=ANY, symbolic=_SIZES)
@aten("split.sizes", layout=ANY, symbolic=_SIZES, names={"split_size": "split_sizes"})
def _split_in(
    node: AtenNode, g: Operators, self: Value, split_sizes: Sequence[Size], dim: int
) -> list[Value]:
    return _parts(g, self, split_sizes, node.axis(dim, self.rank))


@aten("unbind.int", "unbind_copy.int", layout=ANY)
def _unbind(node: AtenNode, g: Operators, self: Value, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    (count,) = dims(self, [axis])
    return unstack(g, self, count, axis) if count else []


_PLACES = dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "places")


@aten("tensor_split", "hsplit", "vsplit", "dsplit", layout=ANY, names=_PLACES)
def _tensor_split(
    node: AtenNode, g: Operators, self: Value, places: int | Sequence[int] | Value, dim: int | None = None
) -> list[Value]:
    if dim is None:
        dim = {"h": min(self.rank - 1, 1), "v": 0, "d": 2}[node.type[0]]
    axis = node.axis(dim, self.rank)
    if isinstance(places, Value):
        found = node.static(int(node.arguments["tensor_indices_or_sections"]), "where it splits")
        places = found.tolist() if found is not None else []
    if not isinstance(places, int):
        return [shapes.cut(g, self, axis, start, end) for start, end in pairwise([0, *places, ALL])]
    (size,) = dims(self, [axis])
    if places < 1:
        raise node.invalid(f"{places} sections are not valid")
    small, more = divmod(size, places)
    return _parts(g, self, [small + 1] * more + [small] * (places - more), axis)


# ------------------------------------------------------------------ windows


@aten("unfold", "unfold_copy")
def _unfold(node: AtenNode, g: Operators, self: Value, dimension: int, size: int, step: int) -> Value:
    x, axis = shapes.rank_one(g, self), shapes.axis_of(node, dimension, self.rank)
    (whole,) = dims(x, [axis])
    if size < 0 or step < 1 or size > whole:
        raise node.invalid(f"windows of {size} every {step} do not fit {whole} elements")
    if not self.rank:
        return x if size else shapes.empty(g, [0], x.dtype)
    count = (whole - size) // step + 1
    if size and step == size:
        part = shapes.cut(g, x, axis, 0, count * size)
        apart = shapes.reshaped(g, part, shapes.replaced(shapes.sizes_of(g, part), axis, count, size))
    else:
        check_table(count, size)
        window = np.arange(count, dtype=np.int64)[:, None] * step + np.arange(size)
        apart = g("Gather", [x, window], axis=axis)
    return shapes.moved(g, apart, [axis + 1], [apart.rank - 1])


@aten("as_strided", "as_strided_copy")
def _as_strided(
    node: AtenNode,
    g: Operators,
    self: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    x = shapes.flat(g, self)
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise node.invalid(f"sizes {list(size)} do not fit strides {list(stride)}")
    check_table(*size)
    places = np.asarray(storage_offset or 0, np.int64)
    for count, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(count, dtype=np.int64) * step
    if places.size and not 0 <= places.min() <= places.max() < dims(x)[0]:
        raise node.invalid(f"elements {places.min()} to {places.max()} are outside {x.size} elements")
    return g("Gather", [x, places], axis=0)


# ------------------------------------------------------------------ parts written back


@aten("select_scatter", symbolic=["index"])
def _select_scatter(node: AtenNode, g: Operators, self: Value, src: Value, dim: int, index: Size) -> Value:
    axis, place = node.axis(dim, self.rank), shapes.known(index)
    end: Size = ALL
    if not isinstance(place, Value):
        _check_inside(node, self, axis, place)
        end = place + 1 or ALL
    return _slice_scatter(node, g, self, g("Unsqueeze", [src, [axis]]), axis, place, end, 1)


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
    first, last = shapes.known(0 if start is None else start), shapes.known(ALL if end is None else end)
    src, size = g.builder.cast(src, self.dtype), shapes.size_of(self, axis)
    if isinstance(first, Value) or isinstance(last, Value):
        if step != 1 or src.rank != self.rank:
            raise node.problem("xdlc does not support a computed slice with a step", bind_dims())
        place = shapes.vector_of(g, [first])
        from_end = g("Add", [place, dims(self)[axis]])
        place = where(g, g("Less", [place, 0]), from_end, place)
        return updated(g, self, src, shapes.vector_of(g, shapes.replaced([0] * self.rank, axis, place)))
    if size is None:
        if step != 1:
            raise node.problem("xdlc does not support a step along a dynamic axis", bind_dims())
        if last <= first and (last < 0) == (first < 0):
            return self
        part = src
    else:
        bounds = range(*slice(first, last, step).indices(size))
        if not bounds:
            return self
        part = shapes.expanded(g, src, shapes.replaced(shapes.sizes_of(g, self), axis, len(bounds)))
        first, last = bounds[0], bounds[-1] + 1
    if step == 1:
        before = [shapes.cut(g, self, axis, 0, first)] if first else []
        after = [shapes.cut(g, self, axis, last)] if last not in (size, ALL) else []
        return g("Concat", [*before, part, *after], axis=axis)
    check_table(self.shape[axis])
    source, held = np.zeros(self.shape[axis], np.int64), np.zeros(self.shape[axis], np.bool_)
    source[bounds], held[bounds] = np.arange(len(bounds)), True
    spread = g("Gather", [part, vector(g, source)], axis=axis)
    mask = held.reshape([-1 if at == axis else 1 for at in range(self.rank)])
    return where(g, g.builder.const(mask), spread, self)


# ------------------------------------------------------------------ diagonals and triangles


@aten("diagonal", "diagonal_copy", "linalg_diagonal", names={"A": "self"})
def _diagonal(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    x = shapes.moved(g, self, shapes.axes_of(node, [dim1, dim2], self.rank), [self.rank - 2, self.rank - 1])
    *before, rows, columns = dims(x)
    first, column = max(-offset, 0), max(offset, 0)
    count = min(rows - first, columns - column)
    if count <= 0:
        return shapes.empty(g, [*before, 0], x.dtype)
    start = first * columns + column
    lying = reshape(g, x, [*before, rows * columns])
    return shapes.cut(g, lying, len(before), start, start + (count - 1) * (columns + 1) + 1, columns + 1)


@aten("trace")
def _trace(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("ReduceSum", [operand(node, g, _diagonal(node, g, self, 0, 0, 1))], keepdims=0)


@aten("diag_embed")
def _diag_embed(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    first, second = shapes.axes_of(node, [dim1, dim2], self.rank + 1)
    if first > second:  # which turns the matrices round
        offset, first, second = -offset, second, first
    made = matrix_diagonals(g, self, (offset, offset))
    return shapes.moved(g, made, [self.rank - 1, self.rank], [first, second])


@aten("diag", names={"diagonal": "offset"})
@aten("diagflat")
def _diag(node: AtenNode, g: Operators, self: Value, offset: int) -> Value:
    x = shapes.flat(g, self) if node.type == "diagflat" else self
    if x.rank == 2:
        return _diagonal(node, g, x, offset, 0, 1)
    return matrix_diagonals(g, x, (offset, offset))


@aten("diagonal_scatter")
def _diagonal_scatter(
    node: AtenNode, g: Operators, self: Value, src: Value, offset: int, dim1: int, dim2: int
) -> Value:
    axes, last = shapes.axes_of(node, [dim1, dim2], self.rank), [self.rank - 2, self.rank - 1]
    x = shapes.moved(g, self, axes, last)
    rows, columns = dims(x, (-2, -1))
    if not -rows < offset < columns:
        return self
    return shapes.moved(g, set_diagonals(g, x, g.builder.cast(src, self.dtype), (offset, offset)), last, axes)


@aten("tril", "triu", layout=ANY)
def _triangle(node: AtenNode, g: Operators, self: Value, diagonal: int) -> Value:
    x = g.builder.cast(self, INT32) if self.dtype is BOOL8 else self
    return g("Trilu", [x, np.asarray(diagonal, np.int64)], upper=int(node.type == "triu"))


@aten("fill_diagonal")
def _fill_diagonal(node: AtenNode, g: Operators, self: Value, fill_value: float, wrap: bool) -> Value:
    shape = dims(self)
    if self.rank < 2 or (self.rank > 2 and len(set(shape)) > 1):
        raise node.invalid(f"a diagonal needs axes of equal size, but the shape is {list(shape)}")
    check_table(*shape)
    held = np.zeros(shape, np.bool_)
    np.fill_diagonal(held, True, wrap)
    return where(g, g.builder.const(held), number(g, self, fill_value), self)
