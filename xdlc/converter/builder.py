"""Emitter for importers that keeps track of the axis orders of values.

Importers see values in the source's axis order and never insert a transpose.  The builder does,
at the edges between ops that want channels last and ops that want the source's order, and only
for tensors whose elements would really move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from xdlc import ir
from xdlc.converter.emitter import Emitter
from xdlc.converter.values import (
    Order,
    Value,
    broadcast,
    channel_last,
    check_table,
    grouped_order,
    identity,
    inverse,
    reshaped_order,
    same_bytes,
)
from xdlc.errors import UnsupportedOp
from xdlc.ir import DType, Graph, Param, Tensor, TensorData
from xdlc.ir.data import Array

Operand: TypeAlias = "Value | float | Sequence[int] | Array"
_NARROW = {f"{kind}{bits}": bits for kind in ("int", "uint") for bits in (2, 4)}


class Builder(Emitter):
    """An emitter that passes operands to ops in the axis order that the ops need.

    Attributes:
        wants_channel_last: Whether the node's result reaches a channel-last op through ops of any order.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.wants_channel_last = False

    def const(self, array: Array | TensorData, name: str | None = None) -> Value:
        """Return a static value; integers of 2 and 4 bits are stored in 8 bits."""
        data = array if isinstance(array, TensorData) else ir.ArrayData(array)
        dtype = data.dtype
        bits = None if dtype.isbuiltin == 1 else _NARROW.get(dtype.name)  # numpy's own have 8 bits or more
        if bits is not None:
            dtype = (ir.dtype.UINT8 if dtype.name.startswith("u") else ir.dtype.INT8).numpy
            data = data.cast(dtype)
        tensor = Tensor(
            name or f"{self.stem}_const",
            data.shape,
            ir.dtype.from_numpy(dtype),
            data=data,
            role=ir.Role.STATIC,
        )
        return Value(tensor, identity(len(data.shape)), bits=bits)

    def operand(self, item: Operand, like: DType) -> Value:
        """Return an operand as a value.

        Args:
            item: A value, a number, integers like axes and sizes (int64), or an array.
            like: Data type of a number; integers wrap around.

        Raises:
            UnsupportedOp: If a range is too long.
        """
        if isinstance(item, Value):
            return item
        if isinstance(item, np.ndarray):
            return self.const(item)
        if isinstance(item, float | np.generic | int):
            with np.errstate(all="ignore"):
                return self.const(np.asarray(item).astype(like.numpy))
        if isinstance(item, range):
            check_table(len(item))
        return self.const(np.asarray(item, np.int64).reshape(-1))

    def static_like(self, value: Value, data: TensorData, encoding: ir.Encoding | None = None) -> Value:
        """Return a static value with other data, and the name and type of ``value``."""
        held = value.tensor
        tensor = Tensor(held.name, data.shape, held.dtype, encoding, data, ir.Role.STATIC)
        return Value(tensor, identity(len(data.shape)))

    def to_layout(self, value: Value, order: Order, *, why: str | None = None) -> Tensor:
        """Return ``value`` as a tensor in a stated axis order.

        Args:
            order: Wanted order: axis i of the result is source axis ``order[i]``.
            why: Reason noted on an inserted op.
        """
        if value.order == order:
            return self._linked(value.tensor) if value.is_static else value.tensor
        perm = tuple(value.order.index(axis) for axis in order)
        form = self._form(value, perm)
        if form is None:
            if value.tensor.data is not None:
                encoding = _transposed_encoding(value.tensor.encoding, perm)
                form = self._static_form(value, value.tensor.data.transpose(perm), encoding)
            else:
                form = self._rearranged(value.tensor, perm, why or f"{self.node} reads another axis order")
            value.forms[perm] = form
        return self._linked(form) if form.is_static else form

    def source_order(self, value: Value) -> Tensor:
        """Return ``value`` as a tensor in the source's axis order."""
        return self.to_layout(value, identity(value.rank), why=f"{self.node} needs the source's axis order")

    def source_form(self, value: Value) -> Tensor:
        """Return ``value`` as a tensor in the source's axis order and rank.

        Raises:
            UnsupportedOp: If it holds integers that are narrower than those of any tensor.
        """
        if value.bits is not None:
            raise UnsupportedOp(f"{value.tensor.name!r} holds integers of {value.bits} bits")
        if value.rank or value.is_static:
            return self.source_order(value)
        return self.scalar(value)

    def value_of(self, tensor: Tensor, *, ranked: bool = True) -> Value:
        """Return the value of a computed tensor, in the source's form; a scalar is [1]."""
        if tensor.rank:
            return Value(tensor, identity(tensor.rank), ranked=ranked)
        lying = self.emit("Reshape", [tensor], (1,), tensor.dtype, why="backends refuse rank 0")
        return Value(lying, (), scalar=tensor)

    def channel_last(self, value: Value) -> Tensor:
        """Return ``value`` as a tensor with axis 1 (channels) at the end."""
        return self.to_layout(value, channel_last(value.rank), why=f"{self.node} works channel-last")

    def _form(self, value: Value, perm: Order) -> Tensor | None:
        """Return the tensor of a value with permuted axes, if that is still in the graph."""
        made = value.forms.get(perm)
        return None if made is None or self._is_retracted(made) else self._on_floats(made)

    def _on_floats(self, tensor: Tensor) -> Tensor:
        """Return a form of floats: one that has become fixed point is represented."""
        return self.standing(tensor) if tensor.dtype.is_fixed and not tensor.is_static else tensor

    def _is_retracted(self, tensor: Tensor) -> bool:
        return not tensor.is_static and self.graph.tensors.get(tensor.name) is not tensor

    def scalar(self, value: Value) -> Tensor:
        """Return the tensor of rank 0 of a computed scalar."""
        scalar = self.known_scalar(value)
        if scalar is None:
            held = value.tensor
            why = "a scalar again"
            scalar = self.emit("Reshape", [held], (), held.dtype, encoding=held.encoding, why=why)
            value.scalar = scalar
        return scalar

    def known_scalar(self, value: Value) -> Tensor | None:
        """Return the rank-0 tensor of a computed scalar, or None."""
        made = value.scalar
        return None if made is None or self._is_retracted(made) else self._on_floats(made)

    def _static_form(self, value: Value, data: TensorData, encoding: ir.Encoding | None) -> Tensor:
        held = value.tensor
        return self._linked(Tensor(held.name, data.shape, held.dtype, encoding, data, ir.Role.STATIC))

    def _rearranged(self, tensor: Tensor, perm: Sequence[int], why: str) -> Tensor:
        shape = tuple(tensor.shape[axis] for axis in perm)
        if tensor.dynamic_axes:
            raise UnsupportedOp(f"{tensor.name!r} has dynamic dimensions, and xdlc cannot rearrange them")
        if same_bytes(tensor.shape, perm):
            if shape == tensor.shape:
                return tensor
            return self.emit("Reshape", [tensor], shape, tensor.dtype, encoding=tensor.encoding, why=why)
        params = {"perm": ir.u32s(perm)}
        return self.emit(
            "Transpose", [tensor], shape, tensor.dtype, params, encoding=tensor.encoding, why=why
        )

    def moved(self, value: Value, perm: Sequence[int], why: str | None) -> Value:
        """Return ``value`` with its source axes permuted by a Transpose of its own."""
        order = tuple(perm)
        known = self._form(value, tuple(value.order.index(axis) for axis in order))
        if value.order == order or value.is_static or known is not None:
            return Value(self.to_layout(value, order), identity(value.rank))
        before, noted, self.noted = self.base, self.noted, None
        self.base = noted[0] if noted else before
        tensor = self.to_layout(value, order, why=why)
        self.base = before
        return Value(tensor, identity(value.rank))

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Return ``value`` with its source axes permuted; no op is needed for that."""
        if value.tensor.data is not None:
            encoding = _transposed_encoding(value.tensor.encoding, perm)
            return self.static_like(value, value.tensor.data.transpose(perm), encoding)
        return Value(value.tensor, tuple(map(inverse(perm).__getitem__, value.order)), value.forms)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return ``value`` under another source shape of as many elements."""
        dims = tuple(int(dim) for dim in shape)
        if value.is_dynamic:
            raise UnsupportedOp(f"{value.tensor.name!r} has dynamic dimensions, and xdlc cannot reshape them")
        if dims == value.shape:
            return value
        if value.tensor.data is not None:
            encoding = _reshaped_encoding(value.tensor.encoding, value.shape, dims)
            return self.static_like(value, value.tensor.data.reshape(dims), encoding)
        tensor, order = value.tensor, reshaped_order(value.shape, value.order, dims)
        if order is None and self.wants_channel_last:
            near = grouped_order(value.shape, value.order, dims)
            made = reshaped_order(value.shape, near, dims) if near is not None else None
            if near is not None and made == channel_last(len(dims)):
                order = made
                tensor = self.to_layout(value, near, why=f"{self.node} joins axes that are not adjacent")
        if order is None:
            tensor, order = self.source_order(value), identity(len(dims))
        lying = tuple(dims[axis] for axis in order) or (1,)
        if lying != tensor.shape:
            tensor = self.emit("Reshape", [tensor], lying, tensor.dtype, encoding=tensor.encoding)
        return Value(tensor, order)

    def with_rank(self, value: Value, rank: int) -> Value:
        """Return ``value`` with leading axes of size 1 up to ``rank`` axes."""
        return self.reshape(value, (1,) * (rank - value.rank) + value.shape)

    def aligned(self, values: Sequence[Value]) -> tuple[list[Tensor], Order]:
        """Return tensors of values in one axis order, for an element-wise operation.

        The order is the one in which the most bytes lie already, or have been brought into for another op;
        static values follow for free.  Values of lower rank broadcast from the right, as in the source.
        """
        rank = max(value.rank for value in values)
        full = [value for value in values if not value.is_static and value.rank == rank]
        plain = identity(rank)

        def gain(order: Order) -> tuple[int, int, bool]:
            lying = sum(value.tensor.nbytes for value in full if value.order == order)
            if self.wants_channel_last:
                return lying, 0, order != plain
            made = [self._form(value, tuple(value.order.index(axis) for axis in order)) for value in full]
            copies = sum(tensor.nbytes for tensor in made if tensor is not None)
            return lying + copies, lying, order != plain

        order = max(dict.fromkeys(value.order for value in full), key=gain, default=plain)
        trim = any(value.rank == rank and not value.is_static for value in values)
        return [self._broadcastable(value, rank, order, trim) for value in values], order

    def _broadcastable(self, value: Value, rank: int, order: Order, trim: bool) -> Tensor:
        if not value.is_static:
            if order == identity(rank) and value.order == identity(value.rank) and value.rank:
                return value.tensor
            return self.to_layout(
                self.with_rank(value, rank), order, why=f"{self.node} combines values of different axis order"
            )
        key = (trim, rank, *order)
        made = value.forms.get(key)
        if made is None:
            made = value.forms[key] = self._broadcastable_static(value.tensor, rank, order, trim)
        return made

    def _broadcastable_static(self, tensor: Tensor, rank: int, order: Order, trim: bool) -> Tensor:
        """Return static data in an axis order; trim leading dimensions of 1 if ``trim``."""
        full = (1,) * (rank - tensor.rank) + tensor.shape
        shape = tuple(full[axis] for axis in order)
        while trim and len(shape) > 1 and shape[0] == 1:
            shape = shape[1:]
        shape = shape or (1,)
        if shape == tensor.shape and same_bytes(full, order):
            return self._linked(tensor)
        if tensor.data is None:
            raise ValueError(f"{tensor.name} is not static")
        if tensor.encoding is not None and not isinstance(tensor.encoding, ir.ScaleOffset):
            raise ValueError(f"{tensor.name} is quantized along an axis")
        data = tensor.data.reshape(full).transpose(order).reshape(shape)
        made = Tensor(tensor.name, shape, tensor.dtype, tensor.encoding, data, ir.Role.STATIC)
        return self._linked(made)

    def elementwise(
        self,
        type: str,
        values: Sequence[Value],
        params: Mapping[str, Param] | None = None,
        *,
        dtype: DType | None = None,
        encoding: ir.Encoding | None = None,
        package: str = ir.NATIVE_PACKAGE,
    ) -> Value:
        """Append an op that works element by element with broadcasting, in any axis order."""
        tensors, order = self.aligned(values)
        rank = len(order)
        full = [((1,) * (rank - value.rank) + value.shape) for value in values]
        shape = tuple(broadcast([dims[axis] for dims in full]) for axis in range(rank))
        lying = tuple(shape[axis] for axis in order) or (1,)
        out = self.emit(
            type, tensors, lying, dtype or values[0].dtype, params, encoding=encoding, package=package
        )
        out.dynamic_axes = _open_axes(values, shape)
        return Value(out, order)

    def unary(
        self,
        type: str,
        value: Value,
        params: Mapping[str, Param] | None = None,
        *,
        dtype: DType | None = None,
        encoding: ir.Encoding | None = None,
        package: str = ir.NATIVE_PACKAGE,
    ) -> Value:
        """Append an op that keeps shape and axis order."""
        tensor = self._linked(value.tensor) if value.is_static else value.tensor
        out = self.emit(
            type, [tensor], tensor.shape, dtype or value.dtype, params, encoding=encoding, package=package
        )
        out.dynamic_axes = tensor.dynamic_axes
        return Value(out, value.order, ranked=value.ranked)

    def binary(self, operation: int, a: Value, b: Value, *, dtype: DType | None = None) -> Value:
        """Append an ElementWiseBinary; the numbers of ``operation`` are QNN's."""
        return self.elementwise("ElementWiseBinary", [a, b], {"operation": ir.u32(operation)}, dtype=dtype)

    def cast(self, value: Value, dtype: DType) -> Value:
        """Return ``value`` converted to another plain data type."""
        if value.dtype is dtype:
            return value
        if value.tensor.data is not None:
            return self.const(value.tensor.data.cast(dtype.numpy), value.tensor.name)
        return self.unary("Cast", value, dtype=dtype)


def _open_axes(values: Sequence[Value], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the dynamic axes of the broadcast of values of one axis order.

    A dynamic dimension is 1 in a shape, so that it yields to any other.
    """
    rank = len(shape)
    found = {axis + rank - value.rank for value in values for axis in value.tensor.dynamic_axes}
    return tuple(sorted(axis for axis in found if shape[axis] == 1))


def _transposed_encoding(encoding: ir.Encoding | None, perm: Sequence[int]) -> ir.Encoding | None:
    if isinstance(encoding, ir.AxisScaleOffset):
        return replace(encoding, axis=list(perm).index(encoding.axis))
    return encoding


def _reshaped_encoding(
    encoding: ir.Encoding | None, shape: Sequence[int], wanted: Sequence[int]
) -> ir.Encoding | None:
    if isinstance(encoding, ir.AxisScaleOffset):
        kept = encoding.axis + 1
        if tuple(shape[:kept]) != tuple(wanted[:kept]):
            raise ValueError("xdlc cannot reshape an axis that has one scale per index")
    return encoding
