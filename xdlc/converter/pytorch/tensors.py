"""Stored tensors of PyTorch: lazy ranges of storages, under any strides."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xdlc import ir
from xdlc.converter.pytorch.archive import AGAIN, Archive
from xdlc.converter.pytorch.pickled import StoredTensor
from xdlc.converter.weights import mapped
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import dtype as types

_C10 = {
    **dict(enumerate((types.UINT8, types.INT8, types.INT16, types.INT32, types.INT64))),
    **dict(enumerate((types.FLOAT16, types.FLOAT32, types.FLOAT64), 5)),
    11: types.BOOL8,
    15: types.BFLOAT16,
}
"""Data types by their number in c10/core/ScalarType.h, as TorchScript states them."""
EXPORTED = {**{number + 1: number for number in range(12)}, 13: 15, 28: 27, 29: 24, 30: 23}
"""Numbers of c10 by those of a saved program, which count from 1 (torch/_export/serde/schema.py)."""
_NAMES = {8: "complex32", 9: "complex64", 10: "complex128", 12: "qint8", 13: "quint8", 14: "qint32"}
_INTEGERS = {12: 1, 13: 0, 14: 3}
"""Data types of the integers of quantized tensors, by the number of c10 of those."""
_MOST_SPREAD, _MOST_COPIED = 64, 1 << 27
"""How many times longer than its storage a tensor may be by strides of 0, and bytes that it may have then."""


def dtype_of(number: int) -> ir.DType:
    """Return the data type of a c10 number; float64 becomes float32.

    Raises:
        UnsupportedOp: If no DLC holds it.
    """
    dtype = _C10.get(number)
    if dtype is None:
        raise UnsupportedOp(
            f"its data type is {_NAMES.get(number, f'number {number}')}, which a DLC cannot hold",
            fix="use real numbers, float32 or float16",
        )
    return types.FLOAT32 if dtype is types.FLOAT64 else dtype


def unpickled(archive: Archive, folder: str, tensor: StoredTensor, where: str = "") -> ir.TensorData:
    """Return a stored tensor as lazy data; of a quantized one the integers.

    Args:
        folder: Folder of the records of storages: ``data/``.
        where: Its place, for errors; default: that of the record.

    Raises:
        ModelError: If it is not inside its storage.
        UnsupportedOp: If no DLC holds its type.
    """
    record = f"{folder}{tensor.storage.key}"
    where = where or f"{archive.path}: {record}"
    number = _INTEGERS.get(tensor.storage.number, tensor.storage.number)
    offset, shape, strides = tensor.offset, tensor.shape, tensor.strides
    start, nbytes = archive.record(record) if all(shape) else (0, 0)
    kept = _C10.get(number, types.FLOAT32).numpy
    dtype = dtype_of(number)
    if len(strides) != len(shape) or min([0, offset, *shape, *strides]) < 0:
        raise ModelError("has impossible sizes or strides", where=where, fix=AGAIN)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count and (last + 1) * kept.itemsize > nbytes:
        problem = f"needs {(last + 1) * kept.itemsize} bytes of a storage of {nbytes}"
        raise ModelError(problem, where=where, fix=AGAIN)
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    dense = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense:
            break
        dense *= shape[axis]
    if not count:
        return ir.ArrayData(np.empty(shape, dtype.numpy))
    start += offset * kept.itemsize
    if dense == count:
        held = mapped(archive.source, start, None, [shape[axis] for axis in order], kept, where)
        return _cast(held.transpose([order.index(axis) for axis in range(len(shape))]), dtype, where)
    if count > max(min(_MOST_SPREAD * nbytes, _MOST_COPIED), nbytes) // kept.itemsize:
        raise ModelError(f"spreads a storage of {nbytes} bytes to {count} elements", where=where, fix=AGAIN)
    steps = [stride * kept.itemsize for stride in strides]
    flat = mapped(archive.source, start, None, [last + 1 - offset], kept, where)
    spread = flat.transform(lambda array: as_strided(array, shape, steps).copy(), shape=tuple(shape))
    return _cast(spread, dtype, where)


def _cast(data: ir.TensorData, dtype: ir.DType, where: str) -> ir.TensorData:
    """Return data in another type, which finite values of float64 must fit."""
    if data.dtype != np.float64:
        return data.cast(dtype.numpy)

    def narrowed(array: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            narrow = array.astype(dtype.numpy)
        if not np.array_equal(np.isinf(narrow), np.isinf(array)):
            raise UnsupportedOp(
                "has float64 values beyond the range of float32, in which a DLC holds them",
                where=where,
                fix="keep its values within that range",
            )
        return narrow

    return data.transform(narrowed, dtype=dtype.numpy, by_rows=True)
