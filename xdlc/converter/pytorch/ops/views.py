"""Handlers of operators that change only the shape or the order of axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.functions.elementwise import bits_as
from xdlc.converter.functions.shapes import dims, permuted, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import Size, operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import FLOAT32


@aten("view", "view_copy", "_unsafe_view", symbolic=["size"])
@aten("_reshape_alias", "_reshape_alias_copy", "_reshape_copy", symbolic=["size"], ignores=["stride"])
@aten("reshape", symbolic=["shape"], names={"shape": "size"})
def _view(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return shapes.reshaped(g, self, size)


@aten("view_as", "reshape_as")
def _view_as(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return shapes.reshaped(g, self, shapes.sizes_of(g, other))


@aten("ravel")
def _ravel(node: AtenNode, g: Operators, self: Value) -> Value:
    return shapes.flat(g, self)


@aten("view.dtype", "view_copy.dtype")
def _view_bits(node: AtenNode, g: Operators, self: Value, dtype: DType) -> Value:
    if any(each.is_float and each is not FLOAT32 for each in (self.dtype, dtype)):
        raise node.problem(
            f"the host computes in float32, and cannot read the bits of {self.dtype} as {dtype}",
            "remove the operator, or export the model in float32",
        )
    sizes, ratio = dims(self), max(dtype.bits // self.dtype.bits, 1)
    if ratio > 1:  # elements become parts of wider ones, which are the last axis then
        if not sizes or sizes[-1] % ratio:
            raise node.invalid(f"{list(sizes)} of {self.dtype} are not whole elements of {dtype}")
        self = shapes.reshaped(g, self, [*sizes[:-1], sizes[-1] // ratio, ratio])
    made = bits_as(g, self, dtype)
    return shapes.reshaped(g, made, [*sizes[:-1], -1]) if made.rank > len(sizes) else made


@aten("flatten.using_ints")
def _flatten(node: AtenNode, g: Operators, self: Value, start_dim: int, end_dim: int) -> Value:
    first, last = shapes.axis_of(node, start_dim, self.rank), shapes.axis_of(node, end_dim, self.rank)
    if first > last:
        raise node.invalid(f"cannot flatten axes {first} to {last}")
    sizes, count = shapes.sizes_of(g, self), last + 1 - first
    joined = sizes[first : last + 1]
    whole = joined[0] if len(joined) == 1 else shapes.product(g, joined)
    return shapes.reshaped(g, self, shapes.replaced(sizes, first, whole, count=count))


@aten("unflatten.int", symbolic=["sizes"])
def _unflatten(node: AtenNode, g: Operators, self: Value, dim: int, sizes: Sequence[Size]) -> Value:
    return shapes.reshaped(
        g, self, shapes.replaced(shapes.sizes_of(g, self), shapes.axis_of(node, dim, self.rank), *sizes)
    )


@aten("squeeze", "squeeze_copy")
def _squeeze(node: AtenNode, g: Operators, self: Value, dim: int | Sequence[int] | None = None) -> Value:
    axes = shapes.axes_of(node, list(range(self.rank)) if dim is None else dim, self.rank)
    ones = [axis for axis in axes if axis < self.rank and shapes.size_of(self, axis) == 1]
    return g("Squeeze", [self, vector(g, ones)]) if ones else self


@aten("unsqueeze", "unsqueeze_copy")
def _unsqueeze(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    return g("Unsqueeze", [self, [node.axis(dim, self.rank + 1)]])


@aten("atleast_1d", "atleast_2d", "atleast_3d", names={"tensors": "self"})
def _at_least(node: AtenNode, g: Operators, self: Value | Sequence[Value]) -> Value | list[Value]:
    rank = int(node.type[len("atleast_")])
    return at_least(g, self, rank) if isinstance(self, Value) else [at_least(g, each, rank) for each in self]


def at_least(g: Operators, x: Value, rank: int) -> Value:
    """Return a value of rank 1 to 3 or more, like ``torch.atleast_1d`` and so on."""
    sizes = [*[1] * (rank > 1 and x.rank < 2), *shapes.sizes_of(g, x)]
    return shapes.reshaped(g, x, sizes + [1] * (rank - len(sizes)))


# ------------------------------------------------------------------ orders of axes


@aten("permute", "permute_copy")
def _permute(node: AtenNode, g: Operators, self: Value, dims: Sequence[int]) -> Value:
    order = shapes.axes_of(node, dims, self.rank)
    if len(order) != self.rank:
        raise node.invalid(f"order {list(dims)} does not fit {self.rank} axes")
    return permuted(g, self, order)


@aten("transpose.int", "transpose_copy.int", "swapdims")
@aten("swapaxes", names={"axis0": "dim0", "axis1": "dim1"})
@aten("t", "t_copy", "mT", "mH", "adjoint", "matrix_H", names={"a": "self"})
def _transpose(node: AtenNode, g: Operators, self: Value, dim0: int = -2, dim1: int = -1) -> Value:
    if self.rank < 2:
        return self
    first, second = node.axis(dim0, self.rank), node.axis(dim1, self.rank)
    return self if first == second else shapes.moved(g, self, [first, second], [second, first])


@aten("numpy_T", names={"a": "self"})
def _all_turned(node: AtenNode, g: Operators, self: Value) -> Value:
    return permuted(g, self, range(self.rank)[::-1])


@aten("movedim", "moveaxis")
def _moved(
    node: AtenNode, g: Operators, self: Value, source: int | Sequence[int], destination: int | Sequence[int]
) -> Value:
    return shapes.moved(
        g, self, shapes.axes_of(node, source, self.rank), shapes.axes_of(node, destination, self.rank)
    )


# ------------------------------------------------------------------ broadcasting


@aten("expand", "expand_copy", "broadcast_to", layout=ANY, symbolic=["size"], ignores=["implicit"])
def _expand(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return shapes.expanded(g, self, size)


@aten("expand_as", layout=ANY)
def _expand_as(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return shapes.expanded(g, self, shapes.sizes_of(g, other))


@aten("copy", layout=ANY)
def _copy(node: AtenNode, g: Operators, self: Value, src: Value) -> Value:
    return shapes.expanded(g, g.builder.cast(src, self.dtype), shapes.sizes_of(g, self))


@aten("broadcast_tensors")
def _broadcast_tensors(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> list[Value]:
    return shapes.together(g, tensors)


@aten("sum_to_size")
def _sum_to_size(node: AtenNode, g: Operators, self: Value, size: Sequence[int]) -> Value:
    wanted = [1] * (self.rank - len(size)) + list(size)
    axes = [axis for axis, (old, new) in enumerate(zip(dims(self), wanted, strict=False)) if old != new]
    if len(wanted) > self.rank or any(wanted[axis] != 1 for axis in axes):
        raise node.invalid(f"{list(self.shape)} does not broadcast to {list(size)}")
    x = operand(node, g, self)
    return shapes.reshaped(g, g("ReduceSum", [x, vector(g, axes)], keepdims=1) if axes else x, size)


@aten("_conj", "alias_copy", "detach_copy", layout=ANY)
def _same(node: AtenNode, g: Operators, self: Value) -> Value:
    return self
