import errno
import hashlib
import json
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.differences import differences
from xdlc.container import describe, io_contract, load, metadata, save
from xdlc.container.flatbuffer import decode
from xdlc.errors import ContainerError, StorageError, UsageError
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Origin,
    Role,
    Scalar,
    ScaleOffset,
    Tensor,
    VectorCode,
    b8,
    f32,
    i32,
    make_op,
    raw_data,
    static,
    string,
    u32,
)
from xdlc.ir.data import TensorData, Transform
from xdlc.ir.dtype import BY_NAME, FLOAT32, INT64, SFIXED4, SFIXED8, UFIXED8, UINT64
from xdlc.schema._generated import dlc4_model


def one_op(type="Custom", params=None, *, package="some.package", weight=None) -> Model:
    model = Model()
    graph = model.add_graph(Graph("g"))
    x = graph.add_input(Tensor("x", (2, 3), FLOAT32))
    y = Tensor("y", (2, 3), FLOAT32)
    inputs = [x] if weight is None else [x, graph.add_tensor(weight)]
    graph.append(make_op(graph, type, inputs, [y], params, name="op", package=package))
    graph.add_output(y)
    return model


both_versions = pytest.mark.parametrize("version", ["4.1", "4.0"])


def saved(model: Model, folder, version="4.1") -> Model:
    path = folder / "m.dlc"
    save(model, path, version=version)
    return load(path)


def check_round_trip(model: Model, folder, version="4.1") -> Model:
    found = saved(model, folder, version)
    assert model.graphs == {} or found.metadata["version"] == version
    found.metadata = model.metadata
    assert differences(model, found) == []
    return found


# ---------------------------------------------------------------------------- random graphs

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
PLAIN = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float16",
    "bool8",
]
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)
STEPS = st.floats(2**-20, 128, width=32)


def array(draw, shape, dtype):
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = draw(st.binary(min_size=count, max_size=count))
    if dtype == np.bool_:
        raw = bytes(byte & 1 for byte in raw)
    return np.frombuffer(raw, dtype).reshape(shape)


@st.composite
def statics(draw, name):
    shape = draw(SHAPES)
    kind = draw(
        st.sampled_from(["plain", "tensor", "tensor bits", "axis", "axis bits", "expansion", "packed"])
    )
    if kind == "plain":
        dtype = BY_NAME[draw(st.sampled_from(PLAIN))]
        return static(name, array(draw, shape, dtype.numpy), dtype)
    if kind == "packed":
        data = ArrayData(array(draw, ((int(np.prod(shape, dtype=int)) + 1) // 2,), np.dtype(np.uint8)))
        return Tensor(name, shape, SFIXED4, ScaleOffset(draw(STEPS)), data, Role.STATIC)
    dtype = BY_NAME[draw(st.sampled_from(["sfixed8", "ufixed8", "ufixed16", "sfixed32"]))]
    bits = 4 if "bits" in kind else None
    offsets = st.integers(-(1 << 31), (1 << 31) - 1)
    if kind.startswith("tensor") or not shape:
        encoding = ScaleOffset(draw(STEPS), draw(offsets), bits)
    else:
        axis = draw(st.integers(0, len(shape) - 1))
        count = shape[axis]
        scales = tuple(draw(st.lists(STEPS, min_size=count, max_size=count)))
        zeros = tuple(draw(st.lists(offsets, min_size=count, max_size=count)))
        if kind == "expansion" or (bits and not count):
            blocks = tuple(draw(st.lists(st.integers(0, 255), min_size=2 * count, max_size=2 * count)))
            encoding = BlockwiseExpansion(
                axis, scales, zeros, 2, 4, blocks, count > 0 and draw(st.booleans())
            )
        else:
            encoding = AxisScaleOffset(axis, scales, zeros, bits)
    return static(name, array(draw, shape, dtype.numpy), dtype, encoding)


@st.composite
def scalars(draw):
    dtype = BY_NAME[draw(st.sampled_from([*PLAIN, "string"]))]
    if dtype.kind == "string":
        return string(draw(NAMES))
    if dtype.kind == "bool":
        return b8(draw(st.booleans()))
    if dtype.is_float:
        return Scalar(dtype, draw(st.floats(width=32 if dtype.bits == 32 else 16, allow_nan=False)))
    return Scalar(dtype, draw(st.integers(*dtype.limits)))


@st.composite
def models(draw):
    model = Model()
    for graph_name in draw(st.lists(NAMES, min_size=0, max_size=2, unique=True)):
        graph = model.add_graph(Graph(graph_name))
        names = iter(draw(st.lists(NAMES, min_size=30, max_size=30, unique=True)))
        ready = [
            graph.add_input(Tensor(next(names), draw(SHAPES), FLOAT32))
            for _ in range(draw(st.integers(1, 3)))
        ]
        for index in range(draw(st.integers(0, 4))):
            operands = draw(st.lists(st.sampled_from(ready) | st.none(), max_size=3))
            if draw(st.booleans()):
                operands.append(graph.add_tensor(draw(statics(next(names)))))
            results = [
                Tensor(next(names), draw(SHAPES), UFIXED8, ScaleOffset(draw(STEPS), -3))
                for _ in range(draw(st.integers(1, 2)))
            ]
            params = {
                f"p{number}": draw(scalars() | statics("t")) for number in range(draw(st.integers(0, 3)))
            }
            reason = draw(st.none() | NAMES)
            origin = Origin(tuple(draw(st.lists(NAMES, max_size=2))), reason)
            type = draw(st.sampled_from(["PoolMax2d", "ReduceSum", "Argmin", "Conv2d", "ElementWiseSelect"]))
            package = draw(st.sampled_from(["qti.aisw", "my.package"]))
            op = make_op(
                graph, type, operands, results, params, name=f"op{index}", package=package, origin=origin
            )
            graph.append(op)
            ready += results
        produced = [tensor for tensor in ready if tensor.producer is not None]
        for tensor in produced:
            if not graph.consumers(tensor) or draw(st.booleans()):
                graph.add_output(tensor)
    for name in draw(st.lists(st.sampled_from(["aip.metadata0", "htp.cache.a.0", "own"]), unique=True)):
        model.records[name] = raw_data(draw(st.binary(max_size=20)))
    if not model.graphs:
        model.records["aip.metadata9"] = raw_data(b"9")
    return model


@both_versions
@given(model=models())
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_written_is_read(tmp_path_factory, version, model):
    check_round_trip(model, tmp_path_factory.mktemp("dlc"), version)


# ---------------------------------------------------------------------------- contents


def test_types_and_values_of_scalars(tmp_path):
    params = {
        "text": string("hé"),
        "wide": Scalar(UINT64, (1 << 64) - 1),
        "negative": Scalar(INT64, -(1 << 63)),
        "flag": b8(True),
        "zero": u32(0),
        "real": f32(0.1),
        "signed": i32(-1),
    }
    assert check_round_trip(one_op(params=params), tmp_path).main


def test_names_of_folded_operations(tmp_path):
    model = one_op("ElementWiseNeuron", {"operation": u32(4)}, package="qti.aisw")
    path = tmp_path / "m.dlc"
    save(model, path)
    entry = next(entry for entry in describe(path).entries if entry.name == "model")
    content = path.read_bytes()[entry.offset + 8 : entry.offset + entry.size]
    assert decode(content, dlc4_model.Model, "here").graphs[0].nodes[0].type == "Neuron"
    assert load(path).main.ops[0].type == "ElementWiseNeuron"


def test_order_of_inputs_is_kept_where_the_ops_use_them_in_another(tmp_path):
    model = Model()
    graph = model.add_graph(Graph("g"))
    first = graph.add_input(Tensor("first", (1,), FLOAT32))
    second = graph.add_input(Tensor("second", (1,), FLOAT32))
    unused = graph.add_input(Tensor("unused", (1,), FLOAT32))
    y = Tensor("y", (1,), FLOAT32)
    graph.append(make_op(graph, "Op", [second, first], [y], package="p"))
    graph.add_output(y)
    found = check_round_trip(model, tmp_path)
    assert [tensor.name for tensor in found.main.inputs] == [first.name, second.name, unused.name]


def test_operand_left_out_becomes_a_null_tensor(tmp_path):
    model = Model()
    graph = model.add_graph(Graph("g"))
    x = graph.add_input(Tensor("null_tensor", (1,), FLOAT32))
    y = Tensor("y", (1,), FLOAT32)
    graph.append(make_op(graph, "Op", [None, x, None], [y], package="p"))
    graph.add_output(y)
    found = check_round_trip(model, tmp_path)
    assert [tensor and tensor.name for tensor in found.main.ops[0].inputs] == [None, "null_tensor", None]


def test_dynamic_axes_and_read_write_tensors(tmp_path):
    model = one_op()
    graph = model.main
    graph.inputs[0].dynamic_axes = (0,)
    state = graph.add_tensor(Tensor("state", (1,), FLOAT32, role=Role.INPUT_OUTPUT))
    graph.inputs.append(state)
    graph.outputs.append(state)
    check_round_trip(model, tmp_path)


@both_versions
def test_block_encoding(tmp_path, version):
    encoding = BlockScaleOffset((1, 1, 16, 1), tuple(0.5 + index for index in range(4)), bits=4)
    weight = static("w", np.ones((1, 1, 32, 2), np.int8), SFIXED8, encoding)
    check_round_trip(one_op(weight=weight), tmp_path, version)
    plain = BlockScaleOffset((1, 1, 16, 1), (1.0,) * 4, (1, 2, 3, 4))
    packed = Tensor("w", (1, 1, 32, 2), SFIXED4, plain, ArrayData(np.zeros(32, np.uint8)), Role.STATIC)
    check_round_trip(one_op(weight=packed), tmp_path, version)


@pytest.mark.parametrize("encoding", [VectorCode(0, (1.0,), (0,), ()), BlockScaleOffset((2, 2), (1.0,))])
def test_encodings_without_a_form_are_refused(tmp_path, encoding):
    weight = static("w", np.ones((2, 2), np.int8), SFIXED8, encoding)
    with pytest.raises(ContainerError, match=r"encoding|blocks"):
        save(one_op(weight=weight), tmp_path / "m.dlc")
    assert list(tmp_path.iterdir()) == []


def test_data_of_another_size_than_the_tensor_is_refused(tmp_path):
    weight = Tensor("w", (4,), FLOAT32, data=ArrayData(np.ones(3, np.float32)), role=Role.STATIC)
    with pytest.raises(ContainerError, match=r"12 bytes of data, but .* needs 16"):
        save(one_op(weight=weight), tmp_path / "m.dlc")


def test_origins_history_layouts_and_relations_are_kept(tmp_path):
    model = one_op()
    model.main.ops[0].origin = Origin(("a", "b"), "because")
    model.metadata = {
        "history": [{"tool": "xdlc", "converterVersion": "1", "args": {"a": "b"}, "timestamp": "now"}],
        "relations": [{"parentRecordName": "p", "childRecordNames": ["c"], "timestamp": "now"}],
        "cacheList": [{"cacheName": "htp.cache.sm8550.0"}],
        "layouts": {"x": "NF"},
        "nodes": [["a", "Relu", None], ["c", "Shape", "its result is known"]],
    }
    found = saved(model, tmp_path)
    assert found.metadata == {"version": "4.1", **model.metadata}
    assert found.main.ops[0].origin == Origin(("a", "b"), "because")


def test_contract_of_inputs_and_outputs():
    model = one_op()
    model.main.inputs[0].encoding = ScaleOffset(0.5, -3)
    model.metadata["layouts"] = {"x": "NF"}
    (graph,) = io_contract(model)["graphs"]
    assert graph["inputs"] == [
        {
            "name": "x",
            "shape": [2, 3],
            "dtype": "float32",
            "bytes": 24,
            "raw": {"float32": 'array.astype("<f4").tofile("x.raw")'},
            "layout": "NF",
            "encoding": {"scale": 0.5, "offset": -3},
        }
    ]
    assert [port["name"] for port in graph["outputs"]] == ["y"]


# ---------------------------------------------------------------------------- the file


@both_versions
def test_same_model_gives_the_same_bytes(tmp_path, version):
    for name in ("a", "b"):
        save(one_op(params={"t": static("t", np.arange(5))}), tmp_path / name, version=version)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_time_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    model = one_op()
    model.metadata["history"] = [{"tool": "t"}]
    assert saved(model, tmp_path).metadata["history"][0]["timestamp"] == "1970-01-02 00:00:00 UTC"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert saved(model, tmp_path).metadata["history"][0]["timestamp"] == "1980-01-01 00:00:00 UTC"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        save(model, tmp_path / "n.dlc")


def test_shape_of_the_zip(tmp_path):
    model = one_op(params={"t": static("t", np.arange(5))}, weight=static("w", np.ones(3, np.float32)))
    model.records["htp.cache.sm8550.0"] = raw_data(b"cache")
    path = tmp_path / "m.dlc"
    save(model, path)
    entries = {entry.name: entry for entry in describe(path).entries}
    assert list(entries)[:5] == [
        "dlc.metadata.history.2.3.0",
        "dlc.metadata2.3.0",
        "model",
        "model.params",
        "model.params.bin",
    ]
    assert all(entry.offset % 8 == 0 for entry in entries.values())
    assert entries["htp.cache.sm8550.0"].offset % 4096 == 0
    assert entries["model.params.bin"].offset == min(entry.offset for entry in entries.values())
    content = path.read_bytes()
    model_entry = entries["model"]
    assert content[model_entry.offset :][:8] == bytes.fromhex("d50a040001000000")
    assert content[-22:-18] == b"PK\5\6"
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        assert archive.testzip() is None
    assert [info.filename for info in infos] == list(entries)
    assert [info.CRC for info in infos] == [entry.crc for entry in entries.values()]
    save(model, path, crc=False)
    assert {entry.crc for entry in describe(path).entries} == {0}
    assert [info.file_size for info in infos] == [entry.size for entry in entries.values()]


def test_metadata_are_written_as_the_vendor_does(tmp_path):
    path = tmp_path / "m.dlc"
    save(one_op(), path)
    entry = next(entry for entry in describe(path).entries if entry.name == "dlc.metadata2.3.0")
    text = path.read_bytes()[entry.offset :][: entry.size].decode()
    assert text.startswith('{\n    "header": {\n        "artifact_type": "DLC_METADATA"')
    assert not text.endswith("\n")
    assert json.loads(text)["header"]["version"] == {"major": 2, "minor": 3, "patch": 0}


def test_starts_of_data_are_multiples_of_four(tmp_path):
    params = {"a": static("a", np.arange(3, dtype=np.uint8)), "b": static("b", np.arange(5, dtype=np.uint8))}
    path = tmp_path / "m.dlc"
    save(one_op(params=params, weight=static("w", np.ones(1, np.uint8))), path)
    entry = next(entry for entry in describe(path).entries if entry.name == "model.params.bin")
    content = path.read_bytes()[entry.offset :][: entry.size]
    assert content == bytes([1, 0, 0, 0, 0, 1, 2, 0, 0, 1, 2, 3, 4, 0, 0, 0])


def test_data_inside_the_index(tmp_path):
    params = {"a": static("a", np.arange(3, dtype=np.uint8)), "b": static("b", np.arange(2, dtype=np.int64))}
    path = tmp_path / "m.dlc"
    save(one_op(params=params, weight=static("w", np.ones(1, np.uint8))), path, version="4.0")
    entries = {entry.name: entry for entry in describe(path).entries}
    assert "model.params.bin" not in entries
    content = path.read_bytes()
    for name in ("model", "model.params"):
        assert content[entries[name].offset :][:8] == bytes.fromhex("d50a040000000000")
    index = entries["model.params"]
    data = content[index.offset : index.offset + index.size]
    assert data.endswith(
        struct.pack("<4xIB7x", 1, 1) + struct.pack("<4xI3B5x", 3, 0, 1, 2) + struct.pack("<4xI2q", 16, 0, 1)
    )
    model = load(path)
    held = [model.main.tensors["w"], *model.main.ops[0].params.values()]
    assert [tensor.data.location[1] % 8 for tensor in held] == [0, 0, 0]


def test_one_version_becomes_the_other(tmp_path):
    model = one_op(weight=static("w", np.arange(5, dtype=np.int16)))
    for name, version in (("a", "4.1"), ("b", "4.0")):
        save(model, tmp_path / name, version=version)
    for name, version in (("b", "4.1"), ("a", "4.0")):
        save(load(tmp_path / name), tmp_path / f"{name}2", version=version)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b2").read_bytes()
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a2").read_bytes()


class Vast(TensorData):
    """Data of a size that nothing may read."""

    def __init__(self, nbytes):
        self.shape = (nbytes,)
        self.dtype = np.dtype(np.uint8)

    def numpy(self):
        raise AssertionError("was read")


@pytest.mark.parametrize("nbytes", [(1 << 31) - 100, 1 << 31, 1 << 40])
def test_two_gigabytes_do_not_fit_into_the_index(tmp_path, nbytes):
    weight = Tensor("w", (nbytes,), BY_NAME["uint8"], data=Vast(nbytes), role=Role.STATIC)
    with pytest.raises(ContainerError, match="more than the 2 GiB") as caught:
        save(one_op(weight=weight), tmp_path / "m.dlc", version="4.0")
    assert "4.1" in caught.value.fix
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["3.1", "4.2", "", "4"])
def test_other_versions_are_refused(tmp_path, version):
    with pytest.raises(UsageError, match="cannot write format") as caught:
        one_op().save(tmp_path / "m.dlc", version=version)
    assert "4.1" in caught.value.fix
    assert list(tmp_path.iterdir()) == []


@both_versions
def test_file_is_replaced_while_its_own_weights_are_read(tmp_path, version):
    path = tmp_path / "m.dlc"
    save(one_op(weight=static("w", np.arange(100, dtype=np.float32))), path, version=version)
    model = load(path)
    before = hashlib.sha256(path.read_bytes()).digest()
    save(model, path, version=version)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert model.main.tensors["w"].numpy()[99] == 99


def test_a_link_is_followed(tmp_path):
    target = tmp_path / "real.dlc"
    link = tmp_path / "link.dlc"
    target.write_bytes(b"old")
    link.symlink_to(target)
    save(one_op(), link)
    assert link.is_symlink()
    assert load(target).main


def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.dlc"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        save(one_op(), path)
    assert "free space" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_failing_weight_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.dlc"
    path.write_bytes(b"old")

    def fail(array):
        raise KeyboardInterrupt

    data = Transform([ArrayData(np.ones(3, np.float32))], fail, (3,), np.float32)
    weight = Tensor("w", (3,), FLOAT32, data=data, role=Role.STATIC)
    with pytest.raises(KeyboardInterrupt):
        save(one_op(weight=weight), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_and_missing_file(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        save(one_op(), tmp_path / "no" / "m.dlc")
    with pytest.raises(StorageError, match="No such file"):
        load(tmp_path / "no.dlc")


@both_versions
def test_weights_are_let_go_one_after_the_other(tmp_path, version):
    alive, written = [], []

    class Watched(ArrayData):
        def write_to(self, file):
            alive.append(1)
            written.append(self)
            assert len(alive) == 1
            super().write_to(file)

        def numpy(self):
            assert alive
            return super().numpy()

        def release(self):
            alive.pop()

    model = one_op()
    graph = model.main
    extra = [
        graph.add_tensor(
            Tensor(f"w{n}", (3,), FLOAT32, data=Watched(np.ones(3, np.float32)), role=Role.STATIC)
        )
        for n in range(3)
    ]
    op = graph.ops[0]
    graph.set_inputs(op, [*op.inputs, *extra])
    save(model, tmp_path / "m.dlc", version=version)
    assert alive == []
    assert written == [tensor.data for tensor in extra]


def test_only_what_is_asked_for_is_mapped(tmp_path):
    path = tmp_path / "m.dlc"
    save(one_op(weight=static("w", np.arange(4, dtype=np.float32))), path)
    source, offset = load(path).main.tensors["w"].data.location
    assert source.path == path
    assert struct.unpack("<4f", path.read_bytes()[offset : offset + 16]) == (0, 1, 2, 3)


def test_describe(tmp_path):
    path = tmp_path / "m.dlc"
    model = one_op()
    save(model, path)
    found = describe(path)
    assert (found.version, found.size) == ("4.1", path.stat().st_size)
    assert "model.params" in [entry.name for entry in found.entries]


def test_the_trace_of_very_many_nodes_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(metadata, "MAX_VALUES", 100)
    model = one_op()
    model.metadata["nodes"] = [[f"node_{number}", "Relu", None] for number in range(100)]
    assert saved(model, tmp_path).metadata["nodes"] == model.metadata["nodes"]
    model.metadata["nodes"] = [["", "", None]] * 100 + [["n" * 100, "Relu", None]]
    saved(model, tmp_path)
