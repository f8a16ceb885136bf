"""Values of a source model, each with the axis order of its tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache
from typing import Any

from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import DType, Tensor
from xdlc.ir.data import Array
from xdlc.records import record

Order = tuple[int, ...]
Dims = tuple[int | None, ...]
"""A shape in the source's axis order, None for a dimension that is only known when the graph runs."""

TABLE_LIMIT = 1 << 24
"""Most elements of a table that is laid out while converting because dimensions require it."""
TABLES_LIMIT = 1 << 26
"""Most elements of all such tables of a model."""

FILLS_LIMIT = 5 << 27
"""Most bytes of all tensors of a model that repeat smaller ones; light_vgg19 of ONNX has 550 MB."""
LIST_LIMIT = 1 << 20
"""Most elements of one of them that has one axis."""
RANK_LIMIT = 64
EXTENT_LIMIT = (1 << 31) - 1
SIZE_LIMIT = 1 << 40
"""Most bytes of a value; no machine that runs a DLC holds more."""


@cache
def identity(rank: int) -> Order:
    """Return the source's own axis order."""
    return tuple(range(rank))


@cache
def channel_last(rank: int) -> Order:
    """Return the order that moves axis 1 to the end: NCHW to NHWC, NCW to NWC."""
    return identity(rank) if rank < 3 else (0, *range(2, rank), 1)


def inverse(order: Sequence[int]) -> Order:
    """Return the permutation that undoes ``order``."""
    result = [0] * len(order)
    for position, axis in enumerate(order):
        result[axis] = position
    return tuple(result)


@record(frozen=True)
class Spec:
    """Facts about a value before the graph runs.

    Attributes:
        shape: Dims, None for one that is open; None as a whole if even the rank is.
        dtype: numpy dtype, or None if it is not a tensor of plain numbers.
    """

    shape: Dims | None
    dtype: Any


@record(eq=False)
class Value:
    """A value of the source model.

    Attributes:
        tensor: The IR tensor that holds it; a computed scalar is stored in a tensor of shape [1], as
            backends refuse rank 0.
        order: Axis i of ``tensor`` is axis ``order[i]`` of the source value.
        forms: The tensor with its axes permuted, by permutation, as far as they are made; those of other
            views of it as well.
        scalar: The tensor of rank 0 of a computed scalar, if there is one.
        ranked: Whether the number of axes is known before the graph runs; if not, the tensor has
            one open axis for all.
        bits: Width of static integers that are narrower than the 8 bits they are kept in.
    """

    tensor: Tensor
    order: Order
    forms: dict[tuple[int, ...], Tensor] = field(default_factory=dict)
    scalar: Tensor | None = None
    ranked: bool = True
    bits: int | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.order)

    @property
    def shape(self) -> tuple[int, ...]:
        """Dims in the source's axis order."""
        shape = self.tensor.shape
        if self.order == identity(len(self.order)):
            return shape[: len(self.order)]  # none of a computed scalar
        extents = [0] * len(self.order)
        for position, axis in enumerate(self.order):
            extents[axis] = shape[position]
        return tuple(extents)

    @property
    def dims(self) -> Dims | None:
        """Shape in the source's order; None for a dynamic dimension or rank."""
        if not self.ranked:
            return None
        dims: list[int | None] = list(self.shape)
        for axis in self.tensor.dynamic_axes:
            dims[self.order[axis]] = None
        return tuple(dims)

    @property
    def dtype(self) -> DType:
        """Data type."""
        return self.tensor.dtype

    @property
    def is_static(self) -> bool:
        """Whether the value is known while importing, in source order."""
        return self.tensor.data is not None

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension is only known when the graph runs."""
        return bool(self.tensor.dynamic_axes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor.size

    def axis(self, source_axis: int) -> int:
        """Return the axis of the tensor for a source axis (negative: from the end)."""
        return self.order.index(source_axis + self.rank if source_axis < 0 else source_axis)

    def numpy(self) -> Array:
        """Return the elements of a static value."""
        return self.tensor.numpy()


class StoredValue(Value):
    """Integers or floats of the source that a fixed-point tensor stores.

    They are made when something reads them.

    Args:
        real: The floats that they denote, which stand for the tensor.
        dtype: Their type in the source.
        source: The statement of their encoding in the source.
        make: Returns a tensor of them, the one that it made before if that is still in the graph.
    """

    __slots__ = ("_dtype", "_made", "_make", "real", "source")

    def __init__(
        self, real: Value, dtype: DType, source: object, make: Callable[[Tensor | None], Tensor]
    ) -> None:
        self.order, self.ranked = real.order, real.ranked
        self.forms, self.scalar, self.bits = {}, None, None
        self.real, self._dtype, self.source, self._make = real, dtype, source, make
        self._made: Tensor | None = None

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def is_static(self) -> bool:
        return False

    @property
    def tensor(self) -> Tensor:  # type: ignore[override]
        self._made = self._make(self._made)
        return self._made


@record(frozen=True, eq=False)
class SequenceValue:
    """A sequence of the source model, whose length is known while importing.

    Attributes:
        elements: Its tensors.
    """

    elements: tuple[Value, ...]

    @property
    def is_static(self) -> bool:
        """False: it has no elements of its own that could be constant."""
        return False

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension of an element is only known when the graph runs."""
        return any(element.is_dynamic for element in self.elements)


@record(frozen=True, eq=False)
class OptionalValue:
    """An optional of the source model.

    Attributes:
        present: Whether it holds something, a truth value of rank 0.
        element: What it holds, or would hold; None if it is known while importing that it is empty.
    """

    present: Value
    element: Value | SequenceValue | None

    @property
    def is_static(self) -> bool:
        """False: it has no elements of its own that could be constant."""
        return False

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension of its element is only known when the graph runs."""
        return self.element is not None and self.element.is_dynamic


AnyValue = Value | SequenceValue | OptionalValue
"""Values that a name of the source may denote."""


def check_shape(name: str, shape: Sequence[int | None], dtype: DType) -> None:
    """Refuse a value whose rank or size exceeds the limits.

    Raises:
        ModelError: If it has too many axes, an impossible dimension, or too many bytes.
    """
    if len(shape) > RANK_LIMIT:
        raise ModelError(f"{name!r} has {len(shape)} axes; xdlc supports at most {RANK_LIMIT}")
    count = 1
    for extent in shape:
        if extent is not None:
            if not 0 <= extent <= EXTENT_LIMIT:
                raise ModelError(f"{name!r} has the impossible shape {list(shape)}")
            count *= extent
    if count > SIZE_LIMIT // max(dtype.bits // 8, 1):
        raise ModelError(f"{name!r} has the impossible size of {count} elements, {dtype}{list(shape)}")


def check_table(*extents: int) -> None:
    """Refuse a table that a few bytes of the model request.

    Raises:
        UnsupportedOp: If it is too large; the host may compute it when the graph runs.
    """
    count = math.prod(extents)
    if count > TABLE_LIMIT:
        raise UnsupportedOp(f"the node needs a table of {count} elements; xdlc writes at most {TABLE_LIMIT}")


def open_tensor(name: str, shape: Sequence[int | None], dtype: DType) -> Tensor:
    """Return a tensor whose dynamic dimensions, None in the shape, are dynamic axes.

    Raises:
        ModelError: If nothing could hold it.
    """
    check_shape(name, shape, dtype)
    return Tensor(
        name,
        tuple(1 if extent is None else extent for extent in shape),
        dtype,
        dynamic_axes=tuple(axis for axis, extent in enumerate(shape) if extent is None),
    )


def broadcast(sizes: Sequence[int]) -> int:
    """Return the common size of an axis under broadcasting.

    Raises:
        ValueError: If two sizes differ and neither is 1.
    """
    wide = {size for size in sizes if size != 1}
    if len(wide) > 1:
        raise ValueError(f"sizes {list(sizes)} do not broadcast")
    return wide.pop() if wide else 1


def same_bytes(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Return whether a transposition of ``shape`` moves no element."""
    moving = [axis for axis in perm if shape[axis] != 1]
    return moving == sorted(moving)


def reshaped_order(source: Sequence[int], order: Order, target: Sequence[int]) -> Order | None:
    """Return the axis order after a reshape of the stored tensor.

    The axes are cut into the smallest groups of equal size on both sides; that works on the tensor
    if it holds the axes of each group side by side and in their order.  Axes of size 1 go
    anywhere.

    Args:
        source: Shape before, in source order.
        order: Axis order of the tensor.
        target: Shape after, in source order.

    Returns:
        The order of the reshaped tensor, or None if the axes must be put into source order first.
    """
    groups = _groups(source, target)
    if groups is None:
        return None
    group_of = {axis: group for group in groups for axis in group[0]}
    kept = [axis for axis in order if source[axis] != 1]
    result: list[int] = []
    position = 0
    while position < len(kept):
        inputs, outputs = group_of[kept[position]]
        if kept[position : position + len(inputs)] != list(inputs):
            return None
        result.extend(outputs)
        position += len(inputs)
    return _with_unit_axes(result, len(target))


def grouped_order(source: Sequence[int], order: Order, target: Sequence[int]) -> Order | None:
    """Return the axis order next to ``order`` in which a reshape can be done, or None.

    The axes of each group that ``reshaped_order`` speaks of are brought together where the first
    of them is; the groups stay where they are.
    """
    groups = _groups(source, target)
    if groups is None:
        return None
    group_of = {axis: inputs for inputs, _ in groups for axis in inputs}
    joined = dict.fromkeys(group_of[axis] for axis in order if source[axis] != 1)
    return _with_unit_axes([axis for inputs in joined for axis in inputs], len(source))


def _groups(
    source: Sequence[int], target: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    left = [(axis, extent) for axis, extent in enumerate(source) if extent != 1]
    right = [(axis, extent) for axis, extent in enumerate(target) if extent != 1]
    if any(extent < 1 for _, extent in [*left, *right]):
        return None
    groups = []
    i = j = 0
    while i < len(left) and j < len(right):
        inputs, outputs = [left[i][0]], [right[j][0]]
        a, b = left[i][1], right[j][1]
        i, j = i + 1, j + 1
        while a != b:
            if a < b and i < len(left):
                inputs.append(left[i][0])
                a *= left[i][1]
                i += 1
            elif b < a and j < len(right):
                outputs.append(right[j][0])
                b *= right[j][1]
                j += 1
            else:
                return None
        groups.append((tuple(inputs), tuple(outputs)))
    return groups if i == len(left) and j == len(right) else None


def _with_unit_axes(axes: list[int], rank: int) -> Order:
    """Complete an order of the axes that matter by the axes of size 1."""
    for candidate in (identity(rank), channel_last(rank)):
        if [axis for axis in candidate if axis in axes] == axes:
            return candidate
    units = [axis for axis in range(rank) if axis not in axes]
    return (*units, *axes)
