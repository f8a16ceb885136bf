"""Handlers of operators that join, repeat and rearrange tensors along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations, combinations_with_replacement

import numpy as np

from xdlc.converter.nhwc.gathering import stack
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.nhwc.slicing import reversed_axes, rolled
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    axes_of,
    axis_of,
    empty,
    expanded,
    known,
    moved,
    number,
    rank_one,
    reshaped,
    sizes_of,
    vector_of,
)
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir import DType
from xdlc.ir.dtype import from_numpy


def _common(node: AtenNode, g: Operators, values: Sequence[Value]) -> list[Value]:
    """Return tensors in the data type to which PyTorch promotes them."""
    stated = node.dtypes[0] if node.dtypes else None
    dtype = stated or reduce(_wider, (value.dtype for value in values))
    return [g.builder.cast(value, dtype) for value in values]


def _wider(first: DType, second: DType) -> DType:
    """Return the data type that holds two: floats before integers, these before truth values."""
    if first.is_float != second.is_float:
        return first if first.is_float else second
    if first.is_integer != second.is_integer:
        return first if first.is_integer else second
    if first.is_integer and first.is_signed != second.is_signed:  # uint8 with int8 becomes int16
        return from_numpy(np.result_type(first.numpy, second.numpy))
    return first if first.bits >= second.bits else second


def joined(node: AtenNode, g: Operators, values: Sequence[Value], axis: int) -> Value:
    """Return tensors joined along an axis, in their common data type; those of shape [0] count as none.

    Raises:
        ModelError: If their shapes do not fit.
    """
    if not values:
        raise node.invalid("joins no tensors")
    kept = [value for value in _common(node, g, values) if value.dims != (0,)]
    if not kept:
        return _common(node, g, values)[0]
    axis = axis_of(node, axis, kept[0].rank)
    shapes = [value.dims for value in kept]
    for shape in shapes:
        if shape is None or shapes[0] is None:
            continue
        pairs = zip(shape, shapes[0], strict=False)
        if len(shape) != len(shapes[0]) or any(
            at != axis and None not in pair and pair[0] != pair[1] for at, pair in enumerate(pairs)
        ):
            raise node.invalid(f"joins shapes {[list(each or ()) for each in shapes]} along axis {axis}")
    return kept[0] if len(kept) == 1 else g("Concat", kept, axis=axis)


@aten("cat", "concat", "concatenate", layout=ANY)
def _cat(node: AtenNode, g: Operators, tensors: Sequence[Value], dim: int) -> Value:
    return joined(node, g, tensors, dim)


@aten("stack", "_stack")
def _stack(node: AtenNode, g: Operators, tensors: Sequence[Value], dim: int) -> Value:
    return stack(g, _common(node, g, tensors), node.axis(dim, tensors[0].rank + 1))


@aten("hstack", "vstack", "row_stack", "dstack")
def _stack_along(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    if node.type == "hstack":
        rows = [rank_one(g, each) for each in tensors]
        return joined(node, g, rows, 0 if rows[0].rank == 1 else 1)
    is_deep = node.type == "dstack"
    made = []
    for each in tensors:
        sizes: list[Size] = [*([1] * (each.rank < 2)), *sizes_of(g, each)]
        sizes += [1] * (2 + is_deep - len(sizes))
        made.append(reshaped(node, g, each, sizes))
    return joined(node, g, made, 2 if is_deep else 0)


@aten("column_stack")
def _column_stack(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    return joined(
        node, g, [each if each.rank > 1 else reshaped(node, g, each, [-1, 1]) for each in tensors], 1
    )


@aten("_chunk_cat")
def _chunk_cat(node: AtenNode, g: Operators, tensors: Sequence[Value], dim: int, num_chunks: int) -> Value:
    made = []
    for each in tensors:
        axis, shape = node.axis(dim, each.rank), dims(each)
        size = -(-shape[axis] // num_chunks)
        more = [0] * each.rank + [
            size * num_chunks - shape[axis] if at == axis else 0 for at in range(each.rank)
        ]
        whole = g("Pad", [each, vector(g, more)]) if any(more) else each
        made.append(reshaped(node, g, whole, [*shape[:axis], num_chunks, -1]))
    return joined(node, g, made, dim + 1 if dim >= 0 else dim)


# ------------------------------------------------------------------ grids


def _grid(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> list[Value]:
    """Return tensors of one axis, each spread along an axis of its own."""
    rows = [rank_one(g, each) for each in tensors]
    if any(each.rank != 1 for each in rows):
        raise node.invalid(f"a grid of shapes {[list(each.shape) for each in rows]}")
    sizes = [sizes_of(g, each)[0] for each in rows]
    made = []
    for axis, each in enumerate(rows):
        lying: list[Size] = [size if at == axis else 1 for at, size in enumerate(sizes)]
        made.append(expanded(node, g, reshaped(node, g, each, lying), sizes))
    return made


@aten("meshgrid")
def _meshgrid(node: AtenNode, g: Operators, tensors: Sequence[Value], indexing: str = "ij") -> list[Value]:
    if indexing not in ("ij", "xy"):
        raise node.invalid(f"indexing {indexing!r}")
    if indexing == "ij" or len(tensors) < 2:
        return _grid(node, g, tensors)
    second, first, *rest = _grid(node, g, [tensors[1], tensors[0], *tensors[2:]])
    return [first, second, *rest]


@aten("cartesian_prod")
def _cartesian_prod(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    if len(tensors) == 1:
        return tensors[0]
    grid = _grid(node, g, _common(node, g, tensors))
    return reshaped(node, g, stack(g, grid, len(grid)), [-1, len(grid)])


@aten("combinations")
def _combinations(node: AtenNode, g: Operators, self: Value, r: int, with_replacement: bool) -> Value:
    (size,) = dims(self)
    if r < 0:
        raise node.invalid(f"combinations of {r}")
    check_table(math.comb(size + (r - 1 if with_replacement and r else 0), r), max(r, 1))
    choose = combinations_with_replacement if with_replacement else combinations
    places = np.asarray(list(choose(range(size), r)), np.int64)
    if not places.size:
        return empty(g, [0] if not r else [0, r], self.dtype)
    return g("Gather", [self, g.builder.const(places)], axis=0)


@aten("block_diag")
def _block_diag(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    blocks = []
    for each in _common(node, g, tensors):
        if each.rank > 2:
            raise node.invalid(f"a block of shape {list(each.shape)}")
        blocks.append(reshaped(node, g, each, [1] * (2 - each.rank) + list(dims(each))))
    width, before, rows = sum(each.shape[1] for each in blocks), 0, []
    for each in blocks:
        after = width - before - each.shape[1]
        if each.shape[0]:
            row = each if each.shape[1] else empty(g, [each.shape[0], 0], each.dtype)
            rows.append(padded(g, row, [0, before, 0, after]))
        before += each.shape[1]
    return joined(node, g, rows or blocks[:1], 0)


def padded(g: Operators, x: Value, amounts: Sequence[int]) -> Value:
    """Return a value with zeros before and after its axes."""
    if not any(amounts):
        return x
    if not x.size:
        half = len(amounts) // 2
        shape = [
            size + before + after
            for size, before, after in zip(x.shape, amounts[:half], amounts[half:], strict=True)
        ]
        check_table(*shape)
        return g.builder.const(np.zeros(shape, x.dtype.numpy))
    return g("Pad", [x, vector(g, amounts)])


# ------------------------------------------------------------------ repeated and turned round


@aten("repeat", layout=ANY, symbolic=["repeats"])
def _repeat(node: AtenNode, g: Operators, self: Value, repeats: Sequence[Size]) -> Value:
    counts, sizes = [known(count) for count in repeats], sizes_of(g, self)
    if len(counts) < self.rank:
        raise node.invalid(f"{len(counts)} repeats of {self.rank} axes")
    x = reshaped(node, g, self, [1] * (len(counts) - self.rank) + sizes) if len(counts) > self.rank else self
    if 0 in [count for count in counts if not isinstance(count, Value)] and not x.is_dynamic:
        return empty(
            g, [0 if count == 0 else size for size, count in zip(x.shape, counts, strict=True)], x.dtype
        )
    return g("Tile", [x, vector_of(g, counts)]) if counts else x


@aten("tile", layout=ANY, symbolic=["dims"])
def _tile(node: AtenNode, g: Operators, self: Value, dims: Sequence[Size]) -> Value:
    return _repeat(node, g, self, [1] * (self.rank - len(dims)) + list(dims))


@aten("roll", layout=ANY)
def _roll(node: AtenNode, g: Operators, self: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    if dims and self.is_dynamic and len(dims) == len(shifts):
        return _rolled(node, g, self, shifts, dims)
    if dims:
        return rolled(g, self, shifts, dims) if self.rank else self
    if len(shifts) != 1:
        raise node.invalid(f"{len(shifts)} shifts without axes")
    return reshaped(node, g, rolled(g, reshaped(node, g, self, [-1]), shifts, [0]), sizes_of(g, self))


def _rolled(node: AtenNode, g: Operators, x: Value, shifts: Sequence[int], axes: Sequence[int]) -> Value:
    """Return a value with elements moved along axes, open ones too."""
    for shift, axis in zip(shifts, axes_of(node, axes, x.rank), strict=True):
        size = known(sizes_of(g, x)[axis])
        if not isinstance(size, Value):
            x = rolled(g, x, [shift], [axis])
            continue
        size = number(g, size)
        at = g("Sub", [size, g("Mod", [number(g, shift), size])])
        x = g("Concat", [cut(g, x, axis, at, (1 << 63) - 1), cut(g, x, axis, 0, at)], axis=axis)
    return x


@aten("fft_fftshift", "fft_ifftshift", layout=ANY)
def _half_turned(node: AtenNode, g: Operators, self: Value, dim: Sequence[int] | int | None) -> Value:
    axes = list(range(self.rank)) if dim is None else axes_of(node, dim, self.rank)
    sizes = dims(self)
    half = [sizes[axis] // 2 if node.type == "fft_fftshift" else (sizes[axis] + 1) // 2 for axis in axes]
    return rolled(g, self, half, axes) if self.rank else self


@aten("flip", layout=ANY)
def _flip(node: AtenNode, g: Operators, self: Value, dims: Sequence[int]) -> Value:
    return reversed_axes(g, self, axes_of(node, dims, self.rank)) if self.rank else self


@aten("fliplr", "flipud", layout=ANY)
def _flip_axis(node: AtenNode, g: Operators, self: Value) -> Value:
    return reversed_axes(g, self, [node.axis(int(node.type == "fliplr"), self.rank)])


@aten("rot90")
def _rot90(node: AtenNode, g: Operators, self: Value, k: int, dims: Sequence[int]) -> Value:
    first, second = axes_of(node, dims, self.rank)
    turned = {1: [second], 2: [first, second], 3: [first]}.get(k % 4, [])
    x = reversed_axes(g, self, turned)
    return moved(g, x, [first, second], [second, first]) if k % 2 else x
