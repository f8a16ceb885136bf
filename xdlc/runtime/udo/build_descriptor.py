"""Descriptors of ops for the worker, from graph ops and converter views."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Any

from xdlc.errors import BackendError
from xdlc.ir import Op, Scalar, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, DType
from xdlc.ir.quantization import unpacked
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec, view_of
from xdlc.opdefs.source_match import Kernel
from xdlc.runtime.udo.activations import check_types, kernel_dtype, place_of
from xdlc.runtime.udo.descriptor import OpForm, ParamForm, TensorForm
from xdlc.runtime.udo.static_data import StaticData, array_form, static_form
from xdlc.runtime.udo.structs import LAYOUTS, MAX_RANK

Array = Any  # numpy.ndarray


def form_of(op: Op, definition: OpDef | None, *, reals: bool = False) -> tuple[OpForm, StaticData]:
    """Return the descriptor of an op.

    Args:
        definition: Its definition in the model; without it, operands have names like ``in[0]``.
        reals: Whether the kernel gets quantized static data as float values, whatever the definition states.

    Raises:
        BackendError: If an operand cannot be passed to kernels.
        ModelError: If static data has no usable encoding.
    """
    for operand in (*op.inputs, *op.outputs, *op.params.values()):
        if isinstance(operand, Tensor):
            _check(op, operand)
    data = StaticData()
    inputs = [
        TensorForm(name, omitted=True) if tensor is None else _tensor(tensor, name, place, data, reals)
        for tensor, (name, place) in _operands(op.inputs, definition, partial(view_of, op))
    ]
    outputs = [
        _tensor(tensor, name, place, data, reals)
        for tensor, (name, place) in zip(op.outputs, _places("out", len(op.outputs), definition), strict=True)
    ]
    params = [_param(name, param, definition, data, reals) for name, param in op.params.items()]
    params += _defaults(definition, op.params, data)
    form = OpForm(op.package, op.type, op.name, tuple(inputs), tuple(outputs), tuple(params))
    if definition is not None:
        check_types(op, form, definition)
    return form, data


def _operands(
    inputs: Sequence[Any], definition: OpDef | None, view: Callable[[OpDef], OpView]
) -> Iterator[tuple[Any, tuple[str, TensorDef | None]]]:
    """Yield the inputs of an op with their places, defaults filled in."""
    count, filled = len(inputs), dict[int, Tensor]()
    if definition is not None:
        count = max(count, sum(not place.repeated for place in definition.inputs))
        if any(place.default is not None for place in definition.inputs):
            filled = default_inputs(definition, view(definition))
    held = [*inputs, *[None] * (count - len(inputs))]
    operands = [filled.get(at, tensor) for at, tensor in enumerate(held)]
    yield from zip(operands, _places("in", count, definition), strict=True)


def _defaults(definition: OpDef | None, given: Container[str], data: StaticData) -> list[ParamForm]:
    """Return the parameters that an op omits, with their defaults."""
    missing = [param for param in definition.params.values() if param.name not in given] if definition else []
    values = [(param, default_value(param)) for param in missing]
    return [
        _value(param.name, param.enumeration[value] if param.enumeration else value, definition, data)
        for param, value in values
        if value is not None
    ]


def _check(op: Op, tensor: Tensor) -> None:
    where = place_of(op)
    if tensor.rank > MAX_RANK:
        raise BackendError(
            f"{tensor.name!r} has {tensor.rank} axes, kernels support {MAX_RANK}",
            where=where,
            fix="reshape it before the op",
        )
    if tensor.dtype.kind in ("string", "undefined"):
        raise BackendError(
            f"{tensor.name!r} is {tensor.dtype}, but kernels support numbers only",
            where=where,
            fix="hand texts over as string parameters",
        )


def _places(word: str, count: int, definition: OpDef | None) -> list[tuple[str, TensorDef | None]]:
    """Return name and definition of each operand, also after a repeated one."""
    definitions: Sequence[TensorDef] = ()
    if definition is not None:
        definitions = definition.inputs if word == "in" else definition.outputs
    places: list[tuple[str, TensorDef | None]] = []
    for index in range(count):
        place = definitions[min(index, len(definitions) - 1)] if definitions else None
        if place is None or (index >= len(definitions) and not place.repeated):
            places.append((f"{word}[{index}]", None))
        else:
            places.append((place.name, place))
    return places


def _layout(place: TensorDef | None) -> str:
    """Return the layout that a definition states, or an empty string."""
    return place.layout if place is not None and place.layout in LAYOUTS else ""


def _tensor(tensor: Tensor, name: str, place: TensorDef | None, data: StaticData, reals: bool) -> TensorForm:
    dims = tuple(None if axis in tensor.dynamic_axes else extent for axis, extent in enumerate(tensor.shape))
    layout = _layout(place)
    if not tensor.is_static:
        return TensorForm(name, kernel_dtype(tensor.dtype).code, dims, layout)
    allowed = _types(tensor, place, reals)
    if place is not None and not place.is_static:  # a constant at the place of an activation
        allowed = (kernel_dtype(tensor.dtype),)
    return static_form(tensor, name, layout, allowed, data)


def _types(tensor: Tensor, place: TensorDef | None, reals: bool) -> tuple[DType, ...]:
    """Return the types of static data for a kernel; none: stored, or floats."""
    if place is None or not reals or not (tensor.dtype.is_float or tensor.dtype.is_fixed):
        return () if place is None else place.dtypes
    return () if tensor.dtype.is_fixed else (FLOAT32, FLOAT64)


def _param(
    name: str, param: Scalar | Tensor, definition: OpDef | None, data: StaticData, reals: bool
) -> ParamForm:
    place = definition.params.get(name) if definition is not None else None
    if isinstance(param, Tensor):
        layout = _layout(place)
        tensor = static_form(param, name, layout, _types(param, place, reals), data)
        return ParamForm(name, tensor.dtype, tensor=tensor)
    value = param.value
    names = place.enumeration if place is not None else ()
    named = isinstance(value, int) and 0 <= value < len(names)
    return ParamForm(name, param.dtype.code, value, names[int(value)] if named else None)


def form_of_view(view: OpView, definition: OpDef | None) -> tuple[OpForm, StaticData]:
    """Return the descriptor of an op under conversion.

    Args:
        view: The op.
        definition: Its definition, for the numbers of enumerators and the types of parameters.
    """
    data = StaticData()

    def tensor(spec: TensorSpec | Tensor, name: str, place: TensorDef | None) -> TensorForm:
        if isinstance(spec, Tensor):
            return _tensor(spec, name, place, data, reals=False)
        layout = spec.layout or _layout(place)
        if spec.data is None:
            return TensorForm(name, kernel_dtype(spec.dtype).code, spec.shape, layout)
        return _static_of_view(spec, name, layout, () if place is None else place.dtypes, data)

    inputs = [
        TensorForm(name, omitted=True) if spec is None else tensor(spec, name, place)
        for spec, (name, place) in _operands(view.inputs, definition, lambda _: view)
    ]
    outputs = [
        TensorForm(name) if spec is None else tensor(spec, name, place)
        for spec, (name, place) in zip(
            view.outputs, _places("out", len(view.outputs), definition), strict=True
        )
    ]
    params = [_value(name, value, definition, data) for name, value in view.params.items()]
    params += _defaults(definition, view.params, data)
    return OpForm(view.package, view.type, view.name, tuple(inputs), tuple(outputs), tuple(params)), data


def _static_of_view(
    spec: TensorSpec, name: str, layout: str, allowed: Sequence[DType], data: StaticData
) -> TensorForm:
    shape = tuple(extent or 0 for extent in spec.shape)
    tensor = Tensor(spec.name, shape, spec.dtype, data=spec.data)
    if spec.dtype.is_fixed:  # a view has no encoding: as stored
        return array_form(unpacked(tensor).numpy(), name, layout, data, spec.dtype)
    return static_form(tensor, name, layout, allowed, data)


def _value(name: str, value: Any, definition: OpDef | None, data: StaticData) -> ParamForm:
    import numpy

    place = definition.params.get(name) if definition is not None else None
    stated = place.dtypes[0] if place is not None and len(place.dtypes) == 1 else None
    if place is not None and isinstance(value, str) and value in place.enumeration:
        return ParamForm(name, UINT32.code, place.enumeration.index(value), value)
    if isinstance(value, str):
        return ParamForm(name, STRING.code, value)
    if isinstance(value, bool | int | float | numpy.generic):
        plain = value.item() if isinstance(value, numpy.generic) else value
        return ParamForm(name, (stated or _type_of(plain)).code, plain)
    array = numpy.asarray(value)
    if stated is not None and not stated.is_fixed:
        array = array.astype(stated.numpy)
    elif array.dtype == numpy.float64:
        array = array.astype(numpy.float32)
    return _array(name, array, _layout(place), data)


def _array(name: str, array: Array, layout: str, data: StaticData) -> ParamForm:
    form = array_form(array, name, layout, data)
    return ParamForm(name, form.dtype, tensor=form)


def _type_of(value: bool | int | float) -> DType:
    if isinstance(value, bool):
        return BOOL8
    if isinstance(value, float):
        return FLOAT32
    return INT32 if INT32.limits[0] <= value <= INT32.limits[1] else INT64


def arguments_of(kernel: Kernel) -> tuple[OpForm, StaticData]:
    """Return a compiled kernel's arguments as parameters named by letters.

    Raises:
        BackendError: If letters and values do not fit together.
    """
    import numpy

    data = StaticData()
    kinds: dict[str, Any] = {"i": int, "f": (int, float), "s": str, "o": (numpy.ndarray, list, tuple)}
    forms = []
    if len(kernel.arguments) != len(kernel.values):
        raise BackendError(f"has {len(kernel.values)} arguments for the letters {kernel.arguments!r}")
    for letter, value in zip(kernel.arguments, kernel.values, strict=True):
        if not isinstance(value, kinds.get(letter, ())):
            raise BackendError(f"has the argument {value!r:.80} for the letter {letter!r}")
        if letter == "f":
            forms.append(ParamForm(letter, FLOAT64.code, float(value)))
        elif letter == "i":
            forms.append(ParamForm(letter, INT64.code, int(value)))
        elif letter == "s":
            forms.append(ParamForm(letter, STRING.code, value))
        else:
            forms.append(_array(letter, numpy.asarray(value), "", data))
    return OpForm("", "", kernel.name, (), (), tuple(forms)), data
