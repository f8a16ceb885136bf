"""Plugins and configurations for Caffe layers: parameters, overrides, schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.converter.caffe.nets import caffemodel
from tests.support.compilers import needs_cc
from tests.udo.plugin.plugins import EXAMPLES, written
from xdlc.errors import UsageError, XdlcError
from xdlc.ir import Model

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [SHAPE] } } }\n'


def net(folder: Path, layers: str, *shape: int) -> Path:
    path = folder / "net.prototxt"
    path.write_text(INPUT.replace("SHAPE", ",".join(map(str, shape))) + layers)
    return path


def types(model: Model) -> list[tuple[str, str]]:
    return [(op.package, op.type) for op in model.main.ops if op.type != "Transpose"]


REDUCTIONS = [
    "operation: ASUM axis: -3 coeff: 0.5",
    "operation: 4 axis: 2",
    "operation: SUMSQ",
    "axis: 1 coeff: -2",
]


@needs_cc
def test_a_plugin_precedes_the_reduction_of_xdlc_and_equals_it(tmp_path: Path) -> None:
    layers = "".join(
        f'layer {{ name: "r{place}" type: "Reduction" bottom: "x" top: "y{place}" '
        f"reduction_param {{ {params} }} }}\n"
        for place, params in enumerate(REDUCTIONS)
    )
    path, file = net(tmp_path, layers, 2, 3, 4, 5), EXAMPLES / "reduction.py"
    notices: list[str] = []
    model = xdlc.convert(path, plugin=[f"{file}:Reduction"], notify=notices.append)
    assert types(model) == [("CaffeOps", "Reduction")] * len(REDUCTIONS)
    assert any("CaffeOps::Reduction" in text and "replaces" in text for text in notices)
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    xdlc.save(model, tmp_path / "m.dlc")
    wanted = xdlc.run(xdlc.convert(path), {"x": x})
    for source in (tmp_path / "kernel_meta", file):
        found = xdlc.run(tmp_path / "m.dlc", {"x": x}, udo_package_path=source)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name].reshape(array.shape), array, rtol=1e-5, atol=1e-5)


def test_a_plugin_takes_the_convolutions_of_one_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shapes = {"c1": (24, 20), "c2": (20, 24), "c3": (24, 20)}
    bottoms = ("x", "c1", "c2")
    layers = "".join(
        f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" convolution_param {{ '
        f'num_output: {many} kernel_size: 3 pad: 1 engine: CUDNN weight_filler {{ type: "xavier" }} }} }}\n'
        for bottom, (name, (many, _)) in zip(bottoms, shapes.items(), strict=True)
    )
    blobs = {
        name: [
            (rng.standard_normal((*shape, 3, 3)) / 8).astype(np.float32),
            rng.standard_normal(shape[0]).astype(np.float32),
        ]
        for name, shape in shapes.items()
    }
    (tmp_path / "w").write_bytes(caffemodel(blobs))
    path, weights = net(tmp_path, layers, 1, 20, 8, 8), tmp_path / "w"
    model = xdlc.convert(path, weights=weights, plugin=[str(EXAMPLES / "fast_convolution.py")])
    ops = [each for each in types(model) if "Conv" in each[1]]
    assert ops == [("Fast", "FastConvolution"), ("qti.aisw", "Conv2d"), ("Fast", "FastConvolution")]
    x = rng.standard_normal((1, 20, 8, 8)).astype(np.float32)
    wanted = xdlc.run(xdlc.convert(path, weights=weights), {"x": x})["c3"]
    found = xdlc.run(model, {"x": x}, udo_package_path=EXAMPLES / "fast_convolution.py")["c3"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_example_of_a_layer_with_parameters_of_its_own(tmp_path: Path) -> None:
    file = EXAMPLES / "bounded_scale.py"
    text = next(part for part in file.read_text().split('"""') if "layer {" in part)
    layer = text[text.index("layer {") : text.index("\n\nxconv")]
    path = net(tmp_path, layer, 1, 3, 4)
    x = np.random.default_rng(1).uniform(-9, 9, (1, 3, 4)).astype(np.float32)
    centred = 2 * x - (2 * x).mean((1, 2), keepdims=True)
    for other, wanted in ((layer, np.mod(centred, 6)), (layer.replace("WRAP", "0"), np.clip(centred, 0, 6))):
        path.write_text(path.read_text().replace(layer, other))
        found = xdlc.run(xdlc.convert(path, plugin=[str(file)]), {"x": x}, udo_package_path=file)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


OWN = """
class Mine(Plugin):
    framework = "Caffe"
    op_type = ["Mine", "some.module.Mine"]
    package = "Own"
    inputs = ["x", Input("w", static=True, optional=True)]
    outputs = ["y"]
    params = {
        "alpha": Float(), "deep": Int(source="inner.beta"), "kind": Enum("SLOW", "FAST"),
        "flip": Bool(default=True), "sizes": Ints(), "names": Strs(None), "param_str": Str(""),
    }

    def accepts(self, node):
        return node.attributes.get("flip", True) is not None

    def infer_shape_and_type(self, op):
        return same_as(op.inputs[0])

    def compute(self, inputs, params, outputs):
        factor = params["alpha"] * params["deep"] + (params["kind"] == "FAST") + 10 * params["flip"]
        return inputs[0] * np.float32(factor + 100 * sum(params["sizes"]))
"""
OWN = "import numpy as np\n" + OWN
MINE = 'layer { name: "m" type: "Mine" bottom: "x" top: "y" PARAMS }\n'


@pytest.mark.parametrize(
    ("params", "factor"),
    [
        ("mine_param { alpha: 0.5 inner { beta: 3 } kind: FAST flip: false sizes: 2 }", 202.5),
        ("mine_param { alpha: 2 inner { beta: 1 } kind: 0 sizes: [1, 2] names: 'a' }", 312),
        ("alpha: .5 inner < beta: 2 > mine_param { kind: 1 sizes: 1 w_filler { type: 'x' } }", 112),
    ],
)
def test_parameters_that_no_schema_knows_reach_a_plugin(tmp_path: Path, params: str, factor: float) -> None:
    file = written(tmp_path, OWN)
    model = xdlc.convert(net(tmp_path, MINE.replace("PARAMS", params), 1, 2), plugin=[f"{file}:Mine"])
    x = np.float32([[1, -2]])
    np.testing.assert_allclose(xdlc.run(model, {"x": x}, udo_package_path=file)["y"], x * np.float32(factor))


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        (
            "a { alpha: 1 } b { alpha: 2 } p { kind: 1 inner { beta: 1 } sizes: 1 }",
            r"'alpha' is ambiguous: a\.alpha or b",
        ),
        (
            "p { alpha: 1 kind: 1 inner { beta: 1 } sizes: 1 beta: 2 }",
            "the plugin ignores attribute 'p.beta'",
        ),
        ("p { alpha: 1 kind: OTHER inner { beta: 1 } sizes: 1 }", "is 'OTHER', but the values are"),
        ('p { alpha: "1" kind: 1 inner { beta: 1 } sizes: 1 }', "is '1', but the parameter is float32"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_the_layer(
    tmp_path: Path, params: str, problem: str
) -> None:
    file = written(tmp_path, OWN)
    with pytest.raises(XdlcError, match=problem) as caught:
        xdlc.convert(net(tmp_path, MINE.replace("PARAMS", params), 1, 2), plugin=[f"{file}:Mine"])
    assert (caught.value.node, caught.value.line) == ("m", 2)
    assert "node 'm' (line 2)" in str(caught.value)


PYTHON = """layer { name: "p" type: "Python" bottom: "x" top: "y" python_param {
  module: "some.module" layer: "Mine" param_str: "{'k': 3}" share_in_parallel: false }
  other { alpha: 1 inner { beta: 1 } kind: SLOW sizes: 0 flip: false } }
"""


def test_python_layers_are_of_the_type_of_their_module(tmp_path: Path) -> None:
    file = written(tmp_path, OWN)
    model = xdlc.convert(net(tmp_path, PYTHON, 1, 2), plugin=[f"{file}:Mine"])
    (op,) = model.main.ops
    assert op.param("param_str") == "{'k': 3}"
    assert model.metadata["nodes"] == [["p", "some.module.Mine", None]]


DRAFTED = """layer { name: "a" type: "Mine" bottom: "x" top: "a"
  my_param { alpha: 0.5 kind: FAST inner { beta: 3 } } }
layer { name: "b" type: "Mine" bottom: "a" top: "b" my_param { alpha: 1 size: [1, 2] inner { kind: true } } }
layer { name: "c" type: "Python" bottom: "b" top: "c"
  python_param { module: "rpn" layer: "Twist" param_str: "1" } }
layer { name: "d" type: "Twist" bottom: "c" top: "d" }
layer { name: "e" type: "Python" bottom: "d" top: "e" python_param { module: "m.n" layer: "Mean" } }
"""


@pytest.mark.parametrize("form", ["json", "xml"])
def test_drafted_definitions_fit_the_layers(tmp_path: Path, form: str) -> None:
    path, weights, config = net(tmp_path, DRAFTED, 1, 2, 4, 4), tmp_path / "w", tmp_path / f"ops.{form}"
    weights.write_bytes(caffemodel({"a": [np.ones((3, 2))], "b": [np.zeros((3, 2))]}))
    made = xdlc.api.draft_udo_config(path, config, weights=weights, same_shapes=True)
    made.write()
    model = xdlc.convert(path, weights=weights, udo_config_paths=[config])
    assert [name for _, name in types(model)] == ["Mine", "Mine", "rpn_Twist", "Twist", "Mean"]
    first, second, third, *_ = (op for op in model.main.ops if op.package == "MyOps")
    assert (first.param("alpha"), first.param("my_param_kind"), first.param("beta")) == (0.5, "FAST", 3)
    assert (second.param("size").tolist(), second.param("inner_kind")) == ([1, 2], True)
    assert third.param("param_str") == "1"
    assert [tensor.is_static for tensor in first.inputs if tensor] == [False, True]


def test_a_parameter_may_have_the_whole_path(tmp_path: Path) -> None:
    params: list[dict[str, Any]] = [
        {"name": name, "data_type": "INT_32"} for name in ("my_param_kind", "inner_kind")
    ]
    op = {
        "type": "Mine",
        "inputs": [{"data_type": "FLOAT_32"}],
        "outputs": [{"data_type": "FLOAT_32", "xdlc_shape": "same as in[0]"}],
        "scalar_params": params,
        "core_types": ["CPU"],
    }
    config = tmp_path / "ops.json"
    config.write_text(json.dumps({"UdoPackage_0": {"Operators": [op], "UDO_PACKAGE_NAME": "P"}}))
    layer = MINE.replace("PARAMS", "my_param { kind: 1 inner { kind: 2 } }")
    (made,) = xdlc.convert(net(tmp_path, layer, 1, 2), udo_config_paths=[config]).main.ops
    assert (made.param("my_param_kind"), made.param("inner_kind")) == (1, 2)


def test_weights_are_refused_for_frameworks_without(models: Any) -> None:
    path = models.save(models.cnn())
    for verb in (xdlc.convert, xdlc.check, xdlc.api.draft_udo_config):
        with pytest.raises(UsageError, match="weights is not an option for an ONNX model"):
            verb(path, weights="net.caffemodel")
