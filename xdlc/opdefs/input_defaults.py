"""Static tensors for missing inputs whose definition has a default."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import FLOAT32, UINT8, UINT16, DType
from xdlc.ir.tensor import Role, Tensor
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView
from xdlc.opdefs.shape_text import input_shape

MAX_ELEMENTS = 1 << 22
"""Most elements that one number is repeated to, in all inputs of an op."""


def default_inputs(definition: OpDef, view: OpView) -> dict[int, Tensor]:
    """Return a static tensor for each missing input that has a default, by position.

    It has the type of the first input if its definition accepts that, or else the first that it accepts;
    fixed-point types become float32.  One number is repeated in the shape of the input's text, in which
    unknown dimensions are 1; such a tensor has one axis if its rank is open.

    Raises:
        ModelError: If a default does not fit.

    Example:
        >>> from xdlc.opdefs.source_match import TensorSpec
        >>> x = TensorDef("x", True, (), 2, "[n, c]")
        >>> bias = TensorDef("bias", False, (), 1, "[c]", default="0.5")
        >>> view = OpView("P", "A", "a", (TensorSpec((2, 3), FLOAT32),), (None,))
        >>> default_inputs(OpDef("A", "P", (x, bias), (), {}), view)[1].numpy()
        array([0.5, 0.5, 0.5], dtype=float32)
    """
    tensors: dict[int, Tensor] = {}
    room = MAX_ELEMENTS
    for index, place in enumerate(definition.inputs):
        is_there = index < len(view.inputs) and view.inputs[index] is not None
        if not is_there and place.default is not None and not place.repeated:
            tensors[index] = _tensor(definition, view, place, room)
            room -= min(room, tensors[index].size)
    return tensors


def _tensor(definition: OpDef, view: OpView, place: TensorDef, room: int) -> Tensor:
    import numpy

    first = next((spec.dtype for spec in view.inputs if spec is not None), FLOAT32)
    reason: ValueError | None = None
    for dtype in _types(first, place.dtypes):
        try:
            value = default_value(replace(place, dtypes=(dtype,)))
            shape = _shape(definition, view, place, room) if not isinstance(value, list) else None
        except ValueError as error:
            reason = reason or error
            continue
        array = numpy.asarray(value, dtype.numpy)
        data = array if shape is None else numpy.full(shape, array)
        return Tensor(place.name, data.shape, dtype, data=ArrayData(data), role=Role.STATIC)
    raise ModelError(
        f"the default of input {place.name!r} is {reason}",
        where=f"op {view.name!r} ({view.package}::{view.type})",
        fix="correct the default in the definition",
    )


def _types(first: DType, allowed: Sequence[DType]) -> Iterator[DType]:
    """Yield the data types of a default, the preferred one first."""
    first = FLOAT32 if first.is_fixed else first
    if first in allowed or not allowed or (first is FLOAT32 and _take_floats(allowed)):
        yield first
    for dtype in allowed or (FLOAT32,):
        yield FLOAT32 if dtype.is_fixed else dtype


def _take_floats(allowed: Sequence[DType]) -> bool:
    kinds = [dtype.is_fixed or dtype in (UINT8, UINT16) for dtype in allowed]
    return all(kinds) or any(dtype.is_fixed for dtype in allowed)


def _shape(definition: OpDef, view: OpView, place: TensorDef, room: int) -> tuple[int, ...]:
    stated: Sequence[Any] = input_shape(definition, view, place) or [1] * (place.rank or 1)
    shape = tuple(1 if size is None else int(size) for size in stated)
    if math.prod(shape) > room or min(shape) < 1:
        raise ValueError(f"one number for the shape {list(shape)}, expected 1 to {room} elements")
    return shape
