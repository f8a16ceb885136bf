"""Scalar parameters of UDOs, in the types that their definitions allow."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from xdlc import ir
from xdlc.errors import nearest_names
from xdlc.ir import DType, Scalar
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, STRING, UINT32, UINT64
from xdlc.opdefs.defaults import LARGEST
from xdlc.opdefs.model import ParamDef

_TRUTH = {"true": True, "false": False}
_KINDS = {bool: ("bool",), int: ("int", "uint", "sfixed", "ufixed"), float: ("float",)}


def scalar(param: ParamDef, value: Any) -> Scalar:
    """Return a value as a parameter of the first type that the definition allows and that holds it.

    Types of the value's own kind come first: an integer becomes a float only where no integer type is
    allowed.  A list of strings is stored as the text of a JSON list, for a DLC has no tensors of strings.

    Args:
        param: Definition of the parameter; without types of its own it takes the value's.
        value: int, float, bool, str, or a list of str.

    Raises:
        ValueError: If the value has no such form; states what was found and expected.
    """
    if param.enumeration:
        number = number_of(param, value)
        fitting = (_as_type(dtype, number) for dtype in param.dtypes)
        return next((one for one in fitting if one is not None), ir.u32(number))
    if _is_texts(value) and (not param.dtypes or STRING in param.dtypes):
        return ir.string(json.dumps(value, ensure_ascii=False))
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{kind_of(value)}, but the parameter is a scalar")
    for dtype in _ordered(param.dtypes or _own(value), value):
        made = _as_type(dtype, value)
        if made is not None:
            return made
    raise ValueError(f"{value!r}, but the parameter is {types_text(param.dtypes)}")


def number_of(param: ParamDef, value: Any) -> int:
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
    """Return a plain value as a scalar of a type, or None if the type does not hold it.

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


def types_text(dtypes: Sequence[DType]) -> str:
    """Return types with the range of their integers, for messages.

    Example:
        >>> from xdlc.ir.dtype import UINT8
        >>> types_text([UINT8, FLOAT32])
        'uint8 (0 to 255) or float32'
    """
    texts = []
    for dtype in dtypes:
        low, high = dtype.limits if dtype.is_integer or dtype.is_fixed else (0, 0)
        texts.append(f"{dtype.name} ({low} to {high})" if high else dtype.name)
    return " or ".join(texts)


def kind_of(value: Any) -> str:
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
    if math.isfinite(real) and abs(real) > LARGEST.get(dtype, math.inf):
        return None
    made = ir.f32(real) if dtype is FLOAT32 else Scalar(dtype, real)
    exact = not isinstance(value, int) or int(made.value) == value
    return made if exact else None


def _whole(value: Any) -> int | None:
    """Return a number without a fraction as an int; None for anything else."""
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
    """Return types with those of the value's own kind in front."""
    kinds = _KINDS.get(type(value), ())
    return sorted(dtypes, key=lambda dtype: dtype.kind not in kinds)
