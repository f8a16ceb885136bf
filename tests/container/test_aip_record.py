import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xdlc
from xdlc.container.aip_record import (
    BUFFER,
    DIMENSION,
    HEADER,
    SECTION,
    AipBuffer,
    AipRecord,
    Dimension,
    Engine,
    Section,
    buffer_id,
    parse_aip,
    write_aip,
)
from xdlc.errors import ContainerError

HTA_FILES = (
    "models/dlc/mlperf_deeplabv3_v0_7/deeplabv3_quantized_hta_enabled.dlc",
    "samples/dlc/hta/v0_7_SNPE_deeplabv3_quantized_hta_enabled.dlc",
    "samples/dlc/hta/v1_0_SNPE_deeplabv3_hta.dlc",
)
LAYERS_OF_DEEPLAB = {
    "aip.metadata0": [(0, 82), (83, 95), (96, 107), (108, 108), (109, 118), (119, 119)],
    "aip.metadata1": [(0, 118), (119, 119)],
}


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
        (record(HTA, extra=b"x"), "1 bytes after"),
        (record(HTA, size=7), "states a size of 7 bytes"),
        (record(HTA, count=99), "states 99 sections"),
        (record(section(2, 0, 0, [])), "engine 2"),
        (record(section(0, 0, 0, [buffer("a")], count=9)), "states 9 buffers"),
        (record(section(0, 0, 0, [buffer("a")], described=90)), "bytes of buffers, but"),
        (record(section(0, 0, 0, [buffer("a", rank=5)])), "dimensions"),
        (record(section(0, 0, 0, [buffer("a", axis=3)])), "axis 3"),
        (record(section(0, 0, 0, [buffer(b"\xff")])), "UTF-8"),
        (record(section(0, 0, 0, [buffer("a", direction=2)])), "direction 2"),
    ],
)
def test_broken_records_are_refused(data, problem):
    with pytest.raises(ContainerError, match=problem):
        parse_aip(data, where="here")


@pytest.mark.parametrize("size", range(len(record(HTA, HNN))))
def test_cut_records_are_refused(size):
    with pytest.raises(ContainerError):
        parse_aip(record(HTA, HNN)[:size], where="here")


def mask_aip(data):
    """Return a record with zeros in place of uninitialized memory of the writer."""
    masked = bytearray(data)
    position = HEADER.size
    for _ in range(HEADER.unpack_from(data)[4]):
        engine, _, _, buffers, _, compiled = SECTION.unpack_from(data, position)
        masked[position + 24 : position + 40] = bytes(16)
        position += SECTION.size
        for _ in range(buffers):
            _, _, length, _, _, rank = BUFFER.unpack_from(data, position)
            if engine == Engine.HNN:
                masked[position + 16 : position + 24] = bytes(8)
                rank = 0
            position += BUFFER.size + length
            for _ in range(rank):
                masked[position + 16 : position + 32] = bytes(16)
                position += DIMENSION.size
        position += compiled
    return bytes(masked)


def test_garbage_is_not_read():
    data = record(HTA, HNN)
    assert mask_aip(data) != data
    assert parse_aip(mask_aip(data), where="here") == parse_aip(data, where="here")


def test_what_is_written_is_what_was_read_masked():
    data = record(HTA, HNN)
    assert write_aip(parse_aip(data, where="here")) == mask_aip(data)


SMALL = st.integers(0, 2**32 - 1)
VERSIONS = st.tuples(*[st.integers(0, 255)] * 4).map(lambda parts: ".".join(map(str, parts)))
DIMENSIONS = st.builds(Dimension, st.sampled_from(["height", "width", "channel"]), SMALL, SMALL, SMALL)
NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
PLAIN = st.builds(AipBuffer, NAMES, st.booleans(), SMALL, SMALL)
TILED = st.builds(
    AipBuffer, NAMES, st.booleans(), SMALL, SMALL, st.lists(DIMENSIONS, max_size=3).map(tuple), SMALL
)
SECTIONS = st.one_of(
    st.builds(Section, st.just(Engine.HTA), SMALL, SMALL, st.lists(TILED).map(tuple), st.binary()),
    st.builds(Section, st.just(Engine.HNN), SMALL, SMALL, st.lists(PLAIN).map(tuple), st.binary()),
)
RECORDS = st.builds(AipRecord, VERSIONS, VERSIONS, SMALL, st.lists(SECTIONS, max_size=4).map(tuple), VERSIONS)


@settings(max_examples=60)
@given(RECORDS)
def test_any_record_comes_back(made):
    data = write_aip(made)
    assert parse_aip(data, where="here") == made
    assert mask_aip(data) == data


@settings(max_examples=80)
@given(st.data())
def test_damage_is_refused_or_read_but_never_crashes(data):
    raw = bytearray(record(HTA, HNN))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_aip(bytes(raw), where="here")
    except ContainerError:
        return
    assert write_aip(found) == mask_aip(bytes(raw))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (AipRecord("1.2.3", "1.1.1.1", 1, ()), "4 numbers"),
        (AipRecord("1.2.3.256", "1.1.1.1", 1, ()), "below 256"),
        (AipRecord("1.2.3.4", "1.1.1.1", -1, ()), "number -1"),
        (AipRecord("1.1.1.1", "1.1.1.1", 1, (Section(Engine.HTA, 0, 1 << 32, ()),)), "number 4294967296"),
        (
            AipRecord(
                "1.1.1.1",
                "1.1.1.1",
                1,
                (Section(Engine.HTA, 0, 0, (AipBuffer("a", False, 0, 0, (Dimension("depth", 1, 1),)),)),),
            ),
            "axis 'depth'",
        ),
        (
            AipRecord(
                "1.1.1.1",
                "1.1.1.1",
                1,
                (Section(Engine.HNN, 0, 0, (AipBuffer("a", False, 0, 0, (Dimension("width", 1, 1),)),)),),
            ),
            "HNN",
        ),
    ],
)
def test_values_without_a_place_are_refused(made, problem):
    with pytest.raises(ContainerError, match=problem):
        write_aip(made)


def test_ids_of_buffers():
    assert [hex(buffer_id(18, 0, is_output=True)), hex(buffer_id(86, 1, is_output=False))] == [
        "0x121000",
        "0x560001",
    ]


@pytest.mark.corpus
@pytest.mark.parametrize("file", HTA_FILES)
def test_real_records_are_written_back(corpus, file):
    path = corpus.parent / file
    if not path.exists():
        pytest.skip(f"needs {path}")
    records = {name: data.numpy().tobytes() for name, data in xdlc.load(path).records.items()}
    assert list(records) == list(LAYERS_OF_DEEPLAB)
    for name, data in records.items():
        found = parse_aip(data, where=name)
        assert [(held.first, held.last) for held in found.sections] == LAYERS_OF_DEEPLAB[name]
        assert [held.engine.name for held in found.sections] == ["HTA", "HNN"] * (len(found.sections) // 2)
        assert write_aip(found) == mask_aip(data)
        for held in (buffer for part in found.sections for buffer in part.buffers):
            assert held.id in {buffer_id(held.layer, index, is_output=held.is_output) for index in range(2)}
