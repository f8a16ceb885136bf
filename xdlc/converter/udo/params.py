"""Parameters of UDOs from the attributes of source nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.converter.udo.diagnostics import Issue
from xdlc.converter.udo.scalars import kind_of, number_of, scalar, types_text
from xdlc.errors import nearest_names
from xdlc.ir import ArrayData, DType, Param, Role, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32, INT64, STRING, UINT32, UINT64, from_numpy
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, order_of

_GIVEN = "correct the model, or the parameter in the definition"
_NAMES = "state the names of its values as Enumeration (xdlc_enumeration in JSON), or make it a STRING"
_DEFAULT = "correct the default in the definition"
_NO_VALUE = "a graph, or a list of tensors, which no parameter holds"


def parameters(definition: OpDef, given: Mapping[str, Any]) -> tuple[dict[str, Param], list[Issue]]:
    """Return the parameters of an op, defaults written out, and what does not fit.

    Args:
        definition: The op.
        given: Values by name: int, float, bool, str, lists of them, arrays or ``TensorData``.
    """
    issues = [_unknown(definition, *item) for item in given.items() if item[0] not in definition.params]
    found: dict[str, Param] = {}
    for name, param in definition.params.items():
        is_given = _is_given(param, given)
        try:
            value = given[name] if is_given else default_value(param)
            if value is not None:
                made = _param(param, value)
                found[name] = _in_layout(param, made) if is_given else made
            elif param.mandatory:
                issues.append(_missing(definition, name))
        except ValueError as error:
            place = f"attribute {name!r}" if is_given else f"the default of parameter {name!r}"
            issues.append(Issue(f"{place} is {error}", _fix(param, value) if is_given else _DEFAULT))
    return found, issues


def _in_layout(param: ParamDef, made: Param) -> Param:
    """Return a parameter of the source in the layout of the definition; defaults are in it."""
    if not isinstance(made, Tensor) or made.data is None:
        return made
    data = made.data.transpose(order_of(param.layout, made.rank))
    return Tensor(made.name, data.shape, made.dtype, data=data, role=made.role)


def _is_given(param: ParamDef, given: Mapping[str, Any]) -> bool:
    """Return whether a value is set; exporters write empty lists for omitted ones."""
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
    if hasattr(value, "shape") and (param.is_scalar or not value.shape) and _is_single(value):
        array = value.numpy() if isinstance(value, TensorData) else value
        value = array.reshape(()).item()
    if param.is_scalar or (isinstance(value, str) and STRING in param.dtypes):
        return scalar(param, value)
    return tensor(param, value)


def _fix(param: ParamDef, value: Any) -> str:
    return _NAMES if isinstance(value, str) and param.is_scalar and not param.enumeration else _GIVEN


def _is_single(value: Any) -> bool:
    return tuple(value.shape) in ((), (1,))


def _has_no_form(value: Any) -> bool:
    return hasattr(value, "node") or hasattr(value, "data_location")


def _unknown(definition: OpDef, name: str, value: Any) -> Issue:
    if _has_no_form(value):
        return Issue(f"attribute {name!r} is {_NO_VALUE}", "rewrite the node without it: make tensors inputs")
    if any(entry.name == name for entry in definition.inputs):
        return Issue(
            f"attribute {name!r} is an input in the definition",
            f"make {name!r} a parameter of the definition: the model has it as an attribute",
        )
    near = nearest_names(name, definition.params)
    listed = ", ".join(definition.params) or "none"
    return Issue(
        f"attribute {name!r} is none of the parameters: {listed}{f'; {near}' if near else ''}",
        f"add the parameter {name!r} to the definition, or take the attribute out of the model",
    )


def _missing(definition: OpDef, name: str) -> Issue:
    return Issue(
        f"the node has no attribute {name!r}, a mandatory parameter",
        f"set it in the model, or state a default of parameter {name!r} and make it optional",
    )


_SHRUNK = {INT64: (INT32, INT64), UINT64: (UINT32, UINT64)}


def tensor(param: ParamDef, value: Any) -> Tensor:
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
        raise ValueError(f"{kind_of(data)}, but a DLC has no tensor without elements")
    dtype = _dtype(param, data)
    return Tensor("", data.shape, dtype, data=data.cast(dtype.numpy), role=Role.STATIC)


def _data(param: ParamDef, value: Any) -> TensorData:
    import numpy

    if isinstance(value, TensorData):
        return value
    if param.enumeration:
        items = value if isinstance(value, list | tuple) else [value]
        return ArrayData(numpy.asarray([number_of(param, item) for item in items], numpy.uint32))
    if isinstance(value, str):
        raise ValueError(f"{value!r}, but the parameter is a tensor of numbers")
    try:
        array = numpy.asarray(value)
    except ValueError as error:  # of lists of different lengths
        raise ValueError("lists of different lengths") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{kind_of(value)} of no numbers, but the parameter is a tensor")
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
        f"{kind_of(data)}, but the parameter has {param.rank} axes"
        + (f": [{', '.join(param.shape)}]" if param.shape else "")
    )


def _dtype(param: ParamDef, data: TensorData) -> DType:
    try:
        own = from_numpy(data.dtype)
    except TypeError as error:
        raise ValueError(f"{kind_of(data)}, whose type a DLC does not have") from error
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
    raise ValueError(f"{kind_of(data)} {_range(array)}, but the parameter is {types_text(allowed)}")


def _holds(dtype: DType, array: Array) -> bool:
    """Return whether a type holds all elements: integers exactly, floats rounded but not overflowing."""
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
