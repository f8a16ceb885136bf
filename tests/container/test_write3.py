"""Format 3 written and read again."""

import struct
import zipfile

import numpy as np
import pytest

import xdlc
from xdlc.container import load, save
from xdlc.container.archive import read_entries
from xdlc.container.encodings3 import NEW, OLD, Held, read_encodings, write_encodings
from xdlc.container.flatbuffer_build import build_parts
from xdlc.errors import ContainerError
from xdlc.ir import AxisScaleOffset, Graph, MappedFile, Model, Op, ScaleOffset, Tensor, f32, i32, static
from xdlc.ir.data import raw_data
from xdlc.ir.dtype import FLOAT32, INT32, SFIXED8, UFIXED8, UFIXED16, UINT8
from xdlc.ir.equality import differences
from xdlc.schema._generated import dlc3_model, dlc3_params
from xdlc.schema._generated.dlc3_model import Attribute

from .test_old_formats import array, layers, prefixed, write

REAL_FILES = (
    "models/dlc/best9_yolo_quantized_512/9_best_quantized_512.dlc",
    "models/dlc/mlperf_deeplabv3_v0_7/deeplabv3_quantized_hta_enabled.dlc",
    "models/dlc/nns_add2_float_v1/add2_float.v1.dlc",
    "models/dlc/ort_test_abs/test_abs.dlc",
    "models/dlc/ort_test_abs_q/test_abs_q.dlc",
    "models/dlc/ort_test_split_equal_parts_2d/test_split_equal_parts_2d.dlc",
    "samples/dlc/hta/v0_7_SNPE_deeplabv3_quantized_hta_enabled.dlc",
    "samples/dlc/hta/v1_0_SNPE_deeplabv3_hta.dlc",
)
TEXT = b"converter-command=snpe-onnx-to-dlc a=b\nconverter-version=1.53\nquantizer-command=N/A\n"


def entries(path):
    source = MappedFile(path)
    return {name: bytes(source.view(at.offset, at.size)) for name, at in read_entries(source).items()}


def numbers(delta, high, low, offset):
    """Return an encoding with all five numbers, as the vendor writes it."""
    reals = {"delta": delta, "max": high, "min": low, "offset": offset}
    parts = [Attribute(name, 4, real=value) for name, value in reals.items()]
    return {"type": 11, "attributes": [*parts, Attribute("precision", 3, natural=0x208)]}


def test_encodings_of_both_forms_beside_each_other_keep_their_channels():
    held = [
        Held(OLD, -1, ((0.5, 127.5, 0.0, 0.0, 0x208),)),
        Held(NEW, 0, ((0.5, 127.5, 0.0, 0.0, 0x208), (0.25, 63.75, 0.0, 0.0, 0x208))),
    ]
    (written,) = write_encodings(held)
    again = read_encodings({written.name: written}, "layer")
    assert [one.numbers for one in again] == [one.numbers for one in held]


def foreign_weights():
    channels = array("DataEncodingElement", numbers(0.5, 127.0, -0.5, -1), numbers(0.25, 63.25, -0.5, -2))
    axis = Attribute("axis", 2, integer=0)
    encoding = array("DataEncoding", {"type": 11, "attributes": [channels, axis]})
    return [
        dlc3_params.Weight("bias", [2], dlc3_params.Elements(9, reals=np.ones(2, np.float32).tobytes())),
        dlc3_params.Weight(
            "weights_0",
            [2, 2],
            dlc3_params.Elements(6, b"\1\2\3\4"),
            [encoding, Attribute("note", 3, natural=9)],
        ),
    ]


def foreign_file(path):
    """Write a file with something of everything, laid out as the vendor's writer does."""
    odd = [
        Attribute("empty", 11, attributes=[]),
        Attribute("flags", 6, flags=[True, False]),
        Attribute("x", 11, attributes=[Attribute("deep", 11, attributes=[Attribute("n", 2, integer=-1)])]),
    ]
    nodes = layers(odd)
    nodes[0].attributes = [
        array("FxpData", numbers(0.5, 126.00001, -1.5, -3)),
        array("OutputDims", {"type": 8, "integers": [1, 2]}),
        Attribute("layer_affinity", 2, integer=5),
    ]
    nodes[1].attributes.sort(key=lambda attribute: attribute.name)
    info = [Attribute("axis_order", 7, positions=[3, 5]), Attribute("dims", 8, integers=[1, 2])]
    infos = [Attribute(name, 11, attributes=list(info)) for name in "xy"]
    model = dlc3_model.Model(
        7, nodes, (1, 2), (), [Attribute("BufferInfos", 11, attributes=infos), Attribute("more", 5, text="t")]
    )
    params = dlc3_params.Params([dlc3_params.NodeParams("fc", foreign_weights())])
    content = {
        "model": prefixed(3, 0, b"".join(build_parts(model))),
        "model.params": prefixed(3, 0, b"".join(build_parts(params, by_name="nodes"))),
    }
    return write(path, {**content, "dlc.metadata": TEXT, "aip.metadata0": b"record"})


def test_untouched_model_is_written_as_it_was_read(tmp_path):
    path = foreign_file(tmp_path / "a.dlc")
    model = load(path)
    save(model, tmp_path / "b.dlc", version="3")
    assert entries(tmp_path / "b.dlc") == entries(path)
    assert differences(load(tmp_path / "b.dlc"), model) == []
    save(load(tmp_path / "b.dlc"), tmp_path / "c.dlc", version="3.0")
    assert (tmp_path / "c.dlc").read_bytes() == (tmp_path / "b.dlc").read_bytes()


def test_archive_is_one_that_any_tool_reads(tmp_path):
    model = load(foreign_file(tmp_path / "a.dlc"))
    model.save(tmp_path / "b.dlc", version="3")
    with zipfile.ZipFile(tmp_path / "b.dlc") as archive:
        assert archive.testzip() is None  # checks every CRC
        assert archive.namelist() == ["aip.metadata0", "dlc.metadata", "model", "model.params"]
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_what_was_kept_gives_way_to_what_was_changed(tmp_path):
    model = load(foreign_file(tmp_path / "a.dlc"))
    assert model.metadata["snpe"]["encodings"]["x"][2] == [[0.5, 126.00000762939453, -1.5, -3.0, 0x208]]
    (x,), (y,) = model.main.inputs, model.main.outputs
    x.encoding, y.dtype, y.encoding = ScaleOffset(0.25, -7), UFIXED16, ScaleOffset(2.0)
    model.main.rename(y, "z")
    model.save(tmp_path / "b.dlc", version="3")
    again = load(tmp_path / "b.dlc")
    assert again.main.inputs[0].encoding == ScaleOffset(0.25, -7)
    assert (again.main.outputs[0].name, again.main.outputs[0].dtype) == ("z", UFIXED16)
    assert "encodings" not in again.metadata["snpe"]
    infos = again.metadata["snpe"]["attributes"][0][2]
    assert [name for name, *_ in infos] == ["x", "z"]
    assert infos[0][2][0] == ["axis_order", 7, [3, 5]]
    assert infos[1][2][2] == ["dims", 8, [1, 2]]


def built():
    graph = Graph("model")
    x = graph.add_input(Tensor("x", (1, 2, 2, 3), UFIXED8, ScaleOffset(0.5, -128)))
    y = Tensor("y", (1, 2, 2, 2), UFIXED8, ScaleOffset(0.25, 0))
    encoding = AxisScaleOffset(3, (0.5, 0.25), (-128, -3))
    values = np.arange(6, dtype=np.uint8).reshape(1, 1, 3, 2)
    weight = static("conv.weights_0", values, UFIXED8, encoding)
    bias = static("conv.bias", np.ones(2, np.float32))
    params = {"layer_id": i32(1), "stride": i32(1), "real": f32(0.5)}
    graph.append(Op("Convolutional", [x, weight, bias], [y], params, name="conv", package="snpe"))
    z = Tensor("z", (1, 2, 2, 2), FLOAT32)
    graph.append(Op("Neuron", [y], [z], {"layer_id": i32(2)}, name="relu", package="snpe"))
    graph.add_output(z)
    model = Model(metadata={"history": [{"tool": "a", "args": {"b": "c"}}, {"tool": "quantizer"}]})
    model.add_graph(graph)
    return model


def test_model_that_was_built(tmp_path):
    model = built()
    model.save(tmp_path / "a.dlc", version="3")
    again = load(tmp_path / "a.dlc")
    assert [line for line in differences(again, model) if not line.startswith("metadata")] == []
    assert again.metadata["version"] == "3.0"
    assert again.metadata["properties"]["converter-command"] == "a b=c"
    assert again.metadata["properties"]["quantizer-command"] == "quantizer"
    kept = again.metadata["snpe"]
    assert kept["form"] == "DataEncoding"
    assert "encodings" not in kept  # they are those that the writer computes
    axes = {name: held[0][2] for name, _, held in kept["attributes"][0][2]}
    assert axes == {"x": [4, 1, 2, 3], "y": [4, 1, 2, 3], "z": [4, 1, 2, 3]}
    again.save(tmp_path / "b.dlc", version="3")
    assert (tmp_path / "a.dlc").read_bytes() == (tmp_path / "b.dlc").read_bytes()


def test_outputs_that_are_read_on_are_listed(tmp_path):
    model = built()
    model.main.outputs[0].role = model.main.tensors["y"].role
    model.main.outputs.clear()
    for name in ("z", "y"):
        model.main.add_output(model.main.tensors[name])
    model.save(tmp_path / "a.dlc", version="3")
    assert "xdlc.io" in entries(tmp_path / "a.dlc")
    assert [tensor.name for tensor in load(tmp_path / "a.dlc").main.outputs] == ["z", "y"]


def _change(**changes):
    def change(model):
        for key, value in changes.items():
            setattr(model.main.tensors["y"], key, value)

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_change(dtype=INT32, encoding=None), "'y'.*is int32"),
        (_change(dtype=SFIXED8), "'y'.*is sfixed8"),
        (_change(encoding=ScaleOffset(1.0, 0, 4)), "'y'.*all bits"),
        (lambda model: model.main.rename(model.main.tensors["conv.bias"], "b"), "should be named conv"),
        (lambda model: model.add_graph(Graph("two")), "holds 2 graphs"),
        (lambda model: model.metadata.update(cacheList=[{"cacheName": "a"}]), "holds HTP caches"),
        (
            lambda model: model.main.ops[0].params.update(a=static("a", np.zeros((2, 2), np.int32))),
            "attribute 'a'.*is int32",
        ),
        (lambda model: model.records.update(model=raw_data(b"x")), "cannot name an entry 'model'"),
    ],
)
def test_what_has_no_form_is_refused(tmp_path, change, problem):
    model = built()
    change(model)
    with pytest.raises(ContainerError, match=problem):
        model.save(tmp_path / "a.dlc", version="3")
    assert list(tmp_path.iterdir()) == []


def test_weights_of_other_types_are_refused(tmp_path):
    model = built()
    weight = model.main.tensors["conv.bias"]
    weight.data, weight.dtype = static("", np.ones(2, np.int32)).data, INT32
    with pytest.raises(ContainerError, match="8 unsigned bits"):
        model.save(tmp_path / "a.dlc", version="3")
    weight.data, weight.dtype = static("", np.ones(2, np.uint8)).data, UINT8
    model.save(tmp_path / "a.dlc", version="3")
    assert load(tmp_path / "a.dlc").main.tensors["conv.bias"].numpy().tolist() == [1, 1]


def _undated(path):
    """Return a file's bytes with the dates of its entries zeroed."""
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\3\4", 10), (b"PK\1\2", 12)):
        position = data.find(mark)
        while position >= 0:
            struct.pack_into("<I", data, position + at, 0)
            position = data.find(mark, position + 4)
    return bytes(data)


@pytest.mark.corpus
@pytest.mark.parametrize("file", REAL_FILES)
def test_real_files_come_back_but_for_their_dates(corpus, tmp_path, file):
    path = corpus.parent / file
    if not path.exists():
        pytest.skip(f"needs {path}")
    model = xdlc.load(path)
    model.save(tmp_path / "a.dlc", version="3")
    assert differences(xdlc.load(tmp_path / "a.dlc"), model) == []
    assert _undated(tmp_path / "a.dlc") == _undated(path)
