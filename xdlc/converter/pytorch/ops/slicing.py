"""Handlers of operators that take parts of a tensor, or write them back into it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import split
from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    axis_of,
    empty,
    expanded,
    known,
    moved,
    rank_one,
    reshaped,
    sizes_of,
    vector_of,
)
from xdlc.converter.pytorch.ops._shapes import number as scalar
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table

_ALL = (1 << 63) - 1


def cut(g: Operators, x: Value, axis: int, start: Size, end: Size, step: int = 1) -> Value:
    """Return elements of an axis at regular distances; positions outside are moved to the ends."""
    ends = [vector_of(g, [known(each)]) for each in (start, end)]
    return g("Slice", [x, *ends, vector(g, [axis]), vector(g, [step])])


def taken(node: AtenNode, g: Operators, x: Value, axis: int, index: Size) -> Value:
    """Return one element of an axis, which is dropped.

    Raises:
        ModelError: If there is no such element.
    """
    place = known(index)
    if isinstance(place, Value):
        return g("Gather", [x, scalar(g, place)], axis=axis)
    size = x.dims[axis] if x.dims is not None else None
    if size is not None and not -size <= place < size:
        raise node.invalid(f"element {place} of {size} along axis {axis}")
    part = cut(g, x, axis, place, place + 1 or _ALL)
    if x.is_dynamic:
        return g("Squeeze", [part, vector(g, [axis])])
    return reshape(g, part, [size for at, size in enumerate(x.shape) if at != axis])


@aten("select.int", "select_copy.int", layout=ANY, symbolic=["index"])
def _select(node: AtenNode, g: Operators, self: Value, dim: int, index: Size) -> Value:
    return taken(node, g, self, node.axis(dim, self.rank), index)


@aten("slice.Tensor", "slice_copy.Tensor", layout=ANY, symbolic=["start", "end"])
def _slice(
    node: AtenNode, g: Operators, self: Value, dim: int, start: Size | None, end: Size | None, step: int
) -> Value:
    if step < 1:
        raise node.invalid(f"a step of {step}")
    axis = node.axis(dim, self.rank)
    return cut(g, self, axis, 0 if start is None else start, _ALL if end is None else end, step)


@aten("narrow", "narrow_copy", layout=ANY, symbolic=["start", "length"])
def _narrow(node: AtenNode, g: Operators, self: Value, dim: int, start: Size, length: Size) -> Value:
    axis, start, length = node.axis(dim, self.rank), known(start), known(length)
    size = self.dims[axis] if self.dims is not None else None
    if isinstance(start, Value):
        if isinstance(length, Value):
            return cut(g, self, axis, start, g("Add", [scalar(g, start), scalar(g, length)]))
        return g("Gather", [self, g("Add", [vector_of(g, [start]), vector(g, range(length))])], axis=axis)
    if isinstance(length, Value):
        end = g("Add", [scalar(g, length), scalar(g, start)])
        return cut(g, self, axis, start, end)
    if start < 0 and size is None:
        return cut(g, self, axis, start, start + length or _ALL)
    start += size if start < 0 and size is not None else 0
    if size is not None and not 0 <= start <= start + length <= size:
        raise node.invalid(f"{length} elements from {start} of {size} along axis {axis}")
    return cut(g, self, axis, start, start + length)


@aten("narrow.Tensor", layout=ANY, symbolic=["length"])
def _narrow_at(node: AtenNode, g: Operators, self: Value, dim: int, start: Value, length: Size) -> Value:
    return _narrow(node, g, self, dim, start, length)


# ------------------------------------------------------------------ all parts


def _parts(node: AtenNode, g: Operators, x: Value, sizes: Sequence[Size], axis: int) -> list[Value]:
    """Return the parts of given sizes along an axis.

    Raises:
        ModelError: If the sizes do not fit.
    """
    found = [known(size) for size in sizes]
    if any(isinstance(size, Value) for size in found):
        if len(found) == 1:
            return [x]
        return g.apply("Split", [x, vector_of(g, found)], {"axis": axis}, len(found))
    return split(g, x, [int(size) for size in found if not isinstance(size, Value)], axis)


def _every(node: AtenNode, g: Operators, x: Value, size: int, axis: int) -> list[Value]:
    """Return parts of one size along an axis; the last may be smaller."""
    (whole,) = dims(x, [axis])
    if size < 0 or (size == 0 and whole):
        raise node.invalid(f"parts of {size} elements")
    if not whole:
        return [x]
    return _parts(node, g, x, [min(size, whole - at) for at in range(0, whole, size)], axis)


@aten("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor", layout=ANY)
def _split(node: AtenNode, g: Operators, self: Value, split_size: int, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    if self.dims is not None and self.dims[axis] is None:
        return _parts(node, g, self, [split_size] * (len(node.outputs) - 1) + [-1], axis)
    return _every(node, g, self, split_size, axis)


@aten("split", "split_with_sizes", "split_with_sizes_copy", layout=ANY, symbolic=["split_sizes"])
@aten("unsafe_split_with_sizes", layout=ANY, symbolic=["split_sizes"])
def _split_in(
    node: AtenNode, g: Operators, self: Value, split_sizes: Sequence[Size], dim: int
) -> list[Value]:
    return _parts(node, g, self, split_sizes, node.axis(dim, self.rank))


@aten("split.sizes", layout=ANY, symbolic=["split_size"])
def _split_into(
    node: AtenNode, g: Operators, self: Value, split_size: Sequence[Size], dim: int
) -> list[Value]:
    return _parts(node, g, self, split_size, node.axis(dim, self.rank))


@aten("chunk", "unsafe_chunk", layout=ANY)
def _chunk(node: AtenNode, g: Operators, self: Value, chunks: int, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    (size,) = dims(self, [axis])
    if chunks < 1:
        raise node.invalid(f"{chunks} chunks")
    return _every(node, g, self, -(-size // chunks), axis)


@aten("unbind.int", "unbind_copy.int", layout=ANY)
def _unbind(node: AtenNode, g: Operators, self: Value, dim: int) -> list[Value]:
    axis = node.axis(dim, self.rank)
    (size,) = dims(self, [axis])
    parts = _parts(node, g, self, [1] * size, axis) if size else []
    if self.is_dynamic:
        return [g("Squeeze", [part, vector(g, [axis])]) for part in parts]
    shape = [size for at, size in enumerate(self.shape) if at != axis]
    return [reshape(g, part, shape) for part in parts]


def _sections(node: AtenNode, g: Operators, x: Value, sections: int, axis: int) -> list[Value]:
    (size,) = dims(x, [axis])
    if sections < 1:
        raise node.invalid(f"{sections} sections")
    small, more = divmod(size, sections)
    return _parts(node, g, x, [small + 1] * more + [small] * (sections - more), axis)


def _between(g: Operators, x: Value, indices: Sequence[int], axis: int) -> list[Value]:
    """Return the parts between positions, which slice as in Python."""
    ends = [0, *indices, _ALL]
    return [cut(g, x, axis, start, end) for start, end in pairwise(ends)]


@aten("tensor_split.sections", layout=ANY)
def _split_evenly(node: AtenNode, g: Operators, self: Value, sections: int, dim: int) -> list[Value]:
    return _sections(node, g, self, sections, node.axis(dim, self.rank))


@aten("tensor_split.indices", layout=ANY)
def _split_at(node: AtenNode, g: Operators, self: Value, indices: Sequence[int], dim: int) -> list[Value]:
    return _between(g, self, indices, node.axis(dim, self.rank))


@aten("tensor_split.tensor_indices_or_sections", layout=ANY)
def _split_by(
    node: AtenNode, g: Operators, self: Value, tensor_indices_or_sections: Value, dim: int
) -> list[Value]:
    places = node.static(int(node.arguments["tensor_indices_or_sections"]), "where it splits")
    axis = node.axis(dim, self.rank)
    if places is None or not places.ndim:
        return _sections(node, g, self, int(places or 0), axis)
    return _between(g, self, [int(place) for place in places], axis)


def _split_axis(node: AtenNode, x: Value) -> int:
    least = {"h": 1, "v": 2, "d": 3}[node.type[0]]
    if x.rank < least:
        raise node.invalid(f"{x.rank} axes; at least {least} are needed")
    return min(x.rank - 1, 1) if least == 1 else (0 if least == 2 else 2)


@aten("hsplit.int", "vsplit.int", "dsplit.int", layout=ANY)
def _split_axis_evenly(node: AtenNode, g: Operators, self: Value, sections: int) -> list[Value]:
    return _sections(node, g, self, sections, _split_axis(node, self))


@aten("hsplit.array", "vsplit.array", "dsplit.array", layout=ANY)
def _split_axis_at(node: AtenNode, g: Operators, self: Value, indices: Sequence[int]) -> list[Value]:
    return _between(g, self, indices, _split_axis(node, self))


# ------------------------------------------------------------------ windows


@aten("unfold", "unfold_copy")
def _unfold(node: AtenNode, g: Operators, self: Value, dimension: int, size: int, step: int) -> Value:
    x, axis = rank_one(g, self), axis_of(node, dimension, self.rank)
    (whole,) = dims(x, [axis])
    if size < 0 or step < 1 or size > whole:
        raise node.invalid(f"windows of {size} every {step} of {whole} elements")
    count = (whole - size) // step + 1
    if not self.rank:
        return reshaped(node, g, self, [-1]) if size else empty(g, [0], self.dtype)
    if size and step == size:
        part = cut(g, x, axis, 0, count * size)
        sizes = sizes_of(g, part)
        apart = reshaped(node, g, part, [*sizes[:axis], count, size, *sizes[axis + 1 :]])
    else:
        check_table(count, size)
        places = np.arange(count, dtype=np.int64)[:, None] * step + np.arange(size)
        apart = g("Gather", [x, g.builder.const(places)], axis=axis)
    return moved(g, apart, [axis + 1], [apart.rank - 1])


@aten("as_strided", "as_strided_copy")
def _as_strided(
    node: AtenNode,
    g: Operators,
    self: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    places = _strided_places(node, self, size, stride, storage_offset)
    return g("Gather", [reshaped(node, g, self, [-1]), g.builder.const(places)], axis=0)


@aten("as_strided_scatter")
def _as_strided_scatter(
    node: AtenNode,
    g: Operators,
    self: Value,
    src: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    places = _strided_places(node, self, size, stride, storage_offset)
    if len(np.unique(places)) != places.size:
        raise node.problem("it writes elements more than once", "write to a tensor without overlaps")
    source = np.full(self.size, -1, np.int64)
    source[places.reshape(-1)] = np.arange(places.size)
    values = reshaped(node, g, expanded(node, g, src, size), [-1])
    if not values.size:
        return self
    made = g("Gather", [g.builder.cast(values, self.dtype), vector(g, np.maximum(source, 0))], axis=0)
    flat = where(g, g.builder.const(source >= 0), made, reshaped(node, g, self, [-1]))
    return reshaped(node, g, flat, self.shape)


def _strided_places(
    node: AtenNode, x: Value, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> np.ndarray:
    """Return the positions, among the elements of a value in order, that a strided view has.

    Raises:
        ModelError: If some lie outside.
    """
    dims(x)
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        raise node.invalid(f"sizes {list(size)} with strides {list(stride)}")
    check_table(*size)
    places = np.asarray(offset or 0, np.int64)
    for count, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(count, dtype=np.int64) * step
    if places.size and not 0 <= places.min() <= places.max() < x.size:
        raise node.invalid(f"element {places.max()} of {x.size}")
    return places
