"""Stored tensors of PyTorch: lazy ranges of storages in all layouts of archives.

torch 2.9 and newer store a raw record for each storage and a configuration in JSON
(torch/_export/serde/schema.py, PayloadConfig); older ones an archive of ``torch.save`` as a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xdlc import ir
from xdlc.converter.pytorch.archive import AGAIN, Archive
from xdlc.converter.pytorch.calls import Call, CallGraph, Ref
from xdlc.converter.pytorch.pickled import Storage, StoredTensor, unpickle
from xdlc.converter.weights import mapped
from xdlc.errors import ModelError, UnsupportedOp, XdlcError
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
            f"a DLC cannot hold the data type {_NAMES.get(number, f'number {number}')}",
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
        raise ModelError("the tensor has impossible sizes or strides", where=where, fix=AGAIN)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count and (last + 1) * kept.itemsize > nbytes:
        problem = f"the tensor needs {(last + 1) * kept.itemsize} bytes, but its storage has {nbytes}"
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
        raise ModelError(
            f"the tensor spreads a storage of {nbytes} bytes to {count} elements", where=where, fix=AGAIN
        )
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
                "the tensor has float64 values beyond the range of float32, but a DLC holds float32",
                where=where,
                fix="keep the values within the range of float32",
            )
        return narrow

    return data.transform(narrowed, dtype=dtype.numpy, by_rows=True)


WEIGHTS, CONSTANTS = "weights", "constants"
_PICKLED = {WEIGHTS: "serialized_state_dict", CONSTANTS: "serialized_constants"}
"""Records of archives of torch 2.6 and older."""


@dataclass(slots=True)
class Parameter:
    """A tensor of a program: a parameter, a buffer or a constant.

    Attributes:
        name: Its name in the state_dict.
        data: Its elements, or the error why they cannot be read.
        place: What is equal for tensors that are the same elements: storage, offset, type, shape, strides.
    """

    name: str
    data: ir.TensorData | XdlcError
    place: tuple[Any, ...] = ()


class Parameters:
    """The stored tensors of an archive's program; None if the archive names none."""

    def __init__(self, archive: Archive, model: str | None) -> None:
        self._archive = archive
        self._configured: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._pickled: dict[str, tuple[Archive, Any]] = {}
        for kind in (CONSTANTS, WEIGHTS):
            folder, old = f"data/{kind}/", _PICKLED[kind]
            for name in archive.names(f"{folder}{model}_{kind}_config.json"):
                for tensor, entry in archive.parsed(name)["config"].items():
                    self._configured[tensor] = f"{folder}{entry['path_name']}", entry
            for name in archive.names(old) if model is None else archive.names(f"{folder}{model}.pt"):
                self._unpickle(name)

    def _unpickle(self, name: str) -> None:
        where = f"{self._archive.path}: record {name!r}"
        if not self._archive.record(name)[1]:
            return
        inner = self._archive.inner(name)
        held = unpickle(inner.read("data.pkl"), where)
        if not isinstance(held, dict):
            raise ModelError("the record is not a state_dict", where=where, fix=AGAIN)
        self._pickled |= {tensor: (inner, value) for tensor, value in held.items()}

    def find(self, name: str) -> Parameter:
        """Return a tensor; if it cannot be read, its data is the reason."""
        where = f"{self._archive.path}: tensor {name!r}"
        try:
            if name in self._configured:
                return self._of_record(name, where)
            if name in self._pickled:
                return self._of_pickle(name, where)
            return Parameter(name, ModelError("the file does not hold this tensor", where=where, fix=AGAIN))
        except XdlcError as error:
            error.where = error.where or where
            return Parameter(name, error)

    def _of_record(self, name: str, where: str) -> Parameter:
        record, entry = self._configured[name]
        if entry["use_pickle"] or entry["tensor_meta"] is None:
            raise _object(where)
        meta = entry["tensor_meta"]
        sizes, strides = (tuple(_number(each) for each in meta[key]) for key in ("sizes", "strides"))
        storage = Storage(EXPORTED.get(meta["dtype"], -1), record)
        held = StoredTensor(storage, _number(meta["storage_offset"]), sizes, strides)
        return Parameter(name, unpickled(self._archive, "", held, where), (record, *held))

    def _of_pickle(self, name: str, where: str) -> Parameter:
        archive, value = self._pickled[name]
        if not isinstance(value, StoredTensor) or value.quantizer:
            raise _object(where)
        start = archive.record(f"data/{value.storage.key}")[0]
        return Parameter(name, unpickled(archive, "data/", value), (start, *value))


def _number(value: Mapping[str, Any]) -> int:
    if type(value["as_int"]) is not int:
        raise TypeError(f"{value['as_int']!r} is not an integer")
    return value["as_int"]


def _object(where: str) -> XdlcError:
    return UnsupportedOp(
        "the tensor is a Python object, which xdlc does not execute",
        where=where,
        fix="export a network whose parameters are plain tensors: convert torchao's tensors with "
        "torchao.utils.unwrap_tensor_subclass(model)",
    )


# ---------------------------------------------------------------------- names

_FROZEN = re.compile(r"(?:.*\.)?_frozen_param\d+(?:_\d+)?")
_UNWRAPPED = re.compile(r"(.*)\.parametrizations\.(\w+)\.original0")
_INTEGER_TYPES = frozenset(range(5))  # c10/core/ScalarType.h
_RESTORING = "dequantize"
_KEEPING = ("to", "_to_copy", "t", "transpose", "permute", "view", "reshape", "clone", "contiguous", "detach")
"""Operators between the stored integers and the layer: of another type, shape or order."""


def frozen_names(graph: CallGraph, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return names that weights had before quantization, by value.

    They come from the modules that read them.

    ``convert_pt2e`` replaces a weight by its integers as a buffer ``_frozen_paramN`` of the outermost module,
    so that encodings for ``net.0.weight`` would find nothing.  The call that reads it states its module
    still.  torchao's are ``net.0.parametrizations.weight.original0`` after ``unwrap_tensor_subclass``.

    Args:
        graph: The calls of a program.
        parameters: Names in the state_dict by value.
    """
    frozen = {value for value, name in parameters.items() if _FROZEN.fullmatch(name)}
    unwrapped = {value: match for value, name in parameters.items() if (match := _UNWRAPPED.fullmatch(name))}
    if not frozen and not unwrapped:
        return {}
    readers: dict[str, list[Call]] = {}
    for call in graph.calls:
        for ref in call.refs():
            readers.setdefault(ref, []).append(call)
    read = {name for value, name in parameters.items() if value in readers}
    names: dict[str, str] = {}
    for value in parameters:
        name = ""
        if value in frozen:
            name = next(_weights(value, readers, set()), "")
        elif value in unwrapped and graph.values[value].dtype in _INTEGER_TYPES:
            name = ".".join(unwrapped[value].groups())
        if name and name not in read and name not in names.values():
            names[value] = name
    return names


def _weights(value: str, readers: Mapping[str, list[Call]], seen: set[str]) -> Iterator[str]:
    """Iterate over the names of weights in layers that read a dequantized value."""
    if value in seen:
        return
    seen.add(value)
    for call in readers.get(value, ()):
        operator = call.target.split(".")[1]
        if operator.startswith(_RESTORING) or operator in _KEEPING:
            for output in call.outputs:
                yield from _weights(output, readers, seen)
        elif call.module and call.arguments.get("weight") == Ref(value):
            yield f"{call.module}.weight"
