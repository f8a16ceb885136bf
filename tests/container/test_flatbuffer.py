import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdlc.container import flatbuffer
from xdlc.container.flatbuffer import MAX_DEPTH, decode
from xdlc.container.flatbuffer_encode import Stream, encode, encode_parts
from xdlc.errors import ContainerError
from xdlc.ir import raw_data
from xdlc.schema._generated import dlc3_model, dlc3_params, dlc4_model, dlc4_params
from xdlc.schema.table import Blob, Table

TEXT = st.text(max_size=12)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
FLOAT = st.floats(width=32, allow_nan=False)

attributes = st.recursive(
    st.builds(
        dlc3_model.Attribute,
        name=TEXT,
        type=st.integers(0, 255),
        flag=st.booleans(),
        integer=INT32,
        natural=st.integers(0, (1 << 32) - 1),
        real=FLOAT,
        text=st.none() | TEXT,
        flags=st.none() | st.lists(st.booleans(), max_size=4),
        positions=st.none() | st.lists(INT32, max_size=4),
        integers=st.none() | st.lists(INT32, max_size=4),
        floats=st.none() | st.lists(FLOAT, max_size=4),
        texts=st.none() | st.lists(TEXT, max_size=4),
    ),
    lambda inner: st.builds(dlc3_model.Attribute, name=TEXT, attributes=st.lists(inner, max_size=3)),
    max_leaves=8,
)


def plain(value: object) -> object:
    """Reduce tables to comparable values."""
    if isinstance(value, Table):
        return {field.name: plain(getattr(value, field.name)) for field in value.FIELDS}
    if isinstance(value, Blob):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@given(st.lists(attributes, max_size=5))
def test_what_is_written_is_read(attributes_given):
    root = dlc3_model.Model(nodes=[], attributes=attributes_given)
    assert plain(decode(encode(root), dlc3_model.Model, "here")) == plain(root)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), INT32)
def test_wide_scalars_are_aligned_and_kept(integer, real, dtype):
    scalar = dlc4_model.Scalar(dtype, integer, real, "text")
    node = dlc4_model.Node("n", attributes=[dlc4_model.Attribute("a", scalar=scalar)])
    data = encode(dlc4_model.Model([dlc4_model.Graph("g", [node])]))
    found = decode(data, dlc4_model.Model, "here").graphs[0].nodes[0].attributes[0].scalar
    assert (found.dtype, found.integer, found.real, found.text) == (dtype, integer, real, "text")
    if integer:
        assert struct.pack("<q", integer) in {bytes(data[at : at + 8]) for at in range(0, len(data), 8)}


def test_default_of_a_field_is_elided_and_other_values_are_not():
    first = encode(dlc4_params.Params([dlc4_params.GraphParams(tensors=[dlc4_params.Elements("a")])]))
    second = encode(
        dlc4_params.Params([dlc4_params.GraphParams(tensors=[dlc4_params.Elements("a", buffer=0)])])
    )
    assert len(second) > len(first)
    assert decode(second, dlc4_params.Params, "here").graphs[0].tensors[0].buffer == 0
    assert decode(first, dlc4_params.Params, "here").graphs[0].tensors[0].buffer == -1


def test_equal_strings_are_written_once():
    nodes = [dlc4_model.Node("the same name") for _ in range(50)]
    data = encode(dlc4_model.Model([dlc4_model.Graph(nodes=nodes)]))
    assert data.count(b"the same name") == 1


def test_mapped_vectors_stay_where_they_are():
    elements = dlc3_params.Elements(9, floats=struct.pack("<2f", 1.5, -2))
    data = encode(dlc3_params.Params([dlc3_params.NodeParams("n", [dlc3_params.Weight("w", [2], elements)])]))
    blob = decode(data, dlc3_params.Params, "here").nodes[0].weights[0].elements.floats
    assert struct.unpack_from("<2f", data, blob.start) == (1.5, -2)
    assert len(blob) == 8


def test_encoding_the_same_twice_gives_the_same_bytes():
    root = dlc4_model.Model([dlc4_model.Graph("g", [dlc4_model.Node("n", "t", ["a"], ["b"])])])
    assert encode(root) == encode(root)


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_streams_are_parts_of_the_same_buffer(contents):
    def root(wrap):
        held = [dlc4_params.Elements(f"t{index}", wrap(data)) for index, data in enumerate(contents)]
        return dlc4_params.Params([dlc4_params.GraphParams("g", held, [dlc4_params.NodeParams(())])])

    streams = [Stream(raw_data(data)) for data in contents]
    waiting = iter(streams)
    parts = encode_parts(root(lambda _: next(waiting)))
    assert [part for part in parts[1:] if not isinstance(part, bytes)] == [stream.data for stream in streams]
    whole = encode(root(lambda data: Stream(raw_data(data))))
    assert plain(decode(whole, dlc4_params.Params, "here")) == plain(root(lambda data: data))
    found = decode(whole, dlc4_params.Params, "here").graphs[0].tensors
    assert [elements.inline_bytes.start % 8 for elements in found] == [0] * len(contents)
    assert len(whole) % 8 == 0


def nested(depth: int) -> dlc3_model.Model:
    attribute = dlc3_model.Attribute("leaf")
    for _ in range(depth):
        attribute = dlc3_model.Attribute("a", attributes=[attribute])
    return dlc3_model.Model(attributes=[attribute])


def test_deep_nesting_is_refused():
    decode(encode(nested(MAX_DEPTH - 1)), dlc3_model.Model, "here")
    with pytest.raises(ContainerError, match="deeper"):
        decode(encode(nested(MAX_DEPTH)), dlc3_model.Model, "here")


def test_a_table_that_contains_itself_is_refused():
    data = bytearray(encode(nested(1)))
    # The vector of the outer attribute holds one offset; make it wrap round to the attribute itself.
    outer = decode_positions(data)
    data[outer.slot : outer.slot + 4] = struct.pack("<I", (outer.table - outer.slot) & 0xFFFFFFFF)
    with pytest.raises(ContainerError):
        decode(data, dlc3_model.Model, "here")


class decode_positions:
    """Return the first attribute's table, and its slot in a vector."""

    def __init__(self, data: bytearray) -> None:
        root = self.u32(data, 0)
        vector = self.follow(data, root, 12)
        self.table = vector + 4 + self.u32(data, vector + 4)
        self.slot = self.follow(data, self.table, 28) + 4

    @staticmethod
    def u32(data: bytearray, at: int) -> int:
        return struct.unpack_from("<I", data, at)[0]

    def follow(self, data: bytearray, table: int, slot: int) -> int:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        place = table + struct.unpack_from("<H", data, vtable + slot)[0]
        return place + self.u32(data, place)


def shared_tables(levels: int, width: int) -> bytes:
    """Build attributes in which each level refers to the next ``width`` times over."""
    out = bytearray(8)
    out[4:8] = b"NETD"
    model_vtable = len(out)
    out += struct.pack("<HHHHHHH", 14, 8, 0, 0, 0, 0, 4) + b"\0\0"
    attribute_vtable = len(out)
    out += struct.pack("<HH13H", 30, 8, *[0] * 12, 4) + b"\0\0"
    out[0:4] = struct.pack("<I", len(out))
    out += struct.pack("<iI", len(out) - model_vtable, 4)
    for level in range(levels):
        here = len(out)
        out += struct.pack("<I", width)
        following = here + 4 + 4 * width
        for index in range(width):
            out += struct.pack("<I", following - (here + 4 + 4 * index))
        if level < levels - 1:
            out += struct.pack("<iI", len(out) - attribute_vtable, 4)
        else:
            out += struct.pack("<iI", len(out) - attribute_vtable, 0x7FFFFFFF)
    return bytes(out)


def test_sharing_that_grows_exponentially_is_refused_soon():
    with pytest.raises(ContainerError):
        decode(shared_tables(40, 64), dlc3_model.Model, "here")


def test_strings_that_overlap_are_refused():
    texts = [str(index) for index in range(4000)]
    data = bytearray(encode(dlc3_model.Model(attributes=[dlc3_model.Attribute("a", texts=texts)])))
    root = decode_positions.u32(data, 0)
    positions = decode_positions(bytearray(encode(nested(1))))
    vector = positions.follow(data, root, 12)
    table = vector + 4 + decode_positions.u32(data, vector + 4)
    slots = positions.follow(data, table, 26) + 4
    first = len(data)
    data += struct.pack("<I", 1 << 14) * 10000  # at each multiple of 4, a string of 16 KB
    for index in range(len(texts)):
        slot = slots + 4 * index
        data[slot : slot + 4] = struct.pack("<I", first + 4 * index - slot)
    with pytest.raises(ContainerError, match="times over"):
        decode(data, dlc3_model.Model, "here")


@pytest.mark.parametrize("size", range(9))
def test_short_data_is_refused(size):
    with pytest.raises(ContainerError):
        decode(encode(nested(1))[:size], dlc3_model.Model, "here")


def test_nan_scales_survive():
    root = dlc4_model.Affine(scale=math.nan)
    quantization = dlc4_model.Quantization(tensor=root)
    tensor = dlc4_model.Tensor(quantization=quantization)
    data = encode(dlc4_model.Model([dlc4_model.Graph(tensors=[tensor])]))
    found = decode(data, dlc4_model.Model, "here").graphs[0].tensors[0].quantization.tensor.scale
    assert math.isnan(found)


def test_the_limit_of_cost_grows_with_the_file(monkeypatch):
    monkeypatch.setattr(flatbuffer, "MAX_COST", 1 << 10)
    nodes = [
        dlc4_model.Node(name=f"r{index}", type="Relu", inputs=["a"], outputs=["b"]) for index in range(500)
    ]
    data = encode(dlc4_model.Model([dlc4_model.Graph("g", nodes)]))
    assert len(decode(data, dlc4_model.Model, "here").graphs[0].nodes) == 500
    test_strings_that_overlap_are_refused()
