"""Fields of protobuf files without a schema."""

import struct

import numpy as np
import pytest

from xdlc.converter.protobuf_fields import FIXED64, ProtobufFile
from xdlc.errors import ModelError
from xdlc.ir.data import MemoryFile


def held(data):
    return ProtobufFile(MemoryFile("file", memoryview(data)), "a file of the test")


def keyed(values, key=b"\x2d", form="<f"):
    return b"".join(key + struct.pack(form, value) for value in values)


def test_fields_of_every_wire_type():
    file = held(b"\x08\x96\x01\x12\x02hi\x18" + b"\xff" * 9 + b"\x01" + keyed([1.5]) + b"\x32\x02\x05\x07")
    fields = list(file.fields())
    assert [(field.number, field.wire) for field in fields] == [(1, 0), (2, 2), (3, 0), (5, 5), (6, 2)]
    assert (file.signed(fields[0]), file.text(fields[1]), file.signed(fields[2])) == (150, "hi", -1)
    assert file.lazy_reals(fields[3]).numpy().tolist() == [1.5]
    assert file.integers(fields[4]) == [5, 7]


@pytest.mark.parametrize("count", [1, 2, 9, 1000, 70000])
def test_numbers_with_a_key_each_are_one_field(count):
    values = np.arange(count, dtype=np.float32)
    file = held(keyed(values) + b"\x08\x01" + keyed([2.0], b"\x31", "<d") * 2)
    fields = list(file.fields())
    assert len(fields) == 3
    np.testing.assert_array_equal(file.lazy_reals(fields[0]).numpy(), values)
    assert file.lazy_reals(fields[2], FIXED64).numpy().tolist() == [2.0, 2.0]


def test_packed_numbers_are_a_range():
    file = held(b"\x2a\x08" + struct.pack("<2f", 1, 2))
    (field,) = file.fields()
    assert (field.start, field.end) == (2, 10)
    assert file.lazy_reals(field).numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("data", [b"\x08", b"\x12\x05a", b"\x0b", b"\x00", b"\x2d\0\0", b"\xff" * 12])
def test_other_bytes_are_refused(data):
    with pytest.raises(ModelError):
        list(held(data).fields())


def test_payloads_of_another_type_are_refused():
    file = held(b"\x08\x01\x12\x03abc")
    number, text = file.fields()
    for read, field in ((file.text, number), (file.signed, text), (file.lazy_reals, text)):
        with pytest.raises(ModelError):
            read(field)
    with pytest.raises(ModelError):
        file.text(text, 2)


def test_fields_are_limited(monkeypatch):
    monkeypatch.setattr("xdlc.converter.protobuf_fields.MOST_FIELDS", 3)
    with pytest.raises(ModelError):
        list(held(b"\x08\x01" * 4).fields())
