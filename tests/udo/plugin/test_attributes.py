"""Attributes of nodes in ``parse_params``: every type of every framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.converter.caffe2.nets import field, net, operator
from tests.converter.keras import keras_files
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Shape, set_value
from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from xdlc.converter.frontends import frontends
from xdlc.converter.tensorflow.messages import message
from xdlc.errors import UsageError, XdlcError
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.values import parameter
from xdlc.udo import Plugin, TensorSpec
from xdlc.udo.plugin import Bytes, Int, Json, Tensor, same_as
from xdlc.udo.plugin.base import Attributes
from xdlc.udo.plugin.declaration import FRAMEWORKS

OCTETS = b"\xff\x00a"


def plain(value: Any) -> Any:
    """Return an attribute with tensors as lists and graphs as names."""
    if isinstance(value, TensorData):
        return value.numpy().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "inputs"):
        return (list(value.inputs), list(value.outputs))
    return value


def seen(path: Path, framework: str, **options: Any) -> dict[str, Any]:
    """Return the attributes of the only node of type ``Mine``."""
    attributes: dict[str, Any] = {}

    class Seen(Plugin):
        op_type, package, inputs, outputs = ("Mine", "mine"), "Ops", ("x",), ("y",)

        def parse_params(self, node):
            attributes.update(node.attributes)
            return {}

        def infer_shape_and_type(self, op):
            return same_as(op.inputs[0])

    Seen.framework = framework
    (op,) = (
        op
        for op in xdlc.convert(path, plugin=[Seen], no_plugins=True, **options).main.ops
        if op.type == "Mine"
    )
    assert op.package == "Ops"
    return {name: plain(value) for name, value in attributes.items()}


def onnx_model(folder: Path) -> Path:
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    value = helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["b"])], "g", [value], [value])
    graph.output[0].name = "b"
    given = dict(i=3, f=0.5, s="ä", octets=OCTETS, ints=[1, 2], floats=[0.5], strings=["a", OCTETS])
    node = helper.make_node("Mine", ["x"], ["y"], domain="d", **given, t=tensor, ts=[tensor, tensor])
    node.attribute.append(helper.make_attribute("g", graph))
    node.attribute.append(helper.make_attribute("gs", [graph, graph]))
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, None])
    node.attribute.append(helper.make_attribute("tp", kind))
    node.attribute.append(helper.make_attribute("tps", [kind]))
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [2])
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", TensorProto.FLOAT, [1], [7.0]), indices, [3])
    node.attribute.append(helper.make_attribute("sparse", sparse))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy")
    model = helper.make_model(
        helper.make_graph([node], "m", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("d", 1)],
    )
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_onnx(tmp_path):
    inner, kind = (["a"], ["b"]), TensorSpec((2, None), FLOAT32)
    assert seen(onnx_model(tmp_path), "onnx") == {
        "i": 3, "f": 0.5, "s": "ä", "octets": OCTETS, "ints": [1, 2], "floats": [0.5],
        "strings": ["a", OCTETS], "t": [1.0, 2.0], "ts": [[1.0, 2.0]] * 2, "g": inner, "gs": [inner, inner],
        "tp": kind, "tps": [kind], "sparse": [0.0, 0.0, 7.0],
    }  # fmt: skip


def test_tensorflow(tmp_path):
    graph = Graph().input("x", 2, 3)
    graph.function("fn", ["a"], {"b": "r:activations:0"}, [("Relu", "r", ["a"], {"T": FLOAT})])
    graph.node("Mine", "m", ["x"], f=2.5, i=7, b=True, s="t", o=OCTETS, many=[1, 2],
               shape=Shape((2, None)), shapes=[Shape((1,)), Shape((4,))], t=np.float32([1, 2]), T=FLOAT,
               Ts=[FLOAT, FLOAT], fn=Function("fn"), other=Function("other"))  # fmt: skip
    (entry,) = (each for each in graph.proto.node[1].attr if each.key == b"fn")
    set_value(entry.value.func.attr.add(key=b"rate").value, 0.5)
    assert seen(graph.save(tmp_path / "m.pb"), "TensorFlow") == {
        "f": 2.5, "i": 7, "b": True, "s": "t", "o": OCTETS, "many": [1, 2], "shape": [2, None],
        "shapes": [[1], [4]], "t": [1.0, 2.0], "T": "float32", "Ts": ["float32", "float32"],
        "fn": (["a"], ["r"]), "fn.rate": 0.5, "other": "other",
    }  # fmt: skip


def test_tflite(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [2, 3]), made.tensor("y", [2, 3])
    given = {"i": 3, "f": 0.5, "b": True, "s": "t", "o": OCTETS, "l": [1, [2, "a"]], "m": {"k": {"n": 1}}}
    made.op("Mine", [x], [y], custom_options=flexbuffer(given))
    assert seen(made.write(tmp_path / "m.tflite", [x], [y]), "tflite") == given


def test_operators_of_tensorflow_in_tflite(tmp_path):
    builder, op = TinyModel(), message("NodeDef")
    x, y = builder.tensor("x", [2, 3]), builder.tensor("y", [2, 3])
    set_value(op.attr.add(key=b"o").value, OCTETS)
    set_value(op.attr.add(key=b"T").value, FLOAT)
    data = op.SerializeToString()
    builder.op("FlexMine", [x], [y], custom_options=flexbuffer(["Mine", data]))
    assert seen(builder.write(tmp_path / "m.tflite", [x], [y]), "tflite") == {"o": OCTETS, "T": "float32"}


def test_caffe(tmp_path):
    (tmp_path / "m.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 3 }\n'
        'layer { name: "m" type: "Mine" bottom: "x" top: "y" my_param { i: 3 f: .5 s: "t" o: "\\377\\000a" '
        "e: MEAN b: true many: 1 many: 2 inner { alpha: 1 } block { size: 2 } block { size: 3 } } }"
    )
    assert seen(tmp_path / "m.prototxt", "CAFFE") == {
        "my_param.i": 3, "my_param.f": 0.5, "my_param.s": "t", "my_param.o": OCTETS, "my_param.e": "MEAN",
        "my_param.b": True, "my_param.many": [1, 2], "my_param.inner.alpha": 1, "my_param.block.0.size": 2,
        "my_param.block.1.size": 3,
    }  # fmt: skip


def test_caffe2(tmp_path):
    inner = net([operator("Relu", ["a"], ["b"])], ["a"], ["b"])
    floats = field(1, 2) + b"".join(field(3, value) for value in (1.0, 2.0))
    raw = field(1, 3) + field(2, 9) + field(13, np.int16([1, 2, 3]).tobytes())
    op = operator("Mine", ["x"], ["y"], i=3, f=0.5, s="t", o=OCTETS, many=[1, 2], words=["a", "b"])
    for name, number, value in (("t", 10, floats), ("ts", 11, raw), ("n", 8, inner)):
        op += field(5, field(1, name) + field(number, value))
    (tmp_path / "m.pb").write_bytes(net([op], ["x"], ["y"]))
    assert seen(tmp_path / "m.pb", "caffe2", input_dims={"x": [1, 3]}) == {
        "i": 3, "f": 0.5, "s": "t", "o": OCTETS, "many": [1, 2], "words": ["a", "b"], "t": [1.0, 2.0],
        "ts": [[1, 2, 3]], "n": (["a"], ["b"]),
    }  # fmt: skip


def test_pytorch(tmp_path):
    made = TinyProgram()
    given = dict(i=3, f=0.5, b=True, s="t", many=[1, 2])
    ends = made.op("acme.mine.default", made.input("x", (2, 3)), **given, results=[((2, 3), "float32")])
    assert seen(made.write(tmp_path, ends), "pytorch") == given


def test_keras(tmp_path):
    pytest.importorskip("h5py")
    config = {"units": 3, "rate": 0.5, "mode": "t", "sizes": [[1, 2], [3]], "inner": {"alpha": 1}}
    layer = keras_files.layer("Mine", "m", module="acme", **config)
    model = keras_files.sequential(keras_files.entry("x", 1, 3), layer)
    path = keras_files.archive(tmp_path / "m.keras", model, {})
    found = seen(path, "keras")
    assert {name: found[name] for name in config} == config


def test_every_importer_has_a_word_for_framework():
    assert set(FRAMEWORKS) == set(frontends())


def test_messages_are_read_as_such_and_what_is_left_stays_unread():
    attributes = Attributes({"p.axis": 1, "p.block.0.size": 2, "p.block.1.size": 3, "p.rest": 4})
    param = attributes["p"]
    assert (param["axis"], [block["size"] for block in param["block"]]) == (1, [2, 3])
    assert attributes.unread == ("p.rest",)
    assert dict(attributes["block"][0]) == {"size": 2}
    with pytest.raises(KeyError):
        attributes["q"]
    with pytest.raises(UsageError, match=r"a\.m or b\.m"):
        Attributes({"a.m.x": 1, "b.m.x": 1})["m"]


def test_bytes_messages_and_nested_lists_become_parameters(tmp_path):
    class Keeps(Plugin):
        op_type, package, inputs, outputs = "Mine", "Ops", ("x",), ("y",)
        params = {"octets": Bytes(), "first": Tensor(), "info": Json(), "i": Int()}

        def parse_params(self, node):
            attributes = node.attributes
            for name in ("f", "s", "strings", "t", "g", "gs", "sparse", "tps"):
                assert name in attributes
                attributes[name]
            info = {"ints": [attributes["ints"], attributes["floats"]], "shape": attributes["tp"].shape}
            return {
                **{name: attributes[name] for name in ("octets", "i")},
                "first": attributes["ts"][0],
                "info": info,
            }

        def infer_shape_and_type(self, op):
            assert op.params["octets"] == OCTETS
            assert op.params["info"] == {"ints": [[1, 2], [0.5]], "shape": [2, None]}
            return same_as(op.inputs[0])

    (op,) = xdlc.convert(onnx_model(tmp_path), plugin=[Keeps]).main.ops
    assert op.param("octets").tolist() == list(OCTETS)
    assert op.param("first").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("kind", "value"), [(Json(), 3), (Json(), {"a": b"x"}), (Json(), {"a": float("nan")}), (Bytes(), [300])]
)
def test_values_without_a_form_are_refused(kind, value):
    with pytest.raises((XdlcError, ValueError)):
        parameter(kind.named("p"), kind.to_value(value))
