"""Values of parameters and defaults: their types and their form in an op.

Defaults of definitions, parameters of plugins and attributes of every source pass through this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.errors import nearest_names
from xdlc.ir.data import Array, ArrayData, TensorData
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, PLAIN, STRING, UINT32, UINT64, DType, from_numpy
from xdlc.ir.tensor import Param, Role, Scalar, Tensor
from xdlc.opdefs.model import ParamDef

NO_FORM = "a graph, a message or a list of tensors, which no parameter holds"
NOT_FINITE = re.compile(r"[+-]?inf(inity)?|nan", re.IGNORECASE)
_TRUTH = {"false": False, "true": True}
_SHRUNK = {INT64: (INT32, INT64), UINT64: (UINT32, UINT64)}
_KINDS = {bool: ("bool",), int: ("int", "uint", "sfixed", "ufixed"), float: ("float",)}
_MOST_NAMES = 20


def bounds(dtype: DType) -> tuple[int, int]:
    """Return the least and the largest value of an integer type or of bools."""
    return (0, 1) if dtype is BOOL8 else dtype.limits


def element(dtype: DType, value: Any) -> bool | int | float | str:
    """Return a plain value in the form of a type; fixed point holds real numbers.

    Args:
        value: A bool, int, float or string; ``true``, ``inf`` and ``nan`` may be strings.

    Raises:
        ValueError: If the type cannot represent the value: the expected values in words.

    Example:
        >>> from xdlc.ir.dtype import UINT8
        >>> element(UINT8, 7), element(FLOAT32, "-inf"), element(BOOL8, "true")
        (7, -inf, True)
    """
    if dtype is STRING:
        if not isinstance(value, str) or "\0" in value:
            raise ValueError("expected a string")
        return value
    if dtype is BOOL8:
        truth = _TRUTH.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(truth, int) or not bounds(dtype)[0] <= truth <= bounds(dtype)[1]:
            raise ValueError("expected 0 or 1 of a bool")
        return bool(truth)
    if dtype.is_integer:
        if not isinstance(value, int):
            kind = "an integer" if isinstance(value, float) else "a number"
            raise ValueError(f"expected {kind} of {dtype.name}")
        low, high = bounds(dtype)
        if not low <= value <= high:
            raise ValueError(f"expected {low} to {high} of {dtype.name}")
        return int(value)
    if isinstance(value, str) and not NOT_FINITE.fullmatch(value):
        raise ValueError(f"expected a number of {dtype.name}")
    return _real(FLOAT32 if dtype.is_fixed else dtype, value)


def _real(dtype: DType, value: Any) -> float:
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    except TypeError:
        raise ValueError(f"expected a number of {dtype.name}") from None
    if (isinstance(value, int) and math.isinf(real)) or dtype.largest < abs(real) < math.inf:
        raise ValueError(f"which is too large for {dtype.name}")
    if isinstance(value, int) and int(dtype.numpy.type(real)) != value:
        raise ValueError(f"which {dtype.name} cannot hold exactly")
    return real


def enumerator(names: Sequence[str], value: Any) -> int:
    """Return the number of an enumerator, from its name or number.

    Raises:
        ValueError: If there is no such enumerator: the enumerators in words.
    """
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return int(value)
    near = nearest_names(value, names) if isinstance(value, str) else ""
    listed = ", ".join(f"{name} ({number})" for number, name in enumerate(names[:_MOST_NAMES]))
    raise ValueError(f"but the values are {listed}{f'; {near}' if near else ''}")


def as_text(value: Any) -> str:
    """Return a plain value or nested lists as a definition writes them.

    Example:
        >>> as_text([[1, 0.5], [True, -2]])
        '[[1, 0.5], [1, -2]]'
    """
    if isinstance(value, list):
        return f"[{', '.join(map(as_text, value))}]"
    return str(int(value)) if isinstance(value, bool) else str(value)


def holds(dtype: DType, array: Array) -> bool:
    """Return whether a type can represent all elements; floats may be rounded."""
    import numpy

    if dtype.is_fixed or dtype.bits not in (8, 16, 32, 64):
        return False
    if not array.size:
        return True
    if dtype.is_float:
        with numpy.errstate(over="ignore"):
            stored = array.astype(dtype.numpy)
        if array.dtype.kind == "f":
            return bool((numpy.isfinite(stored.astype(numpy.float64)) == numpy.isfinite(array)).all())
        return bool((stored.astype(numpy.float64) == array).all())
    if array.dtype.kind == "f" and not (numpy.isfinite(array).all() and (numpy.floor(array) == array).all()):
        return False
    low, high = bounds(dtype)
    return bool(low <= int(array.min()) and int(array.max()) <= high)


def has_form(value: Any) -> bool:
    """Return whether a value can be a parameter: no graph, message or list of tensors."""
    import numpy

    if isinstance(value, list | tuple):
        return all(
            isinstance(item, bool | int | float | str | list | tuple | numpy.generic) for item in value
        )
    return isinstance(value, bool | int | float | str | bytes | numpy.generic | numpy.ndarray | TensorData)


def parameter(param: ParamDef, value: Any) -> Param:
    """Return a value as a parameter of an op.

    A number becomes a tensor of one element where the definition has a tensor.  A list has one axis; if the
    definition states another number of axes and all their dimensions, its elements fill these in order.

    Args:
        param: Its definition; without types of its own it gets the value's.
        value: A number, a string, bytes, lists of numbers or strings, an array, or ``TensorData``.

    Raises:
        ValueError: If the value has no such form; states what was found and expected.
    """
    import numpy

    if not has_form(value):
        raise ValueError(NO_FORM)
    value = numpy.frombuffer(value, numpy.uint8) if isinstance(value, bytes) else value
    if hasattr(value, "shape") and (param.is_scalar or not value.shape) and value.shape in ((), (1,)):
        array = value.numpy() if isinstance(value, TensorData) else value
        value = array.reshape(()).item()
    if param.is_scalar or (isinstance(value, str) and STRING in param.dtypes):
        return _scalar(param, value)
    return _tensor(param, value)


def _tensor(param: ParamDef, value: Any) -> Tensor:
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
    is_whole = len(dims) == len(param.shape) == param.rank
    if rank == 1 and is_whole and math.prod(dims) == data.shape[0]:
        return data.reshape(dims)
    stated = f": [{', '.join(param.shape)}]" if param.shape else ""
    raise ValueError(f"{_kind_of(data)}, but the parameter has {param.rank} axes{stated}")


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
    for dtype in sorted(allowed, key=lambda dtype: dtype.kind[-3:] != own.kind[-3:]):
        if holds(dtype, array):
            return dtype
    stated = f"from {array.min()} to {array.max()}"
    raise ValueError(f"{_kind_of(data)} {stated}, but the parameter is {_types_text(allowed)}")


def _scalar(param: ParamDef, value: Any) -> Scalar:
    """Return a value as a parameter of the first allowed type that can represent it.

    Types of the value's own kind come first: an integer becomes a float only where no integer type is
    allowed.  A list of strings is stored as the text of a JSON list, for a DLC has no tensors of strings.
    """
    if param.enumeration:
        number = _number_of(param, value)
        fitting = (_as_type(dtype, number) for dtype in param.dtypes)
        return next((scalar for scalar in fitting if scalar is not None), ir.u32(number))
    is_texts = isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value)
    if is_texts and (not param.dtypes or STRING in param.dtypes):
        return ir.string(json.dumps(value, ensure_ascii=False))
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{_kind_of(value)}, but the parameter is a scalar")
    kinds = _KINDS.get(type(value), ())
    for dtype in sorted(param.dtypes or _own(value), key=lambda dtype: dtype.kind not in kinds):
        scalar = _as_type(dtype, value)
        if scalar is not None:
            return scalar
    raise ValueError(f"{value!r}, but the parameter is {_types_text(param.dtypes)}")


def _number_of(param: ParamDef, value: Any) -> int:
    try:
        return enumerator(param.enumeration, _whole(value))
    except ValueError as error:
        raise ValueError(f"{value!r}, {error}") from None


def _as_type(dtype: DType, value: Any) -> Scalar | None:
    """Return a plain value as a scalar of a type; None if it does not fit.

    Example:
        >>> _as_type(UINT32, 7), _as_type(UINT32, -1), _as_type(BOOL8, "true")
        (Scalar(dtype=uint32, value=7), None, Scalar(dtype=bool8, value=True))
    """
    try:
        stored = element(PLAIN.get(dtype, dtype), value if dtype.is_float else _whole(value))
    except ValueError:
        return None
    return ir.f32(float(stored)) if dtype is FLOAT32 else Scalar(dtype, stored)


def _whole(value: Any) -> Any:
    """Return a float without fraction as an int, other values as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _own(value: Any) -> tuple[DType, ...]:
    """Return the types that a value may have where the definition states none."""
    own: Mapping[type, tuple[DType, ...]] = {
        bool: (BOOL8,), int: (INT32, UINT32, INT64, UINT64), float: (FLOAT32,)
    }  # fmt: skip
    return own.get(type(value), (STRING,))


def _types_text(dtypes: Sequence[DType]) -> str:
    """Return types with the range of their integers, for messages.

    Example:
        >>> from xdlc.ir.dtype import UINT8
        >>> _types_text([UINT8, FLOAT32])
        'uint8 (0 to 255) or float32'
    """
    texts = []
    for dtype in dtypes:
        low, high = bounds(dtype) if dtype.is_integer or dtype.is_fixed else (0, 0)
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
