"""Op views: an operation's tensors and parameters as plain values by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from xdlc.ir.data import TensorData
from xdlc.ir.dtype import DType
from xdlc.ir.graph import Op
from xdlc.ir.tensor import Param, Tensor
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.records import record

Value = Any
"""A plain value of a parameter: int, float, bool, str, numpy.ndarray, or a list of one of the first four."""


@record(frozen=True)
class TensorSpec:
    """Type of a tensor before a graph runs.

    Attributes:
        shape: Dimensions, None for a dynamic one.
        layout: ``NHWC``, ``NCHW``, ``NHCW``, or empty.
        data: Elements of a static tensor.
    """

    shape: tuple[int | None, ...]
    dtype: DType
    name: str = ""
    layout: str = ""
    data: TensorData | None = None


@record(frozen=True)
class OpView:
    """An op as constraints, shape functions and kernels read it.

    Attributes:
        inputs: Inputs in the order and layout of the definition; None for a missing one.
        outputs: Outputs; None for one that is not known.
        params: Parameters by name, as plain values; an enumeration under the name of its value.
    """

    package: str
    type: str
    name: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    params: Mapping[str, Value] = field(default_factory=dict)


def view_of(op: Op, definition: OpDef) -> OpView:
    """Return a view of an op of a graph by its definition."""
    return make_view(definition, op.name, op.inputs, op.params, op.outputs)


def make_view(
    definition: OpDef,
    name: str,
    inputs: Sequence[Tensor | None],
    params: Mapping[str, Param],
    outputs: Sequence[Tensor] = (),
    *,
    as_data: bool = False,
) -> OpView:
    """Return the view of an op that may not exist yet.

    Args:
        inputs: Tensors by position; None for a missing one.
        outputs: Tensors by position; none where they are not inferred yet.
        as_data: Whether parameters that are tensors become their data, which rules read, instead of arrays.
    """
    return OpView(
        definition.package,
        definition.name,
        name,
        tuple(_specs(definition.inputs, inputs)),
        tuple(_specs(definition.outputs, outputs)),
        {
            key: param.data if as_data and isinstance(param, Tensor) else plain_value(definition, key, param)
            for key, param in params.items()
        },
    )


def _specs(places: Sequence[TensorDef], tensors: Sequence[Tensor | None]) -> list[TensorSpec | None]:
    """Return the types of tensors, named as in the definition."""
    found: list[TensorSpec | None] = []
    for index, tensor in enumerate(tensors):
        place = places[min(index, len(places) - 1)] if places else None
        found.append(None if tensor is None else _spec(place, tensor))
    return found


def _spec(place: TensorDef | None, tensor: Tensor) -> TensorSpec:
    shape: list[int | None] = list(tensor.shape)
    for axis in tensor.dynamic_axes:
        shape[axis] = None
    name, layout = (place.name, place.layout) if place is not None else (tensor.name, "")
    return TensorSpec(tuple(shape), tensor.dtype, name or tensor.name, layout, tensor.data)


def plain_value(definition: OpDef, name: str, param: Param) -> Value:
    """Return a parameter as a Python value or array; an enumeration value by name."""
    if isinstance(param, Tensor):
        return param.numpy()
    known = definition.params.get(name)
    names = known.enumeration if known is not None else ()
    value = param.value
    if names and isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    return value
