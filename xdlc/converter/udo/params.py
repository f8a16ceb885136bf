"""Parameters of UDOs from the attributes of source nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.session.node import Body
from xdlc.converter.udo.diagnostics import Issue
from xdlc.errors import nearest_names
from xdlc.ir import ArrayData, DType, Param, Role, Scalar, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, STRING, UINT32, UINT64, from_numpy
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, order_of
from xdlc.opdefs.op_view import TensorSpec
from xdlc.opdefs.source_match import attributes_named

_GIVEN = "correct the model, or the parameter in the definition"
_NAMES = "state the names of its values as Enumeration (xdlc_enumeration in JSON), or make it a STRING"
_DEFAULT = "correct the default in the definition"
_NO_VALUE = "a graph, a message or a list of tensors, which no parameter holds"
_SHRUNK = {INT64: (INT32, INT64), UINT64: (UINT32, UINT64)}
_TRUTH = {"true": True, "false": False}
_KINDS = {bool: ("bool",), int: ("int", "uint", "sfixed", "ufixed"), float: ("float",)}


def parameters(definition: OpDef, values: Mapping[str, Any]) -> tuple[dict[str, Param], list[Issue]]:
    """Return the parameters of an op including defaults, and the misfits.

    Args:
        values: Values by name: int, float, bool, str, lists of them, arrays or ``TensorData``.
    """
    issues = [_unknown(definition, *item) for item in values.items() if item[0] not in definition.params]
    params: dict[str, Param] = {}
    for name, param in definition.params.items():
        is_given = _is_given(param, values)
        try:
            value = values[name] if is_given else default_value(param)
            if value is not None:
                made = _param(param, value)
                params[name] = _in_layout(param, made) if is_given else made
            elif param.mandatory:
                issues.append(_missing(name, attributes_named(name, values)))
        except ValueError as error:
            place = f"attribute {name!r}" if is_given else f"the default of parameter {name!r}"
            issues.append(Issue(f"{place} is {error}", _fix(param, value) if is_given else _DEFAULT))
    return params, issues


def _in_layout(param: ParamDef, made: Param) -> Param:
    """Return a source's parameter in the layout of the definition."""
    if not isinstance(made, Tensor) or made.data is None:
        return made
    data = made.data.transpose(order_of(param.layout, made.rank))
    return Tensor(made.name, data.shape, made.dtype, data=data, role=made.role)


def _is_given(param: ParamDef, given: Mapping[str, Any]) -> bool:
    """Return whether a value is set; exporters write [] for omitted values."""
    value = given.get(param.name)
    is_empty = isinstance(value, list) and not value and not param.mandatory and param.default is None
    return value is not None and not is_empty


def _param(param: ParamDef, value: Any) -> Param:
    """Return a value as a parameter.

    Raises:
        ValueError: If it has no such form.
    """
    if _has_no_form(value):
        raise ValueError(_NO_VALUE)
    value = _octets(value) if isinstance(value, bytes) else value
    if hasattr(value, "shape") and (param.is_scalar or not value.shape) and _is_single(value):
        array = value.numpy() if isinstance(value, TensorData) else value
        value = array.reshape(()).item()
    if param.is_scalar or (isinstance(value, str) and STRING in param.dtypes):
        return _scalar(param, value)
    return _tensor(param, value)


def _fix(param: ParamDef, value: Any) -> str:
    return _NAMES if isinstance(value, str) and param.is_scalar and not param.enumeration else _GIVEN


def _is_single(value: Any) -> bool:
    return tuple(value.shape) in ((), (1,))


def _has_no_form(value: Any) -> bool:
    many = isinstance(value, list)
    return any(
        isinstance(item, Body | TensorSpec | dict)
        or (many and isinstance(item, TensorData | bytes))
        or _is_message(item)
        for item in (value if many else [value])
    )


def _octets(value: bytes) -> Array:
    import numpy

    return numpy.frombuffer(value, numpy.uint8)


def _is_message(value: Any) -> bool:
    """Return whether a value is a message of the source, for example a graph."""
    return any(hasattr(value, field) for field in ("node", "data_location", "tensor_type"))


def _unknown(definition: OpDef, name: str, value: Any) -> Issue:
    if _has_no_form(value):
        return Issue(f"attribute {name!r} is {_NO_VALUE}", "rewrite the node without it: make tensors inputs")
    if any(entry.name == name for entry in definition.inputs):
        return Issue(
            f"attribute {name!r} is an input in the definition",
            f"make {name!r} a parameter of the definition: the model has it as an attribute",
        )
    end = name.rpartition(".")[2]
    near = nearest_names(end, definition.params)
    listed = ", ".join(definition.params) or "none"
    return Issue(
        f"attribute {name!r} is not a parameter; parameters: {listed}{f'; {near}' if near else ''}",
        f"add the parameter {end!r} to the definition, or remove the attribute from the model",
    )


def _missing(name: str, several: Sequence[str]) -> Issue:
    if several:
        return Issue(
            f"parameter {name!r} may be {' or '.join(several)}",
            f"name the parameter {several[0].replace('.', '_')}, for example",
        )
    return Issue(
        f"the node has no attribute {name!r}, a mandatory parameter",
        f"set the attribute in the model, or make parameter {name!r} optional with a default",
    )


def _tensor(param: ParamDef, value: Any) -> Tensor:
    """Return a value as a tensor parameter.

    A number becomes a tensor of one element.  A list has one axis; where the definition states another
    number of axes and all their dimensions, its elements fill these in order.

    Args:
        param: Definition of the parameter; without types of its own it takes the value's.
        value: A number, a list of numbers, maybe nested, an array, or ``TensorData``; of an enumeration
            also names.

    Raises:
        ValueError: If the value has no such form; states what was found and expected.
    """
    data = _shaped(param, _data(param, value))
    if 0 in data.shape:
        raise ValueError(f"{_kind_of(data)}, but a DLC has no tensor without elements")
    dtype = _dtype(param, data)
    return Tensor("", data.shape, dtype, data=data.cast(dtype.numpy), role=Role.STATIC)


def _data(param: ParamDef, value: Any) -> TensorData:
    import numpy

    if isinstance(value, TensorData):
        return value
    if param.enumeration:
        items = value if isinstance(value, list | tuple) else [value]
        return ArrayData(numpy.asarray([_number_of(param, item) for item in items], numpy.uint32))
    if isinstance(value, str):
        raise ValueError(f"{value!r}, but the parameter is a tensor of numbers")
    try:
        array = numpy.asarray(value)
    except ValueError as error:  # of lists of different lengths
        raise ValueError("lists of different lengths") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{_kind_of(value)} of no numbers, but the parameter is a tensor")
    return ArrayData(array)


def _shaped(param: ParamDef, data: TensorData) -> TensorData:
    """Return elements with the rank of the definition."""
    rank = len(data.shape)
    if param.rank is None or rank == param.rank:
        return data if data.shape else data.reshape((1,))
    if not rank and param.rank == 1:
        return data.reshape((1,))
    dims = tuple(int(size) for size in param.shape if size.isdecimal())
    if rank == 1 and len(dims) == len(param.shape) == param.rank:
        count = 1
        for size in dims:
            count *= size
        if count == data.shape[0]:
            return data.reshape(dims)
    raise ValueError(
        f"{_kind_of(data)}, but the parameter has {param.rank} axes"
        + (f": [{', '.join(param.shape)}]" if param.shape else "")
    )


def _dtype(param: ParamDef, data: TensorData) -> DType:
    try:
        own = from_numpy(data.dtype)
    except TypeError as error:
        raise ValueError(f"{_kind_of(data)} has a type that a DLC cannot hold") from error
    if param.dtypes and all(dtype.is_fixed for dtype in param.dtypes):
        return FLOAT32  # floats that the quantizer will store
    allowed: Sequence[DType] = param.dtypes or _SHRUNK.get(own, (FLOAT32,) if own.bits == 64 else (own,))
    if own in param.dtypes or allowed == (own,):
        return own
    array = data.numpy()
    same = sorted(allowed, key=lambda dtype: dtype.kind[-3:] != own.kind[-3:])
    for dtype in same:
        if _holds(dtype, array):
            return dtype
    raise ValueError(f"{_kind_of(data)} {_range(array)}, but the parameter is {_types_text(allowed)}")


def _holds(dtype: DType, array: Array) -> bool:
    """Return whether a type can represent all elements; floats may be rounded."""
    import numpy

    if dtype.is_fixed or dtype.bits not in (8, 16, 32, 64):
        return False
    if dtype.is_float:
        with numpy.errstate(over="ignore"):
            stored = array.astype(dtype.numpy)
        if array.dtype.kind == "f":
            return bool((numpy.isfinite(stored.astype(numpy.float64)) == numpy.isfinite(array)).all())
        return bool((stored.astype(numpy.float64) == array).all())
    if array.dtype.kind == "f" and not (numpy.isfinite(array).all() and (numpy.floor(array) == array).all()):
        return False
    low, high = (0, 1) if dtype.kind == "bool" else dtype.limits
    return bool(low <= int(array.min()) and int(array.max()) <= high)


def _range(array: Array) -> str:
    return f"from {array.min()} to {array.max()}"


def _scalar(param: ParamDef, value: Any) -> Scalar:
    """Return a value as a parameter of the first allowed type that can represent it.

    Types of the value's own kind come first: an integer becomes a float only where no integer type is
    allowed.  A list of strings is stored as the text of a JSON list, for a DLC has no tensors of strings.

    Args:
        param: Definition of the parameter; without types of its own it takes the value's.
        value: int, float, bool, str, or a list of str.

    Raises:
        ValueError: If the value has no such form; states what was found and expected.
    """
    if param.enumeration:
        number = _number_of(param, value)
        fitting = (_as_type(dtype, number) for dtype in param.dtypes)
        return next((one for one in fitting if one is not None), ir.u32(number))
    if _is_texts(value) and (not param.dtypes or STRING in param.dtypes):
        return ir.string(json.dumps(value, ensure_ascii=False))
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{_kind_of(value)}, but the parameter is a scalar")
    for dtype in _ordered(param.dtypes or _own(value), value):
        made = _as_type(dtype, value)
        if made is not None:
            return made
    raise ValueError(f"{value!r}, but the parameter is {_types_text(param.dtypes)}")


def _number_of(param: ParamDef, value: Any) -> int:
    """Return the number of an enumerator, from its name or number.

    Raises:
        ValueError: If there is no such enumerator.
    """
    names = param.enumeration
    if isinstance(value, str) and value in names:
        return names.index(value)
    whole = _whole(value)
    if whole is not None and 0 <= whole < len(names):
        return whole
    near = nearest_names(value, names) if isinstance(value, str) else ""
    listed = ", ".join(f"{name} ({number})" for number, name in enumerate(names))
    raise ValueError(f"{value!r}, but the values are {listed}{f'; {near}' if near else ''}")


def _as_type(dtype: DType, value: Any) -> Scalar | None:
    """Return a plain value as a scalar of a type; None if it does not fit.

    Example:
        >>> from xdlc.ir.dtype import UINT32
        >>> _as_type(UINT32, 7), _as_type(UINT32, -1), _as_type(BOOL8, "true")
        (Scalar(dtype=uint32, value=7), None, Scalar(dtype=bool8, value=True))
    """
    if dtype is STRING:
        return ir.string(value) if isinstance(value, str) else None
    if isinstance(value, str):
        value = _TRUTH.get(value.lower(), value) if dtype is BOOL8 else value
        if isinstance(value, str):
            return None
    if dtype.is_float:
        return _real(dtype, value)
    whole = _whole(value)
    if dtype is BOOL8:
        return ir.b8(bool(whole)) if whole in (0, 1) else None
    low, high = dtype.limits
    return Scalar(dtype, whole) if whole is not None and low <= whole <= high else None


def _types_text(dtypes: Sequence[DType]) -> str:
    """Return types with the range of their integers, for messages.

    Example:
        >>> from xdlc.ir.dtype import UINT8
        >>> _types_text([UINT8, FLOAT32])
        'uint8 (0 to 255) or float32'
    """
    texts = []
    for dtype in dtypes:
        low, high = dtype.limits if dtype.is_integer or dtype.is_fixed else (0, 0)
        texts.append(f"{dtype.name} ({low} to {high})" if high else dtype.name)
    return " or ".join(texts)


def _kind_of(value: Any) -> str:
    """Return the kind of a value, for messages."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"a tensor {value.dtype}{list(shape)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return repr(value) if isinstance(value, bool | int | float | str) else f"a {type(value).__name__}"


def _real(dtype: DType, value: float) -> Scalar | None:
    try:
        real = float(value)
    except OverflowError:
        return None
    if math.isfinite(real) and dtype.is_float and abs(real) > dtype.largest:
        return None
    made = ir.f32(real) if dtype is FLOAT32 else Scalar(dtype, real)
    exact = not isinstance(value, int) or int(made.value) == value
    return made if exact else None


def _whole(value: Any) -> int | None:
    """Return a number without fraction as an int; None for other values."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) else None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)


def _own(value: Any) -> tuple[DType, ...]:
    """Return the types that a value may have where the definition states none."""
    if isinstance(value, bool):
        return (BOOL8,)
    if isinstance(value, int):
        return INT32, UINT32, INT64, UINT64
    return (FLOAT32,) if isinstance(value, float) else (STRING,)


def _ordered(dtypes: Sequence[DType], value: Any) -> list[DType]:
    """Return the types, first those of the value's kind."""
    kinds = _KINDS.get(type(value), ())
    return sorted(dtypes, key=lambda dtype: dtype.kind not in kinds)
