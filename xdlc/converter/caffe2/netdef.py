"""``NetDef`` messages of Caffe2, binary or text: operators and lazy arguments.

Field names and numbers: caffe2.proto.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from xdlc import ir
from xdlc.converter.formats import CAFFE2, recognize
from xdlc.converter.protobuf_fields import BYTES, FIXED64, ProtobufFile
from xdlc.converter.protobuf_text import Message, Value, Word, read_text, text_of
from xdlc.converter.session.context import Allowance, ImportContext
from xdlc.converter.session.node import Body
from xdlc.errors import ModelError, UnsupportedOp, damaged
from xdlc.options import spell

Fields: TypeAlias = dict[str, list[Any]]
"""Values of the fields of a message by name: integers, text, messages, and lazy data in one dimension for
bytes and for each run of floats.  ``line`` is the line of the text in which the message begins."""

_MOST_OBJECTS = 1 << 17
"""Operators, arguments, names and runs of values in a file."""
_LONGEST_NAME = 1 << 12
_MESSAGES = {
    "net": "1 name -, 2 op op, 3 type -, 4 num_workers -, 5 device_option -, 6 arg -, 7 external_input text,"
    "8 external_output text",
    "op": "1 input text, 2 output text, 3 name text, 4 type text, 5 arg arg, 6 device_option -, 7 engine -,"
    "8 control_input -, 9 is_gradient_op -, 10 debug_info -, 11 domain -, 12 op_version -",
    "arg": "1 name text, 2 f float, 3 i int, 4 s bytes, 5 floats float, 6 ints int, 7 strings bytes,"
    "8 n inner, 9 nets inner, 10 t tensor, 11 tensors tensor, 12 qtensors -",
    "inner": "1 name text, 2 op -, 3 type -, 4 num_workers -, 5 device_option -, 6 arg -,"
    "7 external_input text, 8 external_output text",
    "tensor": "1 dims int, 2 data_type int, 3 float_data float, 4 int32_data int, 5 byte_data bytes,"
    "6 string_data -, 7 name -, 8 device_detail -, 9 double_data double, 10 int64_data int,"
    "13 raw_data bytes",
}
"""Number, name and form of the fields of each kind of message; ``-`` for those that are not read."""
_FIELDS = {kind: [field.split() for field in fields.split(",")] for kind, fields in _MESSAGES.items()}
_BY_NUMBER = {kind: {int(number): rest for number, *rest in fields} for kind, fields in _FIELDS.items()}
_BY_NAME = {kind: {name: form for _, name, form in fields} for kind, fields in _FIELDS.items()}
_TYPES = "FLOAT INT32 BYTE BOOL UINT8 INT8 UINT16 INT16 INT64 FLOAT16 DOUBLE"
DATA_TYPES = dict(zip(_TYPES.split(), (1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13), strict=True))
"""Numbers of the numeric types of ``TensorProto.DataType``, by name."""


def read_fields(file: ir.MappedFile) -> Fields:
    """Return the ``NetDef`` of a file.

    Raises:
        ModelError: If it is another file, is truncated, or has too many parts.
    """
    head = bytes(file.view(0, min(file.size, 4096)))
    if head and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return _of_text("net", read_text(file), str(file.path))
    return _of_range("net", ProtobufFile(file, "a Caffe2 net"), 0, file.size, Allowance(_MOST_OBJECTS))


def _of_range(kind: str, file: ProtobufFile, start: int, end: int, objects: Allowance) -> Fields:
    """Return the fields of the message in a range of a binary file."""
    fields: Fields = {}
    for field in file.fields(start, end):
        name, form = _BY_NUMBER[kind].get(field.number, ("", "-"))
        values = fields.setdefault(name, [])
        if form == "int":
            values += file.integers(field)
        elif form != "-" and not objects.take():
            problem = (
                f"the net has too many operators, arguments and names; xdlc supports at most {_MOST_OBJECTS}"
            )
            raise ModelError(problem, where=str(file.file.path), fix="convert a part of the net")
        elif form == "text":
            values.append(file.text(field, _LONGEST_NAME))
        elif form == "bytes":
            values.append(file.lazy_bytes(field))
        elif form == "float":
            values.append(file.lazy_reals(field))
        elif form == "double":
            values.append(file.lazy_reals(field, FIXED64))
        elif form != "-":
            file.require(field, BYTES)
            values.append(_of_range(form, file, field.start, field.end, objects))
    return fields


def _of_text(kind: str, message: Message, where: str) -> Fields:
    """Return the fields of a message of a text."""
    fields: Fields = {"line": [message.line]}
    for name, values in message.fields.items():
        form = _BY_NAME[kind].get(name, "")
        place, fix = f"{where}: line {message.line}", "correct the text"
        if not form:
            raise ModelError(f"field {name!r} is not in caffe2.proto", where=place, fix=fix)
        try:
            fields[name] = [] if form == "-" else [_value(form, value, where) for value in values]
        except TypeError as error:
            problem = f"field {name!r} has a value of another type or size"
            raise ModelError(problem, where=place, fix=fix) from error
        if form in ("float", "double") and values:
            with np.errstate(over="ignore"):
                dtype = np.float32 if form == "float" else np.float64
                fields[name] = [ir.ArrayData(np.asarray(fields[name], dtype))]
    return fields


def _value(form: str, value: Value, where: str) -> Any:
    """Return one value of a field of a text.

    Raises:
        TypeError: If it is of another type, or too large.
    """
    if isinstance(value, Message):
        if form in _BY_NAME:
            return _of_text(form, value, where)
    elif isinstance(value, str) and not isinstance(value, Word):
        octets = value.encode("utf-8", "surrogateescape")
        if form == "bytes":
            return ir.ArrayData(np.frombuffer(octets, np.uint8))
        if form == "text" and len(octets) <= _LONGEST_NAME:
            return octets.decode("utf-8", "backslashreplace")
    elif form in ("float", "double") and isinstance(value, (int, float)):
        return float(value)
    elif form == "int" and isinstance(value, int) and -1 << 63 <= value < 1 << 63:
        return value
    raise TypeError


_LONGEST = 1 << 20
"""Bytes of a string that is an argument."""
_LONGEST_LIST = 1 << 16
_MOST_DIMS = 32
_LISTS = {"f": "floats", "s": "strings", "i": "ints"}
"""Fields of an argument: of one value, and of many."""
_OTHER_NAMES = {"FLOAT": "float32", "BYTE": "uint8", "DOUBLE": "float64"}
"""Numpy's names of data types that Caffe2 names in another way."""


class InnerNet(Body):
    """A net that is an argument."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields.get("external_input", []), fields.get("external_output", []))

    def add_nodes(self, context: ImportContext) -> None:
        """Refuse to be run.

        Raises:
            UnsupportedOp: Always; no operator here runs nets.
        """
        raise UnsupportedOp(
            "the operator runs a net, which xdlc does not support",
            fix="export the net without operators that run nets",
        )


@dataclass(slots=True)
class Argument:
    """An argument of an operator.

    Attributes:
        fields: The fields of its message.
    """

    where: str
    fields: Fields

    def reals(self) -> ir.TensorData:
        """Return the argument's numbers [n]: float32, or int64 if they are integers."""
        pieces = self.fields.get("floats") or self.fields.get("f")
        return _joined(pieces, np.float32) if pieces else ir.ArrayData(np.asarray(self.integers(), np.int64))

    def integers(self) -> list[int]:
        """Return the integers of the argument."""
        return self.fields.get("ints") or self.fields.get("i") or []

    def octets(self) -> ir.TensorData:
        """Return the bytes of the argument as uint8 in one dimension."""
        return _joined(self.fields.get("s") or self.fields.get("strings") or [], np.uint8)

    def value(self) -> Any:
        """Return the value as an attribute of a node.

        Numbers and lists of them are Python's, more than ``_LONGEST_LIST`` floats and tensors lazy data; an
        argument without a value is an empty list.  A net is of use for user-defined operations only.

        Raises:
            ModelError: If a string is too long, or a tensor contradicts itself.
            UnsupportedOp: If it is a quantized tensor, or one of other things than numbers.
        """
        for single, many in _LISTS.items():
            if self.fields.get(many):
                return self._values(many, self.fields[many])
            if self.fields.get(single):
                values = self._values(many, self.fields[single])
                return values[-1] if isinstance(values, list) and values else values
        for single, many, read in (("n", "nets", InnerNet), ("t", "tensors", self._tensor)):
            if self.fields.get(many):
                return [read(fields) for fields in self.fields[many]]
            if self.fields.get(single):
                return read(self.fields[single][-1])
        if self.fields.get("qtensors"):
            problem, fix = (
                "the argument is a quantized tensor, which xdlc does not support",
                "remove the argument if the model does not need it",
            )
            raise UnsupportedOp(problem, where=self.where, fix=fix)
        return []

    def _tensor(self, fields: Fields) -> ir.TensorData:
        """Return the elements of a ``TensorProto``."""
        dtype = dtype_of((fields.get("data_type") or [1])[-1], self.where)
        octets = fields.get("raw_data") or fields.get("byte_data")
        reals = {"float32": "float_data", "float64": "double_data"}.get(dtype.name)
        numbers = fields.get("int64_data" if dtype == np.int64 else "int32_data", [])
        if octets:
            content = _joined(octets, np.uint8)
            size, rest = divmod(content.nbytes, dtype.itemsize)
            if rest:
                raise damaged(f"the tensor has {content.nbytes} bytes at {dtype.itemsize} each", self.where)
            data: ir.TensorData = ir.Transform([content], lambda array: array.view(dtype), (size,), dtype)
        elif reals:
            data = _joined(fields.get(reals, []), dtype)
        elif dtype == np.float16:  # as bits
            bits = as_integers(numbers, np.dtype(np.uint16), self.where)
            data = ir.ArrayData(bits.numpy().view(dtype))
        else:
            data = as_integers(numbers, dtype, self.where)
        return shaped(data, fields.get("dims", []), self.where)

    def _values(self, many: str, elements: Sequence[Any]) -> Any:
        if many == "floats":
            data = _joined(elements, np.float32)
            return data if data.shape[0] > _LONGEST_LIST else data.numpy().tolist()
        if many == "strings":
            return [self._text(data) for data in elements]
        return elements

    def _text(self, data: ir.TensorData) -> str:
        if data.nbytes > _LONGEST:
            raise damaged(f"a string of {data.nbytes} bytes exceeds {_LONGEST}", self.where)
        return text_of(bytes(data.numpy()), "backslashreplace")


@dataclass(slots=True)
class OperatorDef:
    """An operator.

    Attributes:
        name: Its name, mostly empty.
        inputs: Names that it reads.
        outputs: Names that it writes.
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
        """Whether it creates a tensor without inputs."""
        return self.type.endswith("Fill") and not self.inputs


@dataclass(slots=True)
class NetDef:
    """A net.

    Attributes:
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
        """Whether it only fills tensors, like init nets."""
        return all(op.is_fill for op in self.ops)


def read_net(path: str | os.PathLike[str]) -> NetDef:
    """Return the net of a file, binary or text.

    Raises:
        ModelError: If it is another file, whose format is named; or if an operator states an argument
            twice, with different values.
        StorageError: If it cannot be read.
    """
    file = ir.MappedFile(path)
    found = recognize(path)
    if found not in (CAFFE2, None):
        fix = f"pass the predict net, and its init net with {spell('weights')}"
        raise ModelError(f"the file is {found.name}, not a Caffe2 net", where=str(path), fix=fix)
    fields = read_fields(file)
    ops = [_operator(each, file.path) for each in fields.get("op", ())]
    return NetDef(file.path, ops, fields.get("external_input", []), fields.get("external_output", []))


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
        argument = Argument(f"{where}: argument {key!r}", each)
        if key in args and _plain(args[key].fields) != _plain(each):
            raise ModelError(
                "the operator has this argument twice, with different values",
                where=argument.where,
                fix="remove one of the two",
            )
        args[key] = argument
    return OperatorDef(type, name, inputs, outputs, args, where, line)


def _plain(value: Any) -> Any:
    """Return fields, or a field's value, in a comparable form."""
    if isinstance(value, dict):
        return {name: [_plain(each) for each in held] for name, held in value.items() if name != "line"}
    return value.numpy().tobytes() if isinstance(value, ir.TensorData) else value


def dtype_of(number: int, where: str) -> np.dtype[Any]:
    """Return the numpy type of a ``TensorProto.DataType``.

    Raises:
        UnsupportedOp: If it is not numeric.
    """
    for name, known in DATA_TYPES.items():
        if known == number:
            return np.dtype(_OTHER_NAMES.get(name, name.lower()))
    fix = f"use {', '.join(f'{known} ({name})' for name, known in DATA_TYPES.items())}"
    raise UnsupportedOp(f"the tensor has data type {number}, which is not numeric", where=where, fix=fix)


def _joined(pieces: Sequence[ir.TensorData], dtype: Any) -> ir.TensorData:
    """Return one-dimensional data concatenated."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return ir.ArrayData(np.zeros(0, dtype))
    size = sum(piece.shape[0] for piece in pieces)
    return ir.Transform(pieces, lambda *arrays: np.concatenate(arrays), (size,), dtype)


def as_integers(values: Sequence[int], dtype: np.dtype[Any], where: str) -> ir.TensorData:
    """Return integers as data of a type.

    Raises:
        ModelError: If one is out of its range.
    """
    array = np.asarray(values, np.int64)
    if dtype != np.bool_ and (array.astype(dtype).astype(np.int64) != array).any():
        raise damaged(f"the tensor has values out of the range of {dtype.name}", where)
    return ir.ArrayData(array.astype(dtype))


def check_dims(dims: Sequence[int], where: str) -> None:
    """Refuse a shape that no tensor has.

    Raises:
        ModelError: If it has too many dimensions, or one of an impossible size.
    """
    if len(dims) > _MOST_DIMS or any(not 0 <= size < 1 << 31 for size in dims):
        raise damaged(f"the tensor has the invalid shape {list(dims[:8])}", where)


def shaped(data: ir.TensorData, dims: Sequence[int], where: str) -> ir.TensorData:
    """Return one-dimensional data in a shape.

    Raises:
        ModelError: If the shape is impossible, or has another number of elements.
    """
    check_dims(dims, where)
    if math.prod(dims) != data.shape[0]:
        problem = f"the tensor has {data.shape[0]} values for shape {list(dims)}"
        raise damaged(problem, where)
    return data.reshape(tuple(dims))
