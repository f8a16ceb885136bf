"""Handlers of operators that join, repeat and rearrange tensors along axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.nhwc.gathering import stack
from xdlc.converter.nhwc.shapes import dims
from xdlc.converter.nhwc.slicing import reversed_axes, rolled
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import operand
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    axes_of,
    axis_of,
    cut,
    empty,
    expanded,
    flat,
    known,
    moved,
    number,
    numbers,
    rank_one,
    reshaped,
    sizes_of,
    vector_of,
)
from xdlc.converter.pytorch.ops.padding import padded
from xdlc.converter.pytorch.ops.views import at_least
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value


def joined(node: AtenNode, g: Operators, values: Sequence[Value], axis: int) -> Value:
    """Return tensors joined along an axis, in the type of the result; those of shape [0] count as none.

    Raises:
        ModelError: If their shapes do not fit.
    """
    values = [operand(node, g, value) for value in values]
    kept = [value for value in values if value.dims != (0,)] or values[:1]
    if not kept:
        raise node.invalid("joins no tensors")
    axis = axis_of(node, axis, kept[0].rank)
    shapes = [value.dims for value in kept if value.dims is not None]
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in shapes]
    if len(set(map(len, shapes))) > 1 or any(len({*column} - {None}) > 1 for column in zip(*others)):  # noqa: B905
        raise node.invalid(f"joins shapes {[list(shape) for shape in shapes]} along axis {axis}")
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
    made = [at_least(node, g, each, rank) for each in tensors]
    return joined(node, g, made, {1: min(made[0].rank - 1, 1), 2: 0, 3: 2}[rank])


@aten("column_stack")
def _column_stack(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    made = [each if each.rank > 1 else reshaped(node, g, each, [-1, 1]) for each in tensors]
    return joined(node, g, made, 1)


@aten("block_diag")
def _block_diag(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> Value:
    blocks = [at_least(node, g, operand(node, g, each), 2) for each in tensors]
    widths, rows = [dims(each)[1] for each in blocks], []
    for index, each in enumerate(blocks):
        rows.append(padded(node, g, each, [sum(widths[:index]), sum(widths[index + 1 :])]))
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
        more = longest - each.shape[0]
        pad = [0, 0] * (each.rank - 1) + ([more, 0] if padding_side == "left" else [0, more])
        rows.append(padded(node, g, each, pad, value=padding_value))
    return stack(g, rows, 0 if batch_first else 1)


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
    grid = _grid(node, g, [operand(node, g, each) for each in tensors])
    return reshaped(node, g, stack(g, grid, len(grid)), [-1, len(grid)])


# ------------------------------------------------------------------ repeated and turned round


@aten("repeat", layout=ANY, symbolic=["repeats"])
@aten("tile", layout=ANY, symbolic=["dims"], names={"dims": "repeats"})
def _repeat(node: AtenNode, g: Operators, self: Value, repeats: Sequence[Size]) -> Value:
    if len(repeats) < self.rank and node.type == "repeat":
        raise node.invalid(f"{len(repeats)} repeats of {self.rank} axes")
    counts, more = [*[1] * (self.rank - len(repeats)), *repeats], max(len(repeats) - self.rank, 0)
    x = reshaped(node, g, self, [*[1] * more, *sizes_of(g, self)]) if more else self
    found = numbers(counts)
    if found is not None and 0 in found and not x.is_dynamic:
        return empty(g, [size * count for size, count in zip(x.shape, found, strict=True)], x.dtype)
    return g("Tile", [x, vector_of(g, counts)]) if counts else x


@aten("roll", layout=ANY)
def _roll(node: AtenNode, g: Operators, self: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    if not self.rank:
        return self
    x, axes = (self, axes_of(node, dims, self.rank)) if dims else (flat(node, g, self), [0])
    if len(shifts) != len(axes):
        raise node.invalid(f"{len(shifts)} shifts along {len(axes)} axes")
    for shift, axis in zip(shifts, axes, strict=True):
        size = known(sizes_of(g, x)[axis])
        if not isinstance(size, Value):
            x = rolled(g, x, [shift], [axis])
            continue
        size = number(g, size)
        at = g("Sub", [size, g("Mod", [number(g, shift), size])])
        x = g("Concat", [cut(g, x, axis, at), cut(g, x, axis, 0, at)], axis=axis)
    return x if dims else reshaped(node, g, x, sizes_of(g, self))


@aten("fft_fftshift", "fft_ifftshift", layout=ANY)
def _half_turned(node: AtenNode, g: Operators, self: Value, dim: Sequence[int] | int | None) -> Value:
    axes = axes_of(node, range(self.rank) if dim is None else dim, self.rank)
    more = int(node.type == "fft_ifftshift")
    return rolled(g, self, [(dims(self)[axis] + more) // 2 for axis in axes], axes) if self.rank else self


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
