"""Damaged and hostile DLCs: each is a ContainerError, with bounded resources."""

import re
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import xdlc
from xdlc.container import cache_provenance, describe, load, save
from xdlc.container.aip_record import parse_aip
from xdlc.container.archive import CENTRAL, END, END64, LOCAL, LOCATOR, ArchiveWriter
from xdlc.container.flatbuffer_encode import encode
from xdlc.container.udo import definitions
from xdlc.errors import ConstraintError, ContainerError, ModelError
from xdlc.ir import AxisScaleOffset, Graph, Model, Origin, Tensor, make_op, parse, raw_data, static, u32
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import FLOAT32, SFIXED8
from xdlc.schema._generated import dlc4_model, dlc4_params

DEADLINE = 5.0
NONE = 0x7FFFFFFF


def make(path):
    model = Model()
    graph = model.add_graph(Graph("g"))
    x = graph.add_input(Tensor("x", (1, 4), FLOAT32))
    weight = graph.add_tensor(
        static("w", np.arange(8, dtype=np.int8).reshape(2, 4), SFIXED8, AxisScaleOffset(0, (0.5, 0.25)))
    )
    y = Tensor("y", (1, 2), FLOAT32)
    params = {"keep": u32(1), "t": static("t", np.arange(3))}
    op = make_op(graph, "FullyConnected", [x, weight], [y], params, name="fc", origin=Origin(("n",), "r"))
    graph.append(op)
    graph.add_output(y)
    model.metadata["history"] = [{"tool": "t", "args": {}}]
    model.records["aip.metadata0"] = raw_data(b"record")
    save(model, path, crc=False)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return make(tmp_path_factory.mktemp("good") / "good.dlc").read_bytes()


def open_fully(path):
    """Load a file and touch all of its data."""
    started = time.monotonic()
    try:
        model = load(path)
        for graph in model.graphs.values():
            held = [*graph.tensors.values()]
            held += [param for op in graph.ops for param in op.params.values() if isinstance(param, Tensor)]
            for tensor in held:
                if tensor.data is not None:
                    tensor.numpy().tobytes()
        for data in model.records.values():
            data.numpy().tobytes()
        describe(path)
    finally:
        assert time.monotonic() - started < DEADLINE


def refuse(path, content, problem=None):
    path.write_bytes(content)
    with pytest.raises(ContainerError, match=problem) as caught:
        open_fully(path)
    assert str(path) in str(caught.value)
    return caught.value


def test_the_good_file_is_good(good, tmp_path):
    path = tmp_path / "m.dlc"
    path.write_bytes(good)
    open_fully(path)


# ---------------------------------------------------------------------------- the zip layer


def test_truncation_anywhere(good, tmp_path):
    for size in range(0, len(good), 7):
        refuse(tmp_path / "m.dlc", good[:size], "zip|directory")


def test_bytes_in_front_and_behind(good, tmp_path):
    refuse(tmp_path / "m.dlc", b"x" + good)
    refuse(tmp_path / "m.dlc", good + b"x", "end-of-directory")


def test_not_a_zip(tmp_path):
    refuse(tmp_path / "m.dlc", b"", "no end-of-directory")
    refuse(tmp_path / "m.dlc", b"ONNX" * 1000, "no end-of-directory")
    refuse(tmp_path / "m.dlc", b"PK\5\6" * 20000, "directory")


def test_zip_of_something_else(tmp_path):
    path = tmp_path / "m.dlc"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert load(path).records["readme.txt"].numpy().tobytes() == b"hello"
    with zipfile.ZipFile(path, "w"):
        pass
    refuse(path, path.read_bytes(), "not a DLC")


def test_compressed_bomb(tmp_path):
    path = tmp_path / "m.dlc"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model", bytes(50_000_000))
    tracemalloc.start()
    refuse(path, path.read_bytes(), r"entry 'model': is compressed or encrypted \(method 8\)")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_duplicate_names(tmp_path):
    path = tmp_path / "m.dlc"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model", b"one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("model", b"two")
    refuse(path, path.read_bytes(), "entry 'model': appears twice")


def central(content, name):
    """Return where the directory record of an entry starts."""
    for match in re.finditer(re.escape(b"PK\1\2"), content):
        start = match.start() + CENTRAL.size
        if content[start : start + len(name) + 2] == name + b"\1\0":
            return match.start()
    raise AssertionError(name)


def with_extra(content, name, index, value):
    """Change one of size, stored size and offset of an entry."""
    at = central(content, name) + CENTRAL.size + len(name) + 4 + 8 * index
    return content[:at] + struct.pack("<Q", value) + content[at + 8 :]


@pytest.mark.parametrize("value", [0, 5, 1 << 20, 1 << 40, 1 << 63, (1 << 64) - 1])
def test_sizes_and_offsets_out_of_bounds(good, tmp_path, value):
    path = tmp_path / "m.dlc"
    both = with_extra(with_extra(good, b"model", 0, value), b"model", 1, value)
    refuse(path, both)
    refuse(path, with_extra(good, b"model", 0, value), "compressed")
    if value:
        refuse(path, with_extra(good, b"model", 2, value), "header")


def test_overlapping_entries(good, tmp_path):
    path = tmp_path / "m.dlc"
    entries = {entry.name: entry for entry in describe(_written(path, good)).entries}
    other = entries["model.params"]
    size = other.offset + other.size - entries["model"].offset
    grown = with_extra(with_extra(good, b"model", 0, size), b"model", 1, size)
    refuse(path, grown, "entry 'model.params': overlaps entry 'model'")


def _written(path, content):
    path.write_bytes(content)
    return path


def test_absurd_counts(good, tmp_path):
    path = tmp_path / "m.dlc"
    at = good.rindex(b"PK\6\6")
    fields = list(END64.unpack_from(good, at))
    for count in (10**6, 1 << 63):
        fields[7] = count
        refuse(path, good[:at] + END64.pack(*fields) + good[at + END64.size :], "states")
    fields = list(END64.unpack_from(good, at))
    for index, value in ((8, 1 << 60), (9, 1 << 60), (8, 3), (0, b"PK\6\5")):
        changed = [*fields]
        changed[index] = value
        refuse(path, good[:at] + END64.pack(*changed) + good[at + END64.size :])
    at = good.rindex(b"PK\6\7")
    locator = LOCATOR.pack(b"PK\6\7", 0, 1 << 62, 1)
    refuse(path, good[:at] + locator + good[at + LOCATOR.size :], "zip64 end record")


def test_names(good, tmp_path):
    path = tmp_path / "m.dlc"
    at = central(good, b"model.params") + CENTRAL.size
    refuse(path, good[:at] + b"\xff" + good[at + 1 :], "not UTF-8")
    refuse(path, good[:at] + b"\0" + good[at + 1 :], "named")
    refuse(path, good[:at] + b"x" + good[at + 1 :], "another name in its header")


def test_headers_of_the_wrong_kind(good, tmp_path):
    path = tmp_path / "m.dlc"
    at = central(good, b"model")
    refuse(path, good[:at] + b"PK\1\3" + good[at + 4 :], "directory record")
    local = good.index(b"PK\3\4")
    refuse(path, good[:local] + b"PK\3\5" + good[local + 4 :], "no header")


def test_writer_and_reader_agree_on_sizes():
    assert (LOCAL.size, CENTRAL.size, END.size, END64.size, LOCATOR.size) == (30, 46, 22, 56, 20)


# ---------------------------------------------------------------------------- the graphs


def write(path, entries):
    with open(path, "wb") as file:
        archive = ArchiveWriter(file, crc=False)
        for name, content in entries.items():
            archive.add(name, [content])
        archive.close(())
    return path


def prefixed(body, major=4, minor=1):
    return struct.pack("<HHHH", 0x0AD5, major, minor, 0) + body


def tensor(name="x", role=0, dims=(2,), kind=NONE, dtype=0x232, **more):
    quantization = more.pop("quantization", dlc4_model.Quantization(kind))
    return dlc4_model.Tensor(1, name, role, dims, quantization=quantization, dtype=dtype, **more)


def node(name="n", type="T", inputs=("x",), outputs=("y",), attributes=()):
    return dlc4_model.Node(name, type, inputs, outputs, attributes)


def entries_of(nodes=None, tensors=None, elements=(), values=None, data=b"12345678", params_name=None):
    nodes = [node()] if nodes is None else nodes
    tensors = [tensor(), tensor("y", 1)] if tensors is None else tensors
    graph = dlc4_model.Graph("g", nodes, tensors, params_name=params_name)
    held = [dlc4_params.NodeParams([]) for _ in nodes] if values is None else values
    params = dlc4_params.GraphParams("g", elements, held)
    return {
        "model.params.bin": data,
        "model": prefixed(encode(dlc4_model.Model([graph]))),
        "model.params": prefixed(encode(dlc4_params.Params([params]))),
    }


def elements(offset, nbytes, name="w"):
    return [dlc4_params.Elements(name, range=dlc4_params.Range(offset, nbytes))]


def scalar(**fields):
    return dlc4_model.Attribute("p", role=1, scalar=dlc4_model.Scalar(**fields))


WEIGHT = tensor("w", 4)
AFFINE = [dlc4_model.Affine(scale=1.0)]

BROKEN = {
    "two tensors named": {"tensors": [tensor(), tensor()]},
    "two ops are named": {"nodes": [node(), node(outputs=())]},
    "refers to tensor 'z'": {"nodes": [node(inputs=["z"])]},
    "already|has a source": {"nodes": [node(), node("m")]},
    "but no earlier op writes": {
        "nodes": [node(inputs=["t"]), node("m", outputs=["t"])],
        "tensors": [tensor(), tensor("y", 1), tensor("t", 3)],
    },
    "no op produces": {
        "tensors": [tensor(), tensor("y", 1), tensor("t", 3)],
        "nodes": [node(inputs=["t"])],
    },
    "no name or no dimensions": {"tensors": [tensor(dims=None)]},
    "tensor type 9": {"tensors": [tensor(role=9)]},
    "tensor type -1": {"tensors": [tensor(role=-1)]},
    "data type 0x77": {"tensors": [tensor(dtype=0x77)]},
    "dynamic axes": {"tensors": [tensor(dynamic_axes=[1])]},
    "elements are supported": {"tensors": [tensor(dims=[0xFFFFFFFF] * 4)]},
    "99 axes": {"tensors": [tensor(dims=[1] * 99)]},
    "static but has no data": {"tensors": [tensor(), tensor("y", 1), WEIGHT]},
    "no range for its data": {
        "tensors": [tensor(), tensor("y", 1), WEIGHT],
        "elements": [dlc4_params.Elements("w")],
    },
    "has bytes 4 to 12": {"tensors": [tensor(), tensor("y", 1), WEIGHT], "elements": elements(4, 8)},
    "has bytes -4 to 4": {"tensors": [tensor(), tensor("y", 1), WEIGHT], "elements": elements(-4, 8)},
    r"has bytes \d{18,}": {
        "tensors": [tensor(), tensor("y", 1), WEIGHT],
        "elements": elements(1 << 62, 1 << 62),
    },
    "has 4 bytes of data, but": {
        "tensors": [tensor(), tensor("y", 1), WEIGHT],
        "elements": elements(0, 4),
    },
    "1 nodes, but data for 0": {"values": []},
    "under the name 'other'": {"params_name": "other"},
    "kind 0 without its table": {"tensors": [tensor(kind=0)]},
    "kind 99": {"tensors": [tensor(kind=99)]},
    "the encoding has axis 7": {
        "tensors": [
            tensor(
                quantization=dlc4_model.Quantization(1, axis=dlc4_model.AxisAffine(7, AFFINE)), dtype=0x408
            )
        ]
    },
    "1 scales along axis 0": {
        "tensors": [
            tensor(
                quantization=dlc4_model.Quantization(1, axis=dlc4_model.AxisAffine(0, AFFINE)), dtype=0x408
            )
        ]
    },
    "0 block scales for 1 channels": {
        "tensors": [
            tensor(
                quantization=dlc4_model.Quantization(
                    5, expansion=dlc4_model.BlockExpansion(0, AFFINE, 0xFFFFFFFF)
                ),
                dtype=0x308,
            )
        ]
    },
    "impossible values .a channel needs": {
        "tensors": [
            tensor(
                dims=(1,),
                quantization=dlc4_model.Quantization(5, expansion=dlc4_model.BlockExpansion(0, AFFINE, 0)),
                dtype=0x308,
            )
        ]
    },
    "outside the 0 bytes": {
        "tensors": [
            tensor(
                quantization=dlc4_model.Quantization(
                    4, block=dlc4_model.BlockAffine(0, 0, 1, 4, scale_offsets=dlc4_model.Range(0, 48))
                ),
                dtype=0x304,
            )
        ]
    },
    "has no value for its parameter": {"nodes": [node(attributes=[dlc4_model.Attribute("p", role=1)])]},
    "two values for its parameter": {"nodes": [node(attributes=[scalar(dtype=0x132)] * 2)]},
    "is 300, outside of uint8": {"nodes": [node(attributes=[scalar(dtype=0x108, integer=300)])]},
    "too large for float32": {"nodes": [node(attributes=[scalar(dtype=0x232, real=1e300)])]},
    "data type 0x5": {"nodes": [node(attributes=[scalar(dtype=5)])]},
    "needs the string 'pool_type'": {"nodes": [node(type="Pool")]},
    "interpolation_mode": {"nodes": [node(type="Resize")]},
    "writes to a null tensor": {"tensors": [tensor(), tensor("y", 5)]},
}


@pytest.mark.parametrize("problem", BROKEN)
def test_broken_graphs(tmp_path, problem):
    path = write(tmp_path / "m.dlc", entries_of(**BROKEN[problem]))
    refuse(path, path.read_bytes(), problem)


def test_graph_of_the_same_shape_is_good(tmp_path):
    assert load(write(tmp_path / "m.dlc", entries_of())).main.name == "g"


def test_blocks_that_are_no_buffer(tmp_path):
    block = dlc4_model.BlockAffine(0, 0, 1, 4, scale_offsets=dlc4_model.Range(0, 48))
    tensors = [tensor(quantization=dlc4_model.Quantization(4, block=block), dtype=0x304)]
    path = tmp_path / "m.dlc"
    head = struct.pack("<I4s4xHHHHiQQ", 20, b"SO64", 0, 6, 12, 4, 6, 8, 1)
    for content in (
        bytes(48),
        head[:4] + b"XO64" + head[8:] + bytes(8),
        head[:32] + struct.pack("<Q", 1 << 61) + bytes(8),
        head[:24] + struct.pack("<QQ", (1 << 64) - 1, 1) + bytes(8),
        struct.pack("<I", 0xFFFFFFFF) + head[4:] + bytes(8),
    ):
        entries = {**entries_of(tensors=tensors, nodes=[]), "model.encodings.bin": content}
        write(path, entries)
        refuse(path, path.read_bytes(), "not SO64")


@pytest.mark.parametrize(
    ("entry", "content", "problem"),
    [
        ("model", b"", "has 0 bytes"),
        ("model", bytes(40), "instead of 0x0ad5"),
        ("model", prefixed(bytes(40), major=2), "format 2.1"),
        ("model", prefixed(bytes(40)), "identifier"),
        ("model", prefixed(b"\xff\xff\xff\xffNETD"), "table at byte"),
        ("model.params", b"", "has 0 bytes"),
        ("model.params", prefixed(b"\0\0\0\0NETP"), "has a v|table"),
        ("dlc.metadata2.3.0", b"{", "not readable JSON"),
        ("dlc.metadata2.3.0", b'{"a": "\\ud800"}', "surrogates"),
        ("dlc.metadata.history.2.3.0", b'{"dlcGenerationInfo": [{"a": {"tool": 1}}]}', "malformed 'history'"),
        ("dlc.metadata2.3.0", b"\xff", "not readable JSON"),
        ("dlc.metadata2.3.0", b"[]", "unexpected JSON values"),
        ("dlc.metadata2.3.0", b'{"cacheList": {}}', "malformed 'cacheList'"),
        ("dlc.metadata2.3.0", b'{"cacheList": [1]}', "malformed 'cacheList'"),
        ("dlc.metadata2.3.0", b'{"relations": [{"childRecordNames": 1}]}', "malformed 'relations'"),
        ("dlc.metadata2.3.0", b'{"relations": [{"parentRecordName": []}]}', "malformed 'relations'"),
        ("dlc.metadata2.3.0", b"[" * 1_000_000, "nests values more"),
        ("dlc.metadata.history.2.3.0", b'{"dlcGenerationInfo": [{"a": 1}]}', "unexpected JSON values"),
        ("dlc.metadata", b"\xff", "UTF-8"),
        ("xdlc.trace", b'{"version": 2}', "version 2"),
        ("xdlc.trace", b'{"version": 1, "graphs": {"g": {"n": [1]}}}', "origin of op 'n'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {"g": {"n": "no"}}}', "origin of op 'n'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "nodes": {}}', "malformed 'nodes'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "nodes": [["a", "b"]]}', "malformed 'nodes'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "nodes": [["a", "b", 1]]}', "malformed 'nodes'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "tensors": []}', "malformed 'tensors'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "tensors": {"g": 1}}', "malformed 'tensors'"),
        ("xdlc.trace", b'{"version": 1, "graphs": {}, "tensors": {"g": {"t": [1]}}}', "malformed 'tensors'"),
        (
            "xdlc.trace",
            b'{"version": 1, "graphs": {}, "weight_factors": {"g": {"t": [1]}}}',
            "malformed 'weight_factors'",
        ),
        (
            "xdlc.io",
            b'{"graphs": [{"inputs": [{"name": "x", "state": {"output": []}}]}]}',
            "malformed 'states'",
        ),
        ("xdlc.io", b'{"graphs": [{"inputs": 1}]}', "unexpected JSON values"),
    ],
)
def test_broken_entries(tmp_path, entry, content, problem):
    path = write(tmp_path / "m.dlc", {**entries_of(), entry: content})
    error = refuse(path, path.read_bytes(), problem)
    assert error.fix or entry.startswith("model")


def test_model_without_its_data(tmp_path):
    entries = entries_of()
    del entries["model.params"]
    path = write(tmp_path / "m.dlc", entries)
    refuse(path, path.read_bytes(), "no entry 'model.params'")


# ---------------------------------------------------------------------------- sums


@pytest.mark.parametrize("version", ["4.0", "4.1"])
def test_a_flipped_bit_of_any_entry_is_found_when_it_is_used(good, tmp_path, version):
    path = tmp_path / "m.dlc"
    save(load(_written(path, good)), path, version=version)
    content = path.read_bytes()
    for entry in describe(path).entries:
        flipped = bytearray(content)
        flipped[entry.offset + entry.size - 1] ^= 0x40
        refuse(path, flipped, f"entry '{entry.name}'")


def test_weights_are_summed_when_they_are_used(good, tmp_path):
    path = tmp_path / "m.dlc"
    save(load(_written(path, good)), path)
    entry = next(entry for entry in describe(path).entries if entry.name == "model.params.bin")
    content = bytearray(path.read_bytes())
    content[entry.offset] ^= 1
    path.write_bytes(content)
    weight = load(path).main.tensors["w"]
    for use in (weight.numpy, lambda: save(load(path), tmp_path / "other.dlc")):
        with pytest.raises(ContainerError, match="CRC-32"):
            use()
    assert [file.name for file in tmp_path.iterdir()] == ["m.dlc"]
    assert load(path, crc=False).main.tensors["w"].numpy() is not None
    data = load(path).main.tensors["w"].data  # what shows a few values does not read all weights
    assert data.peek() == load(path, crc=False).main.tensors["w"].numpy().tolist()


# ---------------------------------------------------------------------------- entries that take no disk


class Hole(TensorData):
    """Zeros that a file system does not store, after a few bytes."""

    def __init__(self, start):
        self.start = start
        self.shape, self.dtype = (3 << 30,), np.dtype(np.uint8)

    def numpy(self):
        raise AssertionError("nothing reads all of it")

    def write_to(self, file):
        file.write(self.start)
        file.seek(self.nbytes - len(self.start), 1)


RECORDS = {
    "xdlc.caches": cache_provenance.read,
    "xdlc.udo.P": definitions,
    "aip.metadata0": lambda model: parse_aip(model.records["aip.metadata0"].content(), where="aip"),
}
ENTRIES = ["model", "model.params", "model.encodings.bin", "xdlc.trace", "xdlc.io", "dlc.metadata"]


@pytest.mark.parametrize("entry", [*ENTRIES, "dlc.metadata2.3.0", "dlc.metadata.history.2.3.0", *RECORDS])
def test_sizes_are_checked_before_bytes_are_copied(tmp_path, entry):
    aip = struct.pack("<4s4sI4sII", bytes(4), bytes(4), 1, bytes(4), 1 << 25, 3 << 30)
    begins = {"model": prefixed(b""), "model.params": prefixed(b""), "aip.metadata0": aip}
    path = write(tmp_path / "m.dlc", {**entries_of(), entry: Hole(begins.get(entry, b'{"a": "'))})
    tracemalloc.start()
    with pytest.raises(ContainerError):
        RECORDS.get(entry, id)(load(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


# ---------------------------------------------------------------------------- what no container holds


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('metadata {"history": 5}', "line 1"),
        ('metadata {"a": "\\ud800"}', "line 1"),
        ("graph g {\n  input %x float32[2]\n  a = T(%x) {k=uint8 300} -> %y float32[2]\n}", "line 3"),
        ('graph g {\n  input %x float32[2]\n  a = T(%x) {k=uint8 "t"} -> %y float32[2]\n}', "line 3"),
        ("graph g {\n  input %\ud800 float32[2]\n}", "line 2"),
        ('graph g {\n  input %"\\ud800" float32[2]\n}', "line 2"),
    ],
)
def test_text_forms_that_cannot_be_written(text, place):
    with pytest.raises(ModelError) as caught:
        parse(text)
    assert caught.value.where == place


@pytest.mark.parametrize("text", ["[4294967296]", "[2] per_tensor(scale=1, offset=4294967296)"])
def test_numbers_that_no_field_holds(tmp_path, text):
    model = parse(f"graph g {{\n  input %x ufixed8{text}\n}}")
    with pytest.raises(ContainerError, match="4294967296"):
        save(model, tmp_path / "m.dlc")
    assert not list(tmp_path.iterdir())


def test_an_operation_without_its_input_is_refused_by_all_that_runs_it(tmp_path):
    model = parse("graph g {\n  input %x float32[2]\n  s = Softmax() -> %y float32[2]\n  return %y\n}")
    save(model, tmp_path / "m.dlc")
    for use in (lambda path: xdlc.quantize(path, [{"x": np.ones(2, np.float32)}]), xdlc.session):
        with pytest.raises(ConstraintError, match=r"in\[0\]"):
            use(tmp_path / "m.dlc")
