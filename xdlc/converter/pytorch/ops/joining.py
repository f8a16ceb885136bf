"""Handlers of operators that join, pad, repeat and rearrange tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np

from xdlc.converter.functions.gathering import stack
from xdlc.converter.functions.scatter import full
from xdlc.converter.functions.shapes import dims, number, vector
from xdlc.converter.functions.slicing import reversed_axes, rolled
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import Size, operand
from xdlc.converter.pytorch.ops.views import at_least
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_NUMBERED = ("reflect", "replicate", "circular", "constant")
"""Modes of ``_pad_enum`` by number (ATen/PadNd.h)."""
_FIXED = {"_pad_circular": "circular"}
_FIXED |= {f"reflection_pad{rank}d": "reflect" for rank in (1, 2, 3)}
_FIXED |= {f"replication_pad{rank}d": "replicate" for rank in (1, 2, 3)}
"""Modes of operators that have one."""


def joined(node: AtenNode, g: Operators, values: Sequence[Value], axis: int) -> Value:
    """Return tensors joined along an axis, in the result's type; shape [0] is skipped.

    Raises:
        ModelError: If their shapes do not fit.
    """
    values = [operand(node, g, value) for value in values]
    kept = [value for value in values if value.dims != (0,)] or values[:1]
    if not kept:
        raise node.invalid("the operator joins no tensors")
    axis = shapes.axis_of(node, axis, kept[0].rank)
    given = [value.dims for value in kept if value.dims is not None]
    others = [(*shape[:axis], None, *shape[axis + 1 :]) for shape in given]
    fits = len(set(map(len, others))) < 2
    if not fits or any(len({*sizes} - {None}) > 1 for sizes in zip(*others, strict=True)):
        raise node.invalid(f"shapes {[list(shape) for shape in given]} do not fit along axis {axis}")
    return kept[0] if len(kept) == 1 else g("Concat", kept, axis=axis)


@aten("cat", "concat", "concatenate", layout=ANY)
def _cat(node: AtenNode, g: Operators, tensors: Sequence[Value], dim: int) -> Value:
    return joined(node, g, tensors, dim)


@aten("stack", "_stack")
def _stack(node: AtenNode, g: Operators, tensors: Sequence[Value], dim: int) -> Value:
    made = [operand(node, g, each) for each in tensors]
    return stack(g, made, node.axis(dim, made[0].rank + 1))


@aten("hstack", "vstack", "row_stack", "dstack")
def _stack_along(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    rank = {"h": 1, "d": 3}.get(node.type[0], 2)
    made = [at_least(g, each, rank) for each in tensors]
    return joined(node, g, made, {1: min(made[0].rank - 1, 1), 2: 0, 3: 2}[rank])


@aten("column_stack")
def _column_stack(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    made = [each if each.rank > 1 else shapes.reshaped(g, each, [-1, 1]) for each in tensors]
    return joined(node, g, made, 1)


@aten("block_diag")
def _block_diag(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    blocks = [at_least(g, operand(node, g, each), 2) for each in tensors]
    widths, rows = [dims(each)[1] for each in blocks], []
    for index, each in enumerate(blocks):
        rows.append(_padded(g, each, [sum(widths[:index]), sum(widths[index + 1 :])]))
    return joined(node, g, rows, 0)


@aten("pad_sequence")
def _pad_sequence(
    node: AtenNode,
    g: Operators,
    sequences: Sequence[Value],
    batch_first: bool,
    padding_value: float,
    padding_side: str,
) -> Value:
    longest, rows = max((dims(each)[0] for each in sequences), default=0), []
    for each in sequences:
        more = longest - dims(each)[0]
        pad = [0, 0] * (each.rank - 1) + ([more, 0] if padding_side == "left" else [0, more])
        rows.append(_padded(g, operand(node, g, each), pad, value=padding_value))
    return stack(g, rows, 0 if batch_first else 1)


# ------------------------------------------------------------------ grids


def _grid(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> list[Value]:
    """Return tensors of rank 1, each expanded along a separate axis."""
    rows = [shapes.rank_one(g, tensor) for tensor in tensors]
    if any(row.rank != 1 for row in rows):
        raise node.invalid(f"a grid of shapes {[list(row.shape) for row in rows]} cannot be joined")
    sizes = [shapes.sizes_of(g, row)[0] for row in rows]
    grid = []
    for axis, row in enumerate(rows):
        lying: list[Size] = [size if at == axis else 1 for at, size in enumerate(sizes)]
        grid.append(shapes.expanded(g, shapes.reshaped(g, row, lying), sizes))
    return grid


@aten("meshgrid")
def _meshgrid(node: AtenNode, g: Operators, tensors: Sequence[Value], indexing: str = "ij") -> list[Value]:
    if indexing == "ij" or len(tensors) < 2:
        return _grid(node, g, tensors)
    second, first, *rest = _grid(node, g, [tensors[1], tensors[0], *tensors[2:]])
    return [first, second, *rest]


@aten("cartesian_prod")
def _cartesian_prod(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    if len(tensors) == 1:
        return tensors[0]
    grid = _grid(node, g, [operand(node, g, each) for each in tensors])
    return shapes.reshaped(g, stack(g, grid, len(grid)), [-1, len(grid)])


@aten("combinations")
def _combinations(node: AtenNode, g: Operators, self: Value, r: int, with_replacement: bool) -> Value:
    (size,) = dims(self)
    check_table(math.comb(size + (r - 1 if with_replacement and r else 0), r), max(r, 1))
    choose = combinations_with_replacement if with_replacement else combinations
    places = list(choose(range(size), r))
    if not r or not places:
        return shapes.empty(g, [0, r] if r else [0], self.dtype)
    return g("Gather", [self, np.asarray(places, np.int64)], axis=0)


# ------------------------------------------------------------------ repeated and turned round


@aten("repeat", layout=ANY, symbolic=["repeats"])
@aten("tile", layout=ANY, symbolic=["dims"], names={"dims": "repeats"})
def _repeat(node: AtenNode, g: Operators, self: Value, repeats: Sequence[Size]) -> Value:
    if len(repeats) < self.rank and node.type == "repeat":
        raise node.invalid(f"{len(repeats)} repeats do not fit {self.rank} axes")
    counts, more = [*[1] * (self.rank - len(repeats)), *repeats], max(len(repeats) - self.rank, 0)
    x = shapes.reshaped(g, self, [*[1] * more, *shapes.sizes_of(g, self)]) if more else self
    found = shapes.numbers(counts)
    if found is not None and 0 in found and not x.is_dynamic:
        return shapes.empty(g, [size * count for size, count in zip(x.shape, found, strict=True)], x.dtype)
    return g("Tile", [x, shapes.vector_of(g, counts)]) if counts else x


@aten("roll", layout=ANY)
def _roll(node: AtenNode, g: Operators, self: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    if not self.rank:
        return self
    x, axes = (self, shapes.axes_of(node, dims, self.rank)) if dims else (shapes.flat(g, self), [0])
    if len(shifts) != len(axes):
        raise node.invalid(f"{len(shifts)} shifts do not fit {len(axes)} axes")
    for shift, axis in zip(shifts, axes, strict=True):
        size = shapes.known(shapes.sizes_of(g, x)[axis])
        if not isinstance(size, Value):
            x = rolled(g, x, [shift], [axis])
            continue
        size = shapes.number(g, size)
        at = g("Sub", [size, g("Mod", [shapes.number(g, shift), size])])
        x = g("Concat", [shapes.cut(g, x, axis, at), shapes.cut(g, x, axis, 0, at)], axis=axis)
    return x if dims else shapes.reshaped(g, x, shapes.sizes_of(g, self))


@aten("fft_fftshift", "fft_ifftshift", layout=ANY)
def _half_turned(node: AtenNode, g: Operators, self: Value, dim: Sequence[int] | int | None) -> Value:
    axes = shapes.axes_of(node, range(self.rank) if dim is None else dim, self.rank)
    more = int(node.type == "fft_ifftshift")
    return rolled(g, self, [(dims(self)[axis] + more) // 2 for axis in axes], axes) if self.rank else self


@aten("flip", layout=ANY)
def _flip(node: AtenNode, g: Operators, self: Value, dims: Sequence[int]) -> Value:
    return reversed_axes(g, self, shapes.axes_of(node, dims, self.rank)) if self.rank else self


@aten("fliplr", "flipud", layout=ANY)
def _flip_axis(node: AtenNode, g: Operators, self: Value) -> Value:
    return reversed_axes(g, self, [node.axis(int(node.type == "fliplr"), self.rank)])


@aten("rot90")
def _rot90(node: AtenNode, g: Operators, self: Value, k: int, dims: Sequence[int]) -> Value:
    first, second = shapes.axes_of(node, dims, self.rank)
    turned = {1: [second], 2: [first, second], 3: [first]}.get(k % 4, [])
    x = reversed_axes(g, self, turned)
    return shapes.moved(g, x, [first, second], [second, first]) if k % 2 else x


# ------------------------------------------------------------------ borders


def _padded(
    g: Operators, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    """Return a tensor padded along its last axes, last first; negative amounts crop."""
    if mode not in _MODES or len(pad) % 2 or len(pad) // 2 > x.rank:
        raise shapes.contradiction(f"padding mode {mode!r}: {len(pad)} amounts do not fit {x.rank} axes")
    if not any(pad):
        return x
    before, after = pad[0::2], pad[1::2]
    axes = [x.rank - 1 - index for index in range(len(before))]
    if not x.is_dynamic:
        shape = list(x.shape)
        for axis, low, high in zip(axes, before, after, strict=True):
            size = shape[axis]
            left = size + min(low, 0) + min(high, 0)  # which alone is continued if it is circular
            most = {"reflect": size - 1, "circular": left}.get(mode, max(low, high))
            shape[axis] = size + low + high
            if max(low, high) > most or shape[axis] < 0:
                raise shapes.contradiction(
                    f"padding {low}, {high} does not fit {size} elements of axis {axis}"
                )
        if 0 in shape:
            return shapes.empty(g, shape, x.dtype)
        if not x.size:
            if mode != "constant":
                raise shapes.contradiction(f"padding of no elements by mode {mode} is not possible")
            check_table(*shape)
            return full(g, shape, value or 0, x.dtype)
        if min(pad) < 0 and mode in ("reflect", "replicate"):
            return _continued(g, x, axes, before, after, mode)
    fill = number(g, x, value) if value and mode == "constant" else None
    return g("Pad", [x, [*before, *after], fill, vector(g, axes)], mode=_MODES[mode])


def _continued(
    g: Operators, x: Value, axes: Sequence[int], before: Sequence[int], after: Sequence[int], mode: str
) -> Value:
    """Return a tensor padded by reflection or its edges; negative amounts cut it."""
    for axis, low, high in zip(axes, before, after, strict=True):
        last = x.shape[axis] - 1
        check_table(last + 1 + low + high)
        place = np.arange(-low, last + 1 + high)
        if mode == "reflect":
            place = last - np.abs(last - np.abs(place))
        if low or high:
            x = g("Gather", [x, vector(g, np.clip(place, 0, last))], axis=axis)
    return x


@aten("pad", "_pad_enum", "constant_pad_nd", *_FIXED, layout=ANY, names={"padding": "pad"})
def _pad(
    node: AtenNode,
    g: Operators,
    self: Value,
    pad: Sequence[int],
    mode: str | int = "constant",
    value: float | None = None,
) -> Value:
    if isinstance(mode, int):
        mode = _NUMBERED[mode] if 0 <= mode < len(_NUMBERED) else str(mode)
    return _padded(g, self, pad, _FIXED.get(node.type, mode), value)
