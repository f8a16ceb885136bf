"""``NetDef`` of Caffe2: operators and their arguments, whose values are lazy."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.caffe2.messages import DATA_TYPES, Fields, read_fields
from xdlc.converter.formats import CAFFE2, recognize
from xdlc.errors import ModelError, UnsupportedOp

_LONGEST = 1 << 20
"""Bytes of a string that is an argument."""
_LONGEST_LIST = 1 << 16
_MOST_DIMS = 32
_DAMAGED = "the file is damaged: get it again"
_HELD = {
    "FLOAT": (np.float32, "float_data"),
    "INT32": (np.int32, "int32_data"),
    "BYTE": (np.uint8, "byte_data"),
    "BOOL": (np.bool_, "int32_data"),
    "UINT8": (np.uint8, "int32_data"),
    "INT8": (np.int8, "int32_data"),
    "UINT16": (np.uint16, "int32_data"),
    "INT16": (np.int16, "int32_data"),
    "INT64": (np.int64, "int64_data"),
    "FLOAT16": (np.float16, "byte_data"),
    "DOUBLE": (np.float64, "double_data"),
}
"""Numpy type, and field of the values, of each ``TensorProto.DataType`` of numbers."""
_TYPES = {DATA_TYPES[name]: (np.dtype(dtype), held) for name, (dtype, held) in _HELD.items()}


@dataclass(slots=True)
class Argument:
    """An argument of an operator.

    Attributes:
        name: Its name.
        where: Its place, for errors.
        fields: The fields of its message.
    """

    name: str
    where: str
    fields: Fields

    def reals(self) -> ir.TensorData:
        """Return the numbers of the argument in one dimension: float32, or int64 if they are integers."""
        pieces = self.fields.get("floats") or self.fields.get("f")
        if not pieces:
            return ir.ArrayData(np.asarray(self.integers(), np.int64))
        return _joined(pieces, np.float32)

    def integers(self) -> list[int]:
        """Return the integers of the argument."""
        return self.fields.get("ints") or self.fields.get("i") or []

    def octets(self) -> ir.TensorData:
        """Return the bytes of the argument as uint8 in one dimension."""
        return _joined(self.fields.get("s") or self.fields.get("strings") or [], np.uint8)

    def value(self) -> Any:
        """Return the value as an attribute of a node.

        Numbers and lists of them are Python's, more than ``_LONGEST_LIST`` floats lazy data; tensors are
        ``TensorData``, nets ``NetDef``; an argument without a value is an empty list.

        Raises:
            ModelError: If a string is too long, or a tensor contradicts itself.
        """
        fields = self.fields
        if fields.get("floats"):
            data = self.reals()
            return data if data.shape[0] > _LONGEST_LIST else data.numpy().tolist()
        if fields.get("f"):
            return float(fields["f"][-1].numpy()[-1])
        if fields.get("strings"):
            return [self._text(data) for data in fields["strings"]]
        if fields.get("s"):
            return self._text(fields["s"][-1])
        if fields.get("t"):
            return _tensor(fields["t"][-1], self.where)
        if fields.get("tensors"):
            return [_tensor(each, self.where) for each in fields["tensors"]]
        if fields.get("i") and not fields.get("ints"):
            return fields["i"][-1]
        return fields.get("ints", [])

    def nets(self, path: Path) -> list[NetDef]:
        """Return the nets of the argument."""
        return [net_of(each, path) for name in ("n", "nets") for each in self.fields.get(name, ())]

    def _text(self, data: ir.TensorData) -> str:
        if data.nbytes > _LONGEST:
            raise ModelError(f"is a string of {data.nbytes} bytes", where=self.where, fix=_DAMAGED)
        return bytes(data.numpy()).decode("utf-8", "backslashreplace")


@dataclass(slots=True)
class OperatorDef:
    """An operator.

    Attributes:
        type: Its type.
        name: Its name, mostly empty.
        inputs: Names that it reads.
        outputs: Names that it writes.
        args: Its arguments by name.
        where: Its place, for errors.
        line: Line of the text in which it begins; 0 if the net is binary.
    """

    type: str
    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    args: dict[str, Argument]
    where: str
    line: int

    @property
    def is_fill(self) -> bool:
        """Whether it makes a tensor of nothing."""
        return self.type.endswith("Fill") and not self.inputs


@dataclass(slots=True)
class NetDef:
    """A net.

    Attributes:
        path: Its file.
        ops: Its operators, in the order in which they run.
        inputs: Names that it states as inputs, those of weights among them.
        outputs: Names that it states as outputs; may be empty.
    """

    path: Path
    ops: Sequence[OperatorDef]
    inputs: Sequence[str]
    outputs: Sequence[str]

    @property
    def has_only_fills(self) -> bool:
        """Whether all that it does is to fill tensors, as init nets do."""
        return all(op.is_fill for op in self.ops)


def read_net(path: str | os.PathLike[str]) -> NetDef:
    """Return the net of a file, binary or text.

    Raises:
        ModelError: If it is none; other formats are named.
        StorageError: If it cannot be read.
    """
    file = ir.MappedFile(path)
    found = recognize(path)
    if found not in (CAFFE2, None):
        fix = "give the predict net, and its init net with --exec_net"
        raise ModelError(f"is {found.name}, not a Caffe2 net", where=str(path), fix=fix)
    return net_of(read_fields(file), file.path)


def net_of(fields: Fields, path: Path) -> NetDef:
    """Return the net of a message.

    Raises:
        ModelError: If an operator states an argument twice, with different values.
    """
    ops = [_operator(each, path) for each in fields.get("op", ())]
    return NetDef(path, ops, fields.get("external_input", []), fields.get("external_output", []))


def _operator(fields: Fields, path: Path) -> OperatorDef:
    type, name, line = (
        (fields.get(key) or [default])[-1] for key, default in (("type", ""), ("name", ""), ("line", 0))
    )
    inputs, outputs = fields.get("input", []), fields.get("output", [])
    place = f", line {line}" if line else ""
    where = f"{path}: operator {name or next(iter(outputs), '')!r} ({type}{place})"
    args: dict[str, Argument] = {}
    for each in fields.get("arg", ()):
        key = (each.get("name") or [""])[-1]
        made = Argument(key, f"{where}: argument {key!r}", each)
        if key in args and not _is_same(args[key].fields, each):
            raise ModelError("is stated twice, with different values", where=made.where, fix="remove one")
        args[key] = made
    return OperatorDef(type, name, inputs, outputs, args, where, line)


def _is_same(one: Fields, other: Fields) -> bool:
    """Return whether two arguments have the same values."""
    names = (one.keys() | other.keys()) - {"line"}
    if any(len(one.get(name, ())) != len(other.get(name, ())) for name in names):
        return False
    pairs = [pair for name in names for pair in zip(one[name], other[name], strict=True)]
    return all(
        np.array_equal(a.numpy(), b.numpy()) if isinstance(a, ir.TensorData) else a == b for a, b in pairs
    )


def dtype_of(number: int, where: str) -> np.dtype[Any]:
    """Return the numpy type of a ``TensorProto.DataType``.

    Raises:
        UnsupportedOp: If it is no type of numbers.
    """
    return _typed(number, where)[0]


def _typed(number: int, where: str) -> tuple[np.dtype[Any], str]:
    """Return the numpy type of a ``TensorProto.DataType``, and the field that holds values of it."""
    if number not in _TYPES:
        fix = f"use {', '.join(f'{DATA_TYPES[name]} ({name})' for name in _HELD)}"
        raise UnsupportedOp(f"has data type {number}, which is no type of numbers", where=where, fix=fix)
    return _TYPES[number]


def _joined(pieces: Sequence[ir.TensorData], dtype: Any) -> ir.TensorData:
    """Return one-dimensional data one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return ir.ArrayData(np.zeros(0, dtype))
    size = sum(piece.shape[0] for piece in pieces)
    return ir.Transform(pieces, lambda *arrays: np.concatenate(arrays), (size,), dtype)


def _tensor(fields: Fields, where: str) -> ir.TensorData:
    """Return the tensor of a ``TensorProto``."""
    dtype, held = _typed((fields.get("data_type") or [1])[-1], where)
    pieces = fields.get(held, [])
    if fields.get("raw_data") or held == "byte_data":
        octets = _joined(fields.get("raw_data") or pieces, np.uint8)
        if octets.shape[0] % dtype.itemsize:
            raise ModelError(f"has {octets.shape[0]} bytes of {dtype.name}", where=where, fix=_DAMAGED)
        size = octets.shape[0] // dtype.itemsize
        data = octets.transform(lambda array: array.view(dtype), shape=(size,), dtype=dtype)
    elif held in ("float_data", "double_data"):
        data = _joined(pieces, dtype)
    else:
        data = as_integers(pieces, dtype, where)
    return shaped(data, fields.get("dims", []), where)


def as_integers(values: Sequence[int], dtype: np.dtype[Any], where: str) -> ir.TensorData:
    """Return integers as data of a type.

    Raises:
        ModelError: If one is out of its range.
    """
    array = np.asarray(values, np.int64)
    if dtype != np.bool_ and (array.astype(dtype).astype(np.int64) != array).any():
        raise ModelError(f"has values out of the range of {dtype.name}", where=where, fix=_DAMAGED)
    return ir.ArrayData(array.astype(dtype))


def shaped(data: ir.TensorData, dims: Sequence[int], where: str) -> ir.TensorData:
    """Return one-dimensional data in a shape.

    Raises:
        ModelError: If the shape is impossible, or has another number of elements.
    """
    if len(dims) > _MOST_DIMS or any(not 0 <= size < 1 << 31 for size in dims):
        raise ModelError(f"has impossible shape {list(dims[:8])}", where=where, fix=_DAMAGED)
    if math.prod(dims) != data.shape[0]:
        problem = f"has {data.shape[0]} values for shape {list(dims)}"
        raise ModelError(problem, where=where, fix=_DAMAGED)
    return data.reshape(tuple(dims))
