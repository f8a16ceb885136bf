"""Caffe2's ``NetDef`` messages, binary or text, as mappings of lazy fields.

Field names and numbers: caffe2.proto.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from xdlc import ir
from xdlc.converter.protobuf_fields import BYTES, FIXED64, ProtobufFile
from xdlc.converter.protobuf_text import Message, Value, Word, read_text
from xdlc.converter.session.context import Allowance
from xdlc.errors import ModelError

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
"""Numbers of the types of numbers among ``TensorProto.DataType``."""


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
            problem = f"has more than {_MOST_OBJECTS} operators, arguments and names"
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
