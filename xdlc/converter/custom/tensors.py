"""Values of a source model as tensor parameters of the types that a definition allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.converter.custom.scalars import kind_of, number_of, types_text
from xdlc.ir import ArrayData, DType, Role, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32, INT64, UINT32, UINT64, from_numpy
from xdlc.opdefs.model import ParamDef

_SHRUNK = {INT64: (INT32, INT64), UINT64: (UINT32, UINT64)}


def tensor(param: ParamDef, value: Any) -> Tensor:
    """Return a value as a tensor parameter.

    A number stands for a tensor of one element.  A list has one axis; where the definition states
    another number of axes and all their extents, its elements fill these in order.

    Args:
        param: Definition of the parameter; without types of its own it takes the value's.
        value: A number, a list of numbers, maybe nested, an array, or ``TensorData``; of an enumeration
            also names.

    Raises:
        ValueError: If the value has no such form; says what was found and expected.
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
    """Return elements with as many axes as the definition states."""
    rank = len(data.shape)
    if param.rank is None or rank == param.rank:
        return data if data.shape else data.reshape((1,))
    if not rank and param.rank == 1:
        return data.reshape((1,))
    extents = tuple(int(extent) for extent in param.shape if extent.isdecimal())
    if rank == 1 and len(extents) == len(param.shape) == param.rank:
        count = 1
        for extent in extents:
            count *= extent
        if count == data.shape[0]:
            return data.reshape(extents)
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
        return FLOAT32  # reals that the quantizer is going to store
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
    """Return whether a type holds all elements: integers exactly, reals rounded but not overflowing."""
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
