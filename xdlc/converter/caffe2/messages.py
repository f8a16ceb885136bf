"""``NetDef`` messages of Caffe2, binary or text, as mappings of fields; the values of tensors are lazy.

Field names and numbers: caffe2.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from xdlc import ir
from xdlc.converter.protobuf_fields import BYTES, FIXED32, FIXED64, ProtobufFile
from xdlc.converter.protobuf_text import Message, Value, Word, read_text
from xdlc.converter.session.context import Allowance
from xdlc.errors import ModelError

Fields: TypeAlias = dict[str, list[Any]]
"""Values of the fields of a message by name: integers, text, messages, and lazy data in one dimension for
bytes and for each run of floats.  ``line`` is the line of the text in which the message begins."""

_MOST_OBJECTS = 1 << 18
"""Operators, arguments, names and runs of values in a file."""
_LONGEST_NAME = 1 << 12
_DEPTH = 32
"""Nets that nest in arguments."""
_FIELDS: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "net": {
        1: ("name", "text"),
        2: ("op", "op"),
        7: ("external_input", "text"),
        8: ("external_output", "text"),
    },
    "op": {
        1: ("input", "text"),
        2: ("output", "text"),
        3: ("name", "text"),
        4: ("type", "text"),
        5: ("arg", "arg"),
    },
    "arg": {
        1: ("name", "text"),
        2: ("f", "float"),
        3: ("i", "int"),
        4: ("s", "bytes"),
        5: ("floats", "float"),
        6: ("ints", "int"),
        7: ("strings", "bytes"),
        8: ("n", "net"),
        9: ("nets", "net"),
        10: ("t", "tensor"),
        11: ("tensors", "tensor"),
    },
    "tensor": {
        1: ("dims", "int"),
        2: ("data_type", "int"),
        3: ("float_data", "float"),
        4: ("int32_data", "int"),
        5: ("byte_data", "bytes"),
        9: ("double_data", "double"),
        10: ("int64_data", "int"),
        13: ("raw_data", "bytes"),
    },
}
"""Name and form of the fields that are read, by number, of each kind of message."""
DATA_TYPES = {
    "UNDEFINED": 0,
    "FLOAT": 1,
    "INT32": 2,
    "BYTE": 3,
    "STRING": 4,
    "BOOL": 5,
    "UINT8": 6,
    "INT8": 7,
    "UINT16": 8,
    "INT16": 9,
    "INT64": 10,
    "FLOAT16": 12,
    "DOUBLE": 13,
}
"""Numbers of ``TensorProto.DataType``."""
_WIRES = {"float": FIXED32, "double": FIXED64}


def read_fields(file: ir.MappedFile) -> Fields:
    """Return the ``NetDef`` of a file.

    Raises:
        ModelError: If it is none, is truncated, nests too deep or has too many parts.
    """
    head = bytes(file.view(0, min(file.size, 4096)))
    if head and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return _Text(file).fields("net", read_text(file), 0)
    return _Binary(file).fields("net", (0, file.size), 0)


class _Reader:
    """Limits of the reading of one file."""

    def __init__(self, file: ir.MappedFile) -> None:
        self.where = str(file.path)
        self._objects = Allowance(_MOST_OBJECTS)

    def inner(self, depth: int) -> int:
        """Return the depth of a message inside one."""
        if depth > 3 * _DEPTH:  # each net has an operator and an argument around it
            fix = "the file is damaged: get it again"
            raise ModelError(f"nets nest deeper than {_DEPTH}", where=self.where, fix=fix)
        return depth + 1

    def count(self, number: int = 1) -> None:
        """Count objects that stay in memory."""
        if not self._objects.take(number):
            problem = f"has more than {_MOST_OBJECTS} operators, arguments and names"
            raise ModelError(problem, where=self.where, fix="convert a part of the net")


class _Binary(_Reader):
    """Reader of a binary file."""

    def __init__(self, file: ir.MappedFile) -> None:
        super().__init__(file)
        self._file = ProtobufFile(file, "a Caffe2 net")

    def fields(self, kind: str, place: tuple[int, int], depth: int) -> Fields:
        """Return the fields of the message in a range of the file."""
        file, known = self._file, _FIELDS[kind]
        found: Fields = {}
        for field in file.fields(*place):
            name, form = known.get(field.number, ("", ""))
            if not name:
                continue
            values = found.setdefault(name, [])
            if form == "int":
                values += file.integers(field)
                continue
            self.count()
            if form == "text":
                values.append(file.text(field, _LONGEST_NAME))
            elif form == "bytes":
                values.append(file.lazy_bytes(field))
            elif form in _WIRES:
                values.append(file.lazy_reals(field, _WIRES[form]))
            else:
                file.require(field, BYTES)
                values.append(self.fields(form, (field.start, field.end), self.inner(depth)))
        return found


class _Text(_Reader):
    """Reader of a text."""

    def fields(self, kind: str, message: Message, depth: int) -> Fields:
        """Return the fields of a message."""
        found: Fields = {"line": [message.line]}
        for name, form in _FIELDS[kind].values():
            values = message.fields.get(name)
            if not values:
                continue
            try:
                found[name] = self._values(form, values, depth)
            except TypeError as error:
                place, fix = f"{self.where}: line {message.line}", "correct the text"
                raise ModelError(
                    f"field {name!r} has a value of another type", where=place, fix=fix
                ) from error
        return found

    def _values(self, form: str, values: Sequence[Value], depth: int) -> list[Any]:
        """Return the values of a field.

        Raises:
            TypeError: If one is of another type.
        """
        if form in _WIRES:
            numbers = np.asarray([_number(each) for each in values], np.float64)
            with np.errstate(over="ignore"):
                return [ir.ArrayData(numbers.astype(np.float32 if form == "float" else np.float64))]
        self.count(len(values))
        if form == "int":
            return [_integer(each) for each in values]
        if form == "text":
            return [_string(each)[:_LONGEST_NAME] for each in values]
        if form == "bytes":
            octets = (_string(each).encode("utf-8", "surrogateescape") for each in values)
            return [ir.ArrayData(np.frombuffer(each, np.uint8)) for each in octets]
        if not all(isinstance(each, Message) for each in values):
            raise TypeError
        depth = self.inner(depth)
        return [self.fields(form, each, depth) for each in values if isinstance(each, Message)]


def _number(value: Value) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise TypeError


def _integer(value: Value) -> int:
    found = DATA_TYPES.get(value) if isinstance(value, Word) else value
    if isinstance(found, int) and -1 << 63 <= found < 1 << 63:
        return found
    raise TypeError


def _string(value: Value) -> str:
    if isinstance(value, str) and not isinstance(value, Word):
        return value
    raise TypeError
