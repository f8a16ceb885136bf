"""Handlers of operators that look at the same elements in another shape or order of axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.nhwc.elementwise import bits_as
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    axes_of,
    axis_of,
    common_shape,
    expanded,
    moved,
    product,
    reshaped,
    sizes_of,
)
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import FLOAT32


@aten("view", "view_copy", "_unsafe_view", symbolic=["size"])
def _view(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return reshaped(node, g, self, size)


@aten("_reshape_alias", "_reshape_alias_copy", symbolic=["size"], ignores=["stride"])
def _reshape_alias(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return reshaped(node, g, self, size)


@aten("reshape", symbolic=["shape"])
def _reshape(node: AtenNode, g: Operators, self: Value, shape: Sequence[Size]) -> Value:
    return reshaped(node, g, self, shape)


@aten("_reshape_copy", symbolic=["size"])
def _reshape_copy(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return reshaped(node, g, self, size)


@aten("view_as", "reshape_as")
def _view_as(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return reshaped(node, g, self, sizes_of(g, other))


@aten("view.dtype", "view_copy.dtype")
def _view_bits(node: AtenNode, g: Operators, self: Value, dtype: DType) -> Value:
    if any(each.is_float and each is not FLOAT32 for each in (self.dtype, dtype)):
        raise node.problem(
            f"the bits of {self.dtype} as {dtype}: the host computes in float32",
            "remove the operator, or export the model in float32",
        )
    if self.dtype.bits == dtype.bits:
        return bits_as(g, self, dtype)
    if not self.rank:
        raise node.invalid("a scalar has no bits of another width")
    few, many = sorted((self.dtype.bits, dtype.bits))
    ratio, sizes = many // few, dims(self)
    if self.dtype.bits > dtype.bits:
        return reshaped(node, g, bits_as(g, self, dtype), [*sizes[:-1], sizes[-1] * ratio])
    if sizes[-1] % ratio:
        raise node.invalid(f"{sizes[-1]} elements of {self.dtype} are no whole ones of {dtype}")
    return bits_as(g, reshaped(node, g, self, [*sizes[:-1], sizes[-1] // ratio, ratio]), dtype)


@aten("flatten.using_ints")
def _flatten(node: AtenNode, g: Operators, self: Value, start_dim: int, end_dim: int) -> Value:
    first, last = axis_of(node, start_dim, self.rank), axis_of(node, end_dim, self.rank)
    if first > last:
        raise node.invalid(f"flattens axes {first} to {last}")
    sizes = sizes_of(g, self)
    joined = sizes[first : last + 1]
    whole: Size = joined[0] if len(joined) == 1 else product(g, joined)
    return reshaped(node, g, self, [*sizes[:first], whole, *sizes[last + 1 :]])


@aten("ravel")
def _ravel(node: AtenNode, g: Operators, self: Value) -> Value:
    return reshaped(node, g, self, [-1] if self.size or self.is_dynamic else [0])


@aten("unflatten.int", symbolic=["sizes"])
def _unflatten(node: AtenNode, g: Operators, self: Value, dim: int, sizes: Sequence[Size]) -> Value:
    whole, axis = sizes_of(g, self), axis_of(node, dim, self.rank)
    return reshaped(node, g, self, [*whole[:axis], *sizes, *whole[axis + 1 :]])


@aten("squeeze", "squeeze_copy")
def _squeeze_all(node: AtenNode, g: Operators, self: Value) -> Value:
    return reshaped(node, g, self, [size for size in sizes_of(g, self) if size != 1])


@aten("squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze(node: AtenNode, g: Operators, self: Value, dim: int | Sequence[int]) -> Value:
    if self.dims is None:
        return g("Squeeze", [self, vector(g, [dim] if isinstance(dim, int) else list(dim))])
    axes = [axis for axis in axes_of(node, dim, self.rank) if axis < self.rank and self.dims[axis] == 1]
    if not axes:  # an open dimension is not 1: torch.export leaves 1 to itself
        return self
    if self.is_dynamic:
        return g("Squeeze", [self, vector(g, axes)])
    return reshaped(node, g, self, [size for axis, size in enumerate(self.shape) if axis not in axes])


@aten("unsqueeze", "unsqueeze_copy")
def _unsqueeze(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    return g("Unsqueeze", [self, vector(g, [node.axis(dim, self.rank + 1)])])


# ------------------------------------------------------------------ orders of axes


@aten("permute", "permute_copy")
def _permute(node: AtenNode, g: Operators, self: Value, dims: Sequence[int]) -> Value:
    order = axes_of(node, dims, self.rank)
    if len(order) != self.rank:
        raise node.invalid(f"order {list(dims)} of {self.rank} axes")
    return moved(g, self, order, range(self.rank))


def _swapped(node: AtenNode, g: Operators, x: Value, first: int, second: int) -> Value:
    first, second = axis_of(node, first, x.rank), axis_of(node, second, x.rank)
    return x if first == second else moved(g, x, [first, second], [second, first])


@aten("transpose.int", "transpose_copy.int", "swapdims")
def _transpose(node: AtenNode, g: Operators, self: Value, dim0: int, dim1: int) -> Value:
    return _swapped(node, g, self, dim0, dim1)


@aten("swapaxes")
def _swap_axes(node: AtenNode, g: Operators, self: Value, axis0: int, axis1: int) -> Value:
    return _swapped(node, g, self, axis0, axis1)


@aten("t", "t_copy", "mT", "mH", "adjoint", "matrix_H")
def _turned(node: AtenNode, g: Operators, self: Value) -> Value:
    return self if self.rank < 2 else _swapped(node, g, self, -2, -1)


@aten("mT.a", "mH.a", "matrix_H.a")
def _turned_attribute(node: AtenNode, g: Operators, a: Value) -> Value:
    return _turned(node, g, a)


@aten("numpy_T")
def _all_turned(node: AtenNode, g: Operators, self: Value) -> Value:
    return moved(g, self, range(self.rank)[::-1], range(self.rank))


@aten("numpy_T.a")
def _all_turned_attribute(node: AtenNode, g: Operators, a: Value) -> Value:
    return _all_turned(node, g, a)


@aten("movedim", "moveaxis")
def _moved(
    node: AtenNode, g: Operators, self: Value, source: int | Sequence[int], destination: int | Sequence[int]
) -> Value:
    return moved(g, self, axes_of(node, source, self.rank), axes_of(node, destination, self.rank))


# ------------------------------------------------------------------ broadcasting


@aten("expand", "expand_copy", layout=ANY, symbolic=["size"], ignores=["implicit"])
def _expand(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return expanded(node, g, self, size)


@aten("broadcast_to", layout=ANY, symbolic=["size"])
def _broadcast_to(node: AtenNode, g: Operators, self: Value, size: Sequence[Size]) -> Value:
    return expanded(node, g, self, size)


@aten("expand_as", layout=ANY)
def _expand_as(node: AtenNode, g: Operators, self: Value, other: Value) -> Value:
    return expanded(node, g, self, sizes_of(g, other))


@aten("broadcast_tensors")
def _broadcast_tensors(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> list[Value]:
    shape = common_shape(node, tensors)
    return [expanded(node, g, each, shape) for each in tensors]


@aten("sum_to_size")
def _sum_to_size(node: AtenNode, g: Operators, self: Value, size: Sequence[int]) -> Value:
    shape, more = dims(self), self.rank - len(size)
    wanted = [1] * more + list(size)
    axes = [axis for axis, (old, new) in enumerate(zip(shape, wanted, strict=False)) if old != new]
    if more < 0 or any(wanted[axis] != 1 for axis in axes):
        raise node.invalid(f"{list(shape)} is no broadcast form of {list(size)}")
    x = g.builder.cast(self, node.dtype)
    return reshaped(node, g, g("ReduceSum", [x, vector(g, axes)], keepdims=1) if axes else x, size)


@aten("atleast_1d", "atleast_2d", "atleast_3d")
def _at_least(node: AtenNode, g: Operators, self: Value) -> Value:
    least = int(node.type[len("atleast_")])
    sizes = sizes_of(g, self)
    before = 1 if least > 1 and len(sizes) < 2 else 0
    made: list[Size] = [*([1] * before), *sizes]
    return reshaped(node, g, self, made + [1] * (least - len(made)))


@aten("atleast_1d.Sequence", "atleast_2d.Sequence", "atleast_3d.Sequence")
def _all_at_least(node: AtenNode, g: Operators, tensors: Sequence[Value]) -> list[Value]:
    return [_at_least(node, g, each) for each in tensors]


# ------------------------------------------------------------------ the same value


@aten("_conj", "_conj_copy", "_lazy_clone", "alias_copy", "detach_copy", layout=ANY)
def _same(node: AtenNode, g: Operators, self: Value) -> Value:
    return self


@aten("copy", layout=ANY)
def _copy(node: AtenNode, g: Operators, self: Value, src: Value) -> Value:
    return expanded(node, g, g.builder.cast(src, self.dtype), sizes_of(g, self))
