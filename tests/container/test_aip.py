import struct

import pytest

from xdlc.container.aip import Dimension, Engine, parse_aip
from xdlc.errors import ContainerError


def buffer(name, direction=0, layer=1, rank=1, dimensions=1, axis=2):
    raw = name.encode() if isinstance(name, str) else name
    head = struct.pack("<IIIIII", direction, layer, len(raw), layer << 16, 0xDEAD, rank)
    return head + raw + struct.pack("<IIII16x", axis, 32, 0, 64) * dimensions


def section(engine, first, last, buffers, binary=b"", count=None, described=None):
    body = b"".join(buffers)
    size = len(body) if described is None else described
    number = len(buffers) if count is None else count
    return (
        struct.pack("<IIIIII16s", engine, first, last, number, size, len(binary), b"g" * 16) + body + binary
    )


def record(*sections, count=None, size=None, extra=b""):
    body = b"".join(sections) + extra
    total = 24 + len(body) if size is None else size
    head = struct.pack("<4B4BI4BII", 0, 0, 2, 1, 7, 1, 6, 1, 1, 1, 0, 0, 0, count or len(sections), total)
    return head + body


HTA = section(0, 0, 4, [buffer("in"), buffer("out", 1)], b"code")
HNN = section(1, 5, 6, [buffer("out", rank=0xBEEF, dimensions=0)])


def test_all_of_a_record():
    found = parse_aip(record(HTA, HNN), where="here")
    assert (found.version, found.compiler, found.flavour) == ("1.2.0.0", "1.6.1.7", 1)
    hta, hnn = found.sections
    assert (hta.engine, hta.first, hta.last, hta.binary) == (Engine.HTA, 0, 4, b"code")
    assert [(item.name, item.is_output) for item in hta.buffers] == [("in", False), ("out", True)]
    assert hta.buffers[0].dimensions == (Dimension("channel", 32, 64),)
    assert (hnn.engine, hnn.binary, hnn.buffers[0].dimensions) == (Engine.HNN, b"", ())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (record(HTA, extra=b"x"), "1 bytes behind"),
        (record(HTA, size=7), "says that it has 7 bytes"),
        (record(HTA, count=99), "announces 99 sections"),
        (record(section(2, 0, 0, [])), "engine 2"),
        (record(section(0, 0, 0, [buffer("a")], count=9)), "announces 9 buffers"),
        (record(section(0, 0, 0, [buffer("a")], described=90)), "describes buffers"),
        (record(section(0, 0, 0, [buffer("a", rank=5)])), "dimensions"),
        (record(section(0, 0, 0, [buffer("a", axis=3)])), "axis 3"),
        (record(section(0, 0, 0, [buffer(b"\xff")])), "UTF-8"),
    ],
)
def test_broken_records_are_refused(data, problem):
    with pytest.raises(ContainerError, match=problem):
        parse_aip(data, where="here")


@pytest.mark.parametrize("size", range(len(record(HTA, HNN))))
def test_cut_records_are_refused(size):
    with pytest.raises(ContainerError):
        parse_aip(record(HTA, HNN)[:size], where="here")
