"""Input binding: inputs of a source node as inputs of a UDO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.session.node import bind_dims
from xdlc.converter.udo.diagnostics import OPTIONAL
from xdlc.converter.values import Order, Value
from xdlc.errors import ModelError
from xdlc.ir import DType, Param, Role, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import (
    BFLOAT16,
    BOOL8,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    PLAIN,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import OpDef, TensorDef, order_of
from xdlc.opdefs.op_params import Issue
from xdlc.opdefs.op_view import make_view
from xdlc.opdefs.source_match import Udo
from xdlc.opdefs.values import bounds, holds

_SOURCE = "the source's axis order"


class Slot(NamedTuple):
    """A value at an input of an op.

    Attributes:
        place: Position and name of the input, for messages.
        definition: Definition of the input.
        value: The value; None if it is omitted.
    """

    place: str
    definition: TensorDef
    value: Value | None


def bind_inputs(
    definition: OpDef, values: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[list[Slot], list[Issue]]:
    """Return the values of an op's inputs, and the problems.

    A repeated input takes all values from its position on.  Omitted values after the last one are dropped.

    Args:
        values: Inputs by position; None for an omitted one.
        attributes: Attributes of the node; they show an input that is defined as a parameter, or the reverse.
    """
    operands = list(values)
    while operands and operands[-1] is None:
        operands.pop()
    inputs = definition.inputs
    repeats = bool(inputs) and inputs[-1].repeated
    slots = [
        Slot(f"input {index} ({inputs[min(index, len(inputs) - 1)].name!r})", entry, value)
        for index, (entry, value) in enumerate(zip(_places(inputs, len(operands)), operands, strict=False))
    ]
    issues = [_misfit(slot) for slot in slots]
    if len(operands) > len(inputs) and not repeats:
        issues.append(_too_many(definition, operands, attributes))
    for index, entry in enumerate(inputs[len(operands) :], len(operands)):
        if entry.mandatory:
            issues.append(_missing(index, entry, attributes))
    return slots, [issue for issue in issues if issue is not None]


def _places(inputs: Sequence[TensorDef], count: int) -> Iterator[TensorDef]:
    yield from inputs
    if inputs and inputs[-1].repeated:
        for _ in range(count - len(inputs)):
            yield inputs[-1]


def _misfit(slot: Slot) -> Issue | None:
    """Return why a value does not fit its input; None if it fits."""
    place, definition, value = slot
    if value is None:
        return None if not definition.mandatory else _omitted(place)
    if definition.is_static and not value.is_static:
        return Issue(
            f"the definition needs static data for {place}, but the model computes this input",
            "remove IsStaticTensor (JSON: static) from the definition, or make the input constant",
        )
    if not value.ranked:
        return Issue(f"the model does not state the number of axes of {place}", bind_dims())
    if value.bits is not None:
        return Issue(
            f"{place} holds integers of {value.bits} bits", "store the integers in 8 bits in the model"
        )
    allowed = definition.dtypes
    if not is_allowed(value.dtype, allowed) and _stored_type(value.tensor.data, definition) is None:
        array = value.numpy() if value.is_static and value.dtype.is_integer else None
        if converted(value.dtype, allowed, array) is None:
            names = " or ".join(dtype.name for dtype in allowed)
            return Issue(
                f"{place} is {value.dtype.name}, but the definition allows {names}",
                "add the type to the definition, or convert the value in the model",
            )
    try:
        order_of(definition.layout, value.rank)
    except ValueError as error:
        return Issue(f"{place}: {error}", "state another layout in the definition, or omit the layout")
    return None


def _omitted(place: str) -> Issue:
    return Issue(f"{place} is mandatory, but missing", OPTIONAL)


def _missing(index: int, entry: TensorDef, attributes: Mapping[str, Any]) -> Issue:
    if entry.name in attributes:
        return Issue(
            f"input {index} ({entry.name!r}) is an attribute of the node, but an input in the definition",
            f"make {entry.name!r} a parameter of the definition",
        )
    return _omitted(f"input {index} ({entry.name!r})")


def _too_many(definition: OpDef, operands: Sequence[Value | None], attributes: Mapping[str, Any]) -> Issue:
    first, count = len(definition.inputs), len(definition.inputs)
    extra = next((value for value in operands[first:] if value is not None), None)
    unset = [name for name in definition.params if name not in attributes]
    if extra is not None and extra.is_static and unset:
        names = " or ".join(map(repr, unset))
        return Issue(
            f"the node has {len(operands)} inputs, the definition has {count}; input "
            f"{operands.index(extra)} ({extra.tensor.name!r}) is a constant, and parameter {names} has no "
            "attribute",
            f"the model has {names} as an input: add IsStaticTensor to the definition",
        )
    return Issue(
        f"the node has {len(operands)} inputs, the definition has {count}",
        "add the inputs to the definition, or mark its last input as Repeated",
    )


# ---------------------------------------------------------------------- tensors


def to_tensors(builder: Builder, custom: Udo, slots: Sequence[Slot]) -> list[Tensor | None]:
    """Return the tensors at an op's inputs, in the definition's layouts and types.

    Args:
        builder: Takes the ops that convert them.
        slots: Values that fit their inputs.
    """
    before, tensors = builder.base, list[Tensor | None]()
    for index, slot in enumerate(slots):
        builder.base = f"{builder.node}_in{index}"  # the op gets the node's own name
        tensors.append(None if slot.value is None else _tensor(builder, custom, slot, slot.value))
    builder.base = before
    return tensors


def _tensor(builder: Builder, custom: Udo, slot: Slot, value: Value) -> Tensor:
    definition, layout = slot.definition, slot.definition.layout
    if value.is_static:
        return _static(definition, value)
    tensor = value.tensor
    if value.rank:
        wants = f"{custom.full_name} needs input `{definition.name}` in {layout or _SOURCE}"
        tensor = in_layout(builder, value, order_of(layout, value.rank), wants)
    dtype = _type_for(tensor, definition)
    if dtype is tensor.dtype:
        return tensor
    why = f"{custom.full_name} needs input `{definition.name}` as {dtype.name}"
    made = builder.emit("Cast", [tensor], tensor.shape, dtype, why=why)
    made.dynamic_axes = tensor.dynamic_axes
    return made


def in_layout(builder: Builder, value: Value, order: Order, why: str) -> Tensor:
    """Return a computed value in a layout; dynamic dimensions move with their axes."""
    if not value.is_dynamic or value.order == order:
        return builder.to_layout(value, order, why=why)
    tensor = value.tensor
    perm = [value.order.index(axis) for axis in order]
    shape = [tensor.shape[axis] for axis in perm]
    made = builder.emit("Transpose", [tensor], shape, tensor.dtype, {"perm": ir.u32s(perm)}, why=why)
    made.dynamic_axes = tuple(axis for axis, source in enumerate(perm) if source in tensor.dynamic_axes)
    return made


def _static(definition: TensorDef, value: Value) -> Tensor:
    """Return static data for an input, quantized if the definition allows that."""
    tensor, data = value.tensor, value.tensor.data
    assert data is not None  # the value is static
    data = data.transpose(order_of(definition.layout, value.rank)) if value.rank else data.reshape((1,))
    fixed = _stored_type(data, definition)
    if isinstance(data, ir.Dequantized) and fixed is not None:
        return Tensor(tensor.name, data.shape, fixed, data.encoding, data.stored, Role.STATIC)
    dtype = _type_for(tensor, definition)
    if data is tensor.data and dtype is tensor.dtype:
        return tensor
    key = (-dtype.code, *order_of(definition.layout, value.rank))
    if key not in value.forms:
        converted_data = data.cast(dtype.numpy)
        made = Tensor(tensor.name, data.shape, dtype, tensor.encoding, converted_data, Role.STATIC)
        value.forms[key] = made
    return value.forms[key]


def _type_for(tensor: Tensor, definition: TensorDef) -> DType:
    """Return the type of a tensor at an input that allows it."""
    if is_allowed(tensor.dtype, definition.dtypes):
        return tensor.dtype
    array = tensor.numpy() if tensor.is_static and tensor.dtype.is_integer else None
    return converted(tensor.dtype, definition.dtypes, array) or tensor.dtype


def _stored_type(data: TensorData | None, definition: TensorDef) -> DType | None:
    """Return the type of the quantized values of static data, if the input allows it."""
    if not isinstance(data, ir.Dequantized):
        return None
    allowed, fixed = definition.dtypes, data.fixed
    return fixed if not allowed or fixed in allowed or PLAIN.get(fixed) in allowed else None


def with_defaults(
    definition: OpDef, name: str, inputs: Sequence[Tensor | None], params: Mapping[str, Param]
) -> tuple[list[Tensor | None], list[Issue]]:
    """Return inputs with defaults for omitted ones, and defaults that do not fit.

    Args:
        definition: The op's definition.
        name: The op's name.
        inputs: Tensors by position; None for an omitted one.
    """
    try:
        defaults = default_inputs(definition, make_view(definition, name, inputs, params))
    except ModelError as error:
        return list(inputs), [Issue(error.problem, error.fix or "")]
    for tensor in defaults.values():
        tensor.name = f"{name}_{tensor.name}"
    count = max([len(inputs), *(at + 1 for at in defaults)])
    held = [*inputs, *[None] * (count - len(inputs))]
    return [defaults.get(at, tensor) for at, tensor in enumerate(held)], []


# A type of the source, and the narrower ones that replace it in a DLC.
_NARROWER = {
    INT64: (INT32,),
    UINT64: (UINT32,),
    FLOAT64: (FLOAT32, FLOAT16),
    FLOAT32: (FLOAT16,),
    BFLOAT16: (FLOAT32, FLOAT16),
}


def is_quantized_only(allowed: Sequence[DType]) -> bool:
    """Return whether types can only be floats that a quantizer stores.

    SNPE's configurations write UINT_8 and UINT_16 for quantized activations.
    """
    return bool(allowed) and all(dtype.is_fixed or dtype in (UINT8, UINT16) for dtype in allowed)


def is_allowed(dtype: DType, allowed: Sequence[DType]) -> bool:
    """Return whether a definition allows a type without conversion."""
    return not allowed or dtype in allowed or (dtype is FLOAT32 and is_quantized_only(allowed))


def converted(dtype: DType, allowed: Sequence[DType], array: Array | None = None) -> DType | None:
    """Return the allowed type that a type is converted to, or None if none suits.

    One that holds all its values comes first; then the usual narrower one.  Known integers go into any
    integer type that holds them.

    Args:
        dtype: Type of the operand, which is not allowed.
        allowed: Types of the definition.
        array: The elements, if they are known.

    Example:
        >>> converted(INT64, [FLOAT32, INT32]), converted(BOOL8, [UINT8]), converted(FLOAT32, [INT32])
        (int32, uint8, None)
    """
    found = next((wider for wider in allowed if _widens(dtype, wider)), None)
    if found is not None:
        return found
    if array is not None and dtype.is_integer:
        return next((to for to in allowed if to.is_integer and holds(to, array)), None)
    return next((to for to in _NARROWER.get(dtype, ()) if to in allowed), None)


def _widens(dtype: DType, wider: DType) -> bool:
    if dtype.is_float:
        return wider.is_float and wider.bits > dtype.bits
    if not wider.is_integer or not (dtype.is_integer or dtype is BOOL8):
        return False
    (low, high), (least, most) = bounds(dtype), bounds(wider)
    return least <= low and high <= most
