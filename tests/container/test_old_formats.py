"""Formats 4.0 (inline and large) and 3.0, from files built here."""

import json
import struct

import numpy as np
import pytest

from xdlc.container import load
from xdlc.container.archive import ArchiveWriter
from xdlc.container.flatbuffer_encode import encode
from xdlc.errors import ContainerError, UsageError
from xdlc.ir import AxisScaleOffset, MappedData, ScaleOffset, Tensor
from xdlc.schema._generated import dlc3_model, dlc3_params, dlc4_model, dlc4_params
from xdlc.schema._generated.dlc3_model import Attribute

NONE = 0x7FFFFFFF
VALUES = np.arange(3, dtype=np.float32)
TEXT = b"converter-command=snpe-onnx-to-dlc a=b\nconverter-version=1.53\nquantizer-command=N/A\n"


def write(path, entries):
    with open(path, "wb") as file:
        archive = ArchiveWriter(file)
        for name, content in entries.items():
            archive.add(name, [content])
        archive.close(())
    return path


def prefixed(major, minor, body):
    return struct.pack("<HHHH", 0x0AD5, major, minor, 0) + body


# ---------------------------------------------------------------------------- 4.0


def tensor(name, role):
    return dlc4_model.Tensor(1, name, role, (3,), quantization=dlc4_model.Quantization(NONE), dtype=0x232)


def graph_40(attributes=None):
    default_attributes = [
        dlc4_model.Attribute(
            "eltwise_type", role=2, scalar=dlc4_model.Scalar(NONE, text="ElementWiseSubtract")
        )
    ]
    node = dlc4_model.Node(
        "n", "Eltwise_Binary", ["x", "w"], ["y"], default_attributes if attributes is None else attributes
    )
    tensors = [tensor("x", 0), tensor("w", 4), tensor("y", 1)]
    return prefixed(4, 0, encode(dlc4_model.Model([dlc4_model.Graph("g", [node], tensors)])))


def params_40(elements):
    data = dlc4_params.GraphParams("g", [elements], [dlc4_params.NodeParams([])])
    return encode(dlc4_params.Params([data]))


def large(params, content):
    """Build an NR64 buffer with one buffer: 64-bit offset and count, then the bytes."""
    params = bytes(params) + bytes(-len(params) % 4)
    out = struct.pack("<I4s4xHHHH", 20, b"NR64", 8, 12, 4, 8)
    end = 20 + 12 + 4 + len(params)
    out += struct.pack("<iII", 8, end - 24, 4) + struct.pack("<I", len(params)) + params
    table = end + 8 + 8
    out += struct.pack("<II", 1, table - (end + 4)) + struct.pack("<HHHxx", 6, 12, 4)
    return out + struct.pack("<iQ", 8, 8) + struct.pack("<Q", len(content)) + content


def check_40(path):
    model = load(path)
    op = model.main.ops[0]
    assert model.metadata["version"] == "4.0"
    assert (op.type, op.param("operation")) == ("ElementWiseBinary", 18)
    assert isinstance(model.main.tensors["w"].data, MappedData)
    assert model.main.tensors["w"].numpy().tolist() == [0, 1, 2]


def test_inline_data(tmp_path):
    params = params_40(dlc4_params.Elements("w", VALUES.tobytes()))
    check_40(write(tmp_path / "m.dlc", {"model": graph_40(), "model.params": prefixed(4, 0, params)}))


def test_large_form(tmp_path):
    params = large(params_40(dlc4_params.Elements("w", buffer=0)), VALUES.tobytes())
    check_40(write(tmp_path / "m.dlc", {"model": graph_40(), "model.params": prefixed(4, 0, params)}))


@pytest.mark.parametrize("count", [11, 1 << 40, (1 << 64) - 1])
def test_large_form_of_a_wrong_size_is_refused(tmp_path, count):
    params = bytearray(large(params_40(dlc4_params.Elements("w", buffer=0)), VALUES.tobytes()))
    params[-20:-12] = struct.pack("<Q", count)
    path = write(tmp_path / "m.dlc", {"model": graph_40(), "model.params": prefixed(4, 0, params)})
    with pytest.raises(ContainerError, match="bytes"):
        load(path)


@pytest.mark.parametrize("elements", [dlc4_params.Elements("w"), dlc4_params.Elements("w", buffer=1)])
def test_data_that_is_nowhere_is_refused(tmp_path, elements):
    params = prefixed(4, 0, params_40(elements))
    path = write(tmp_path / "m.dlc", {"model": graph_40(), "model.params": params})
    with pytest.raises(ContainerError, match=r"has no data|uses buffer 1 of 0"):
        load(path)


def test_operation_without_a_name_is_refused(tmp_path):
    params = prefixed(4, 0, params_40(dlc4_params.Elements("w", VALUES.tobytes())))
    path = write(tmp_path / "m.dlc", {"model": graph_40([]), "model.params": params})
    with pytest.raises(ContainerError, match=r"node 'n' \(Eltwise_Binary\).*eltwise_type"):
        load(path)


# ---------------------------------------------------------------------------- 3.0


def array(name, *items):
    children = [Attribute(str(index), **item) for index, item in enumerate(items)]
    return Attribute(name, 11, attributes=children)


def affine(delta, offset):
    parts = [
        Attribute("delta", 4, real=delta),
        Attribute("offset", 4, real=offset),
        Attribute("precision", 3, natural=0x208),
    ]
    return {"type": 11, "attributes": parts}


def layers(extra=()):
    shape = {"type": 8, "integers": [1, 2]}
    return [
        dlc3_model.Node(
            0, "x", "Input", ["x"], ["x"], [array("OutputDims", shape), array("FxpData", affine(0.5, -3))]
        ),
        dlc3_model.Node(
            1,
            "fc",
            "FullyConnected",
            ["x"],
            ["y"],
            [
                array("OutputDims", shape),
                Attribute("flag", 1, flag=True),
                Attribute("number", 2, integer=-3),
                Attribute("real", 4, real=0.25),
                Attribute("text", 5, text="t"),
                Attribute("positions", 7, positions=[1, 300]),
                Attribute("ints", 8, integers=[3, -4]),
                Attribute("reals", 9, floats=[0.5]),
                Attribute("texts", 10, texts=["a", "b"]),
                array("nested", {"type": 3, "natural": 7}),
                *extra,
            ],
        ),
    ]


def weights():
    per_channel = array("DataEncodingElement", affine(0.5, -1), affine(0.25, -2))
    encoding = array(
        "DataEncoding", {"type": 11, "attributes": [per_channel, Attribute("axis", 2, integer=0)]}
    )
    return [
        dlc3_params.Weight("bias", [2], dlc3_params.Elements(9, floats=np.ones(2, np.float32).tobytes())),
        dlc3_params.Weight("weights_0", [2, 2], dlc3_params.Elements(6, b"\1\2\3\4"), [encoding]),
    ]


def write_30(path, nodes=None, layer="fc", given=None, records=None):
    model = dlc3_model.Model(nodes=layers() if nodes is None else nodes)
    params = dlc3_params.Params([dlc3_params.NodeParams(layer, weights() if given is None else given)])
    entries = {"model": prefixed(3, 0, encode(model)), "model.params": prefixed(3, 0, encode(params))}
    return write(path, {**entries, "dlc.metadata": TEXT, "aip.metadata0": b"record", **(records or {})})


def numbers(delta, high, low, offset):
    """Return an encoding with all five numbers, as the vendor writes it."""
    numbers = {"delta": delta, "max": high, "min": low, "offset": offset}
    parts = [Attribute(name, 4, real=value) for name, value in numbers.items()]
    return {"type": 11, "attributes": [*parts, Attribute("precision", 3, natural=0x208)]}


def foreign_weights():
    channels = array("DataEncodingElement", numbers(0.5, 127.0, -0.5, -1), numbers(0.25, 63.25, -0.5, -2))
    axis = Attribute("axis", 2, integer=0)
    encoding = array("DataEncoding", {"type": 11, "attributes": [channels, axis]})
    return [
        dlc3_params.Weight("bias", [2], dlc3_params.Elements(9, floats=np.ones(2, np.float32).tobytes())),
        dlc3_params.Weight(
            "weights_0",
            [2, 2],
            dlc3_params.Elements(6, b"\1\2\3\4"),
            [encoding, Attribute("note", 3, natural=9)],
        ),
    ]


def foreign_file(path):
    """Write a file with something of everything."""
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
    content = {"model": prefixed(3, 0, encode(model)), "model.params": prefixed(3, 0, encode(params))}
    return write(path, {**content, "dlc.metadata": TEXT, "aip.metadata0": b"record"})


def test_a_file_with_something_of_everything(tmp_path):
    model = load(foreign_file(tmp_path / "a.dlc"))
    (op,) = model.main.ops
    assert op.param("x.deep.n") == -1
    assert model.main.tensors["fc.weights_0"].encoding == AxisScaleOffset(0, (0.5, 0.25), (-1, -2))
    assert model.main.inputs[0].encoding == ScaleOffset(0.5, -3)


def test_layers_become_ops(tmp_path):
    model = load(write_30(tmp_path / "m.dlc"))
    (op,) = model.main.ops
    assert (op.package, op.type, op.name) == ("snpe", "FullyConnected", "fc")
    assert [tensor.name for tensor in op.inputs] == ["x", "fc.weights_0", "fc.bias"]
    assert [tensor.name for tensor in model.main.inputs] == ["x"]
    assert [tensor.name for tensor in model.main.outputs] == ["y"]
    assert model.main.inputs[0].encoding == ScaleOffset(0.5, -3)
    assert model.main.inputs[0].dtype.name == "ufixed8"
    assert op.outputs[0].dtype.name == "float32"
    weight = op.inputs[1]
    assert weight.encoding == AxisScaleOffset(0, (0.5, 0.25), (-1, -2))
    assert weight.numpy().tolist() == [[1, 2], [3, 4]]
    assert op.inputs[2].numpy().tolist() == [1, 1]
    plain = {
        name: value.numpy().tolist() if isinstance(value, Tensor) else value.value
        for name, value in op.params.items()
    }
    assert plain == {
        "layer_id": 1,
        "flag": True,
        "number": -3,
        "real": 0.25,
        "text": "t",
        "positions": [1, 300],
        "ints": [3, -4],
        "reals": [0.5],
        "texts.0": "a",
        "texts.1": "b",
        "nested.0": 7,
    }


def test_text_metadata_and_records(tmp_path):
    model = load(write_30(tmp_path / "m.dlc"))
    assert model.metadata["properties"]["converter-version"] == "1.53"
    assert [step["tool"] for step in model.metadata["history"]] == ["snpe-onnx-to-dlc"]
    assert model.records["aip.metadata0"].numpy().tobytes() == b"record"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layer": "other"}, "weights for 'other', which is not a layer"),
        (
            {"given": [dlc3_params.Weight("w", [3], dlc3_params.Elements(6, b"\1"))]},
            "has 1 bytes of data, but",
        ),
        ({"given": [dlc3_params.Weight("w", [1], dlc3_params.Elements(7, b"\1"))]}, "elements of type 7"),
        ({"given": [dlc3_params.Weight("w", [-1], dlc3_params.Elements(6, b"\1"))]}, "no valid shape"),
        ({"nodes": layers()[1:]}, "reads 'x', which no earlier layer"),
        ({"nodes": layers([Attribute("new", 12)])}, "attribute 'new' of type 12"),
        ({"nodes": layers([Attribute("flag", 1)])}, "two attributes named 'flag'"),
        ({"nodes": [*layers(), *layers()[1:]]}, "two"),
    ],
)
def test_broken_layers_are_refused(tmp_path, changes, problem):
    with pytest.raises(ContainerError, match=problem):
        load(write_30(tmp_path / "m.dlc", **changes))


@pytest.mark.parametrize("version", ["3", "3.0"])
def test_format_3_is_not_written(tmp_path, version):
    model = load(foreign_file(tmp_path / "a.dlc"))
    with pytest.raises(UsageError, match="does not write") as caught:
        model.save(tmp_path / "b.dlc", version=version)
    assert "4.1" in caught.value.fix
    model.save(tmp_path / "b.dlc")
    assert [op.type for op in load(tmp_path / "b.dlc").main.ops] == ["FullyConnected"]


def test_outputs_of_the_io_record_count(tmp_path):
    """Earlier versions of xdlc listed outputs that are read on."""
    nodes = layers()
    last = dlc3_model.Node(
        2, "more", "Neuron", ["y"], ["z"], [array("OutputDims", {"type": 8, "integers": [1, 2]})]
    )
    path = write_30(tmp_path / "m.dlc", [*nodes, last])
    assert [tensor.name for tensor in load(path).main.outputs] == ["z"]
    record = {
        "version": 1,
        "graphs": [{"name": "model", "inputs": [], "outputs": [{"name": n} for n in "zy"]}],
    }
    path = write_30(tmp_path / "m.dlc", [*nodes, last], records={"xdlc.io": json.dumps(record).encode()})
    assert [tensor.name for tensor in load(path).main.outputs] == ["z", "y"]
