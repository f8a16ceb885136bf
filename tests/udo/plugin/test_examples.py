"""The plugins in ``examples/``: converted, shown, run with both kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from tests.support.compilers import needs_cc
from tests.support.onnx_models import build, expected
from tests.udo.plugin.plugins import EXAMPLES, written
from xdlc import api
from xdlc.cli.main import main
from xdlc.container.udo import definitions
from xdlc.errors import UsageError, XdlcError
from xdlc.runtime.udo.kernel_files import read_calls

REDUCTION = EXAMPLES / "reduction.py"
FAST_CONV = EXAMPLES / "fast_conv.py"


def reduction_model(folder: Path, shape: tuple[int, ...], **attributes: Any) -> Path:
    node = helper.make_node("Reduction", ["r"], ["y"], "red", domain="custom", **attributes)
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), node]
    feeds = {"x": np.zeros(shape, np.float32)}
    model = build(nodes, feeds, None, ["y"], 17)
    path = folder / "reduction.onnx"
    onnx.save_model(model, path)
    return path


NUMPY = {
    "SUM": lambda rows: rows.sum(-1),
    "ASUM": lambda rows: np.abs(rows).sum(-1),
    "SUMSQ": lambda rows: (rows**2).sum(-1),
    "MEAN": lambda rows: rows.mean(-1),
}
CASES = [
    ({"axis": -3, "operation": 1}, "SUM", 1, 1.0),
    ({"axis": -1, "operation": "MEAN", "coeff": 0.5}, "MEAN", 3, 0.5),
    ({"axis": 2, "operation": 3, "coeff": -2.0}, "SUMSQ", 2, -2.0),
    ({"operation": 2}, "ASUM", 0, 1.0),
]


@needs_cc
def test_reduction(tmp_path):
    nodes = [
        helper.make_node("Reduction", ["x"], [f"y{place}"], f"n{place}", domain="custom", **attributes)
        for place, (attributes, *_) in enumerate(CASES)
    ]
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    model = build(nodes, {"x": x}, None, [f"y{place}" for place in range(len(CASES))], 17)
    onnx.save_model(model, tmp_path / "m.onnx")
    path = tmp_path / "m.dlc"
    api.save(api.convert(tmp_path / "m.onnx", plugin=[f"{REDUCTION}:Reduction"]), path)
    assert len(read_calls(tmp_path / "kernel_meta" / "reduction.json")) == len(CASES)
    for source in (tmp_path / "kernel_meta", REDUCTION):
        results = api.run(path, {"x": x}, udo_package_path=source)
        for place, (_, operation, axis, coeff) in enumerate(CASES):
            rows = x.astype(np.float64).reshape(*(x.shape[:axis] or (1,)), -1)
            wanted = (NUMPY[operation](rows) * coeff).astype(np.float32)
            assert results[f"y{place}"].shape == wanted.shape
            np.testing.assert_allclose(results[f"y{place}"], wanted, rtol=1e-5, atol=1e-6)


@needs_cc
def test_reduction_from_the_command_line(tmp_path):
    source, path = reduction_model(tmp_path, (2, 3, 4), axis=1, operation=4), tmp_path / "r.dlc"
    done = CliRunner().invoke(
        main, ["onnx-to-dlc", "-i", str(source), "-o", str(path), "--plugin", f"{REDUCTION}:Reduction"]
    )
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(main, ["info", "--ops", "-i", str(path)])
    assert shown.exit_code == 0, shown.output
    for word in ("CaffeOps", "Reduction", "operation", "coeff"):
        assert word in shown.output
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    (tmp_path / "x.raw").write_bytes(x.tobytes())
    (tmp_path / "list.txt").write_text(f"x:={tmp_path / 'x.raw'}\n")
    run = ["net-run", "--container", str(path), "--input_list", str(tmp_path / "list.txt"), "--output_dir"]
    refused = CliRunner().invoke(main, [*run, str(tmp_path / "none")])
    assert refused.exit_code != 0
    assert "there is no kernel for CaffeOps::Reduction" in refused.output
    assert "kernel_meta" in refused.output
    expected = np.maximum(x, 0).reshape(2, -1).mean(-1)
    for place, source in enumerate((tmp_path / "kernel_meta", REDUCTION)):
        folder = tmp_path / f"out{place}"
        done = CliRunner().invoke(main, [*run, str(folder), "--udo_package_path", str(source)])
        assert done.exit_code == 0, done.output
        (result,) = folder.glob("**/*.raw")
        np.testing.assert_allclose(np.fromfile(result, np.float32), expected, rtol=1e-6)


@needs_cc
def test_reduction_is_quantized_with_its_kernel(tmp_path):
    source = reduction_model(tmp_path, (1, 3, 8), axis=2, operation=4)
    model = api.convert(source, plugin=[f"{REDUCTION}:Reduction"])
    samples = [
        {"x": np.random.default_rng(seed).uniform(0, 4, (1, 3, 8)).astype(np.float32)} for seed in range(3)
    ]
    quantized = api.quantize(model, samples, udo_package_path=REDUCTION)
    found = api.run(quantized, samples[0], udo_package_path=REDUCTION)["y"]
    quantized.save(tmp_path / "quantized.dlc")
    again = api.run(quantized, samples[0], udo_package_path=tmp_path / "kernel_meta")["y"]
    np.testing.assert_allclose(found, again, atol=0.02)
    np.testing.assert_allclose(found, samples[0]["x"].mean(-1), atol=0.05)


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"axis": 5}, "axis 5 is not within -3..2 of 3 axes"),
        ({"operation": 5}, "there is no 5"),
        ({"operation": "MAX"}, "is 'MAX', but the values are"),
        ({"axis": 1.5}, "is 1.5, but the parameter is int32"),
        ({"axes": 1}, "the plugin ignores attribute 'axes'"),
    ],
)
def test_a_reduction_that_does_not_fit_is_told_with_the_line_of_the_plugin(tmp_path, attributes, problem):
    with pytest.raises(XdlcError, match=problem) as caught:
        api.convert(reduction_model(tmp_path, (2, 3, 4), **attributes), plugin=[f"{REDUCTION}:Reduction"])
    notices = str(caught.value)
    assert f"{REDUCTION}:" in notices
    assert "plugin Reduction, " in notices
    assert "red" in notices


def test_a_dry_run_tells_the_line_of_the_plugin(tmp_path):
    source = reduction_model(tmp_path, (2, 3, 4), operation=5)
    (problem,) = api.check(source, plugin=[f"{REDUCTION}:Reduction"]).problems
    assert (problem.node, problem.op) == ("red", "Reduction")
    assert problem.why.startswith(f"{REDUCTION}:")
    assert "plugin Reduction, parse_params" in problem.why


@needs_cc
def test_the_same_model_gives_the_same_bytes(tmp_path):
    source = reduction_model(tmp_path, (2, 3, 4), axis=1)
    contents = []
    for name in ("one.dlc", "two.dlc"):
        api.save(api.convert(source, plugin=[str(REDUCTION)]), tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert str(EXAMPLES).encode() not in contents[0]


# ---------------------------------------------------------------------- Conv, one shape of it


def convolutions(folder: Path, *, bias: bool = True) -> tuple[Path, np.ndarray, Any]:
    """Return three convolutions, the first and last of the plugin's shape."""
    rng = np.random.default_rng(5)

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 8).astype(np.float32)

    names = [["x", "w1"], ["r1", "w2"], ["r2", "w3"]]
    names = [[*held, f"b{place}"] for place, held in enumerate(names, 1)] if bias else names
    nodes = [
        helper.make_node("Conv", names[0], ["c1"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", names[1], ["c2"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("Conv", names[2], ["y"], "third", pads=[1, 1, 1, 1], strides=[1, 1]),
    ]
    weights = {"w1": weight(24, 20, 3, 3), "w2": weight(20, 24, 3, 3), "w3": weight(24, 20, 3, 3)}
    if bias:
        weights |= {"b1": weight(24), "b2": weight(20), "b3": weight(24)}
    x = rng.standard_normal((1, 20, 8, 8)).astype(np.float32)
    model = build(nodes, {"x": x}, weights, ["y"], 17)
    path = folder / "convolutions.onnx"
    onnx.save_model(model, path)
    return path, x, (expected(model, {"x": x}, False)[0], weights)


@pytest.mark.parametrize("bias", [True, False])
def test_conv_of_one_shape(tmp_path, bias):
    source, x, (expected, weights) = convolutions(tmp_path, bias=bias)
    path = tmp_path / "convolutions.dlc"
    notices: list[str] = []
    api.save(api.convert(source, plugin=[f"{FAST_CONV}:FastConv"], notify=notices.append), path)
    model = api.load(path)
    ops = [(op.package, op.type) for op in model.main.ops if "Conv" in op.type]
    assert ops == [("Fast", "FastConv"), ("qti.aisw", "Conv2d"), ("Fast", "FastConv")]
    assert any("Fast::FastConv matches Conv nodes" in text for text in notices)
    first = next(op for op in model.main.ops if op.type == "FastConv")
    np.testing.assert_array_equal(
        first.inputs[1].numpy(), weights["w1"]
    )  # tensors stay as the model has them
    assert {tensor.shape for tensor in first.outputs} == {(1, 24, 8, 8)}
    found = api.run(path, {"x": x}, udo_package_path=FAST_CONV)["y"]
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(XdlcError, match="there is no kernel for Fast::FastConv"):
        api.run(path, {"x": x})


@pytest.mark.vendor
def test_the_vendor_reads_ops_of_plugins(tmp_path, vendor_check):
    path = tmp_path / "convolutions.dlc"
    api.save(api.convert(convolutions(tmp_path)[0], plugin=[f"{FAST_CONV}:FastConv"]), path)
    answer = vendor_check("read", path)
    assert answer["ok"], answer["reason"]
    ops = {op["name"]: op for graph in answer["graphs"] for op in graph["ops"]}
    assert (ops["first"]["package"], ops["first"]["type"]) == ("Fast", "FastConv")
    params = {param["name"]: param for param in ops["first"]["params"]}
    assert params["pads"]["tensor"]["values"] == [1, 1, 1, 1]


def test_conv_of_no_shape_that_the_plugin_takes(tmp_path):
    x = np.zeros((1, 20, 9, 9), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])
    onnx.save_model(
        build([node], {"x": x}, {"w": np.ones((24, 20, 3, 3), np.float32)}, ["y"], 17), tmp_path / "c.onnx"
    )
    model = api.convert(tmp_path / "c.onnx", plugin=[f"{FAST_CONV}:FastConv"])
    assert not model.files
    assert not definitions(model)
    assert all(op.package == "qti.aisw" for op in model.main.ops)


EVERY_KIND = """
class Kinds(Plugin):
    op_type = "Kinds"
    domain = "custom"
    package = "Pack"
    inputs = ["x"]
    outputs = ["y"]
    params = {
        "i": Int(dtype="uint32"), "f": Float(), "b": Bool(), "s": Str(), "e": Enum("A", "B"),
        "n": Enum("A", "B"), "li": Ints(), "lf": Floats(), "lb": Bools(), "ls": Strs(),
        "t": Tensor(rank=2), "ti": Tensor(dtype="int32"), "none": Ints(None),
    }

    def infer_shape_and_type(self, op):
        self.check(op.params)
        return same_as(op.inputs[0])

    def compute(self, inputs, params, outputs):
        self.check(params)
        return inputs[0]

    def check(self, params):
        params = dict(params)
        assert params.pop("t").tolist() == [[1.5, 2.0]]
        assert params.pop("ti").tolist() == [3, 4]
        assert params == {
            "i": 3, "f": 0.5, "b": True, "s": "text", "e": "B", "n": "A", "li": [1, -2], "lf": [0.5, 2.0],
            "lb": [True, False], "ls": ["a", "b"],
        }, params
"""


def test_every_kind_of_attribute_of_onnx(tmp_path):
    path = written(tmp_path, EVERY_KIND)
    attributes: dict[str, Any] = dict(
        i=3, f=0.5, b=1, s="text", e="B", n=0, li=[1, -2], lf=[0.5, 2.0], lb=[1, 0], ls=["a", "b"]
    )
    attributes["t"] = numpy_helper.from_array(np.float32([[1.5, 2.0]]))
    attributes["ti"] = numpy_helper.from_array(np.int64([3, 4]))
    node = helper.make_node("Kinds", ["x"], ["y"], "n", domain="custom", **attributes)
    x = np.float32([1, 2])
    onnx.save_model(build([node], {"x": x}, None, ["y"], 17), tmp_path / "m.onnx")
    api.save(api.convert(tmp_path / "m.onnx", plugin=[str(path)]), tmp_path / "m.dlc")
    np.testing.assert_array_equal(api.run(tmp_path / "m.dlc", {"x": x}, udo_package_path=path)["y"], x)


WARNED = """
class Warned(Plugin):
    op_type = "Reduction"
    domain = "custom"
    package = "Pack"
    inputs = ["x"]
    outputs = ["y"]

    def infer_shape_and_type(self, op):
        return with_shape(op.inputs[0], (1,))

    def build_kernel(self, op):
        text = Path(SOURCE).read_text() + "static int unused;\\n"
        return compile_c(op, text, entry="reduction", arguments="i, s, f", values=(0, "SUM", 1.0))
"""


@needs_cc
def test_what_a_compiler_warns_of_is_shown(tmp_path):
    path = written(
        tmp_path, f"from pathlib import Path\nSOURCE = {str(EXAMPLES / 'reduction.c')!r}\n{WARNED}"
    )
    files = ["-i", str(reduction_model(tmp_path, (2, 3))), "-o", str(tmp_path / "m.dlc")]
    done = CliRunner().invoke(main, ["onnx-to-dlc", *files, "--plugin", f"{path}:Warned"])
    assert done.exit_code == 0, done.output
    assert "plugin Warned, build_kernel, op 'red': " in done.output
    assert "static int unused;" in done.output


def test_both_examples_at_once(tmp_path):
    source, *_ = convolutions(tmp_path)
    with pytest.raises(UsageError, match="there is no 'Reductions'"):
        api.convert(source, plugin=[str(FAST_CONV), f"{REDUCTION}:Reductions"])


OWN_CONV = """from onnx.reference import ReferenceEvaluator
from onnx import helper, ValueInfoProto

class OwnConv(Plugin):
    op_type = "Conv"
    package = "Own"

    def accepts(self, node):
        return node.inputs[1].shape[1] > 1

    def compute(self, inputs, params, outputs):
        arrays = {name: array for name, array in zip("xwb", inputs) if array is not None}
        own = ("dilations", "group", "kernel_shape", "pads", "strides")
        attributes = {name: params[name] for name in own if params.get(name) is not None}
        node = helper.make_node("Conv", list(arrays), ["y"], **attributes)
        infos = [ValueInfoProto(name=name) for name in arrays]
        graph = helper.make_graph([node], "g", infos, [ValueInfoProto(name="y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return ReferenceEvaluator(model).run(None, arrays)[0]
"""


@pytest.mark.corpus
def test_all_convolutions_of_a_network(tmp_path, corpus):
    source = next((corpus / "onnx" / "mlperf_resnet8").glob("*.onnx"))
    path = written(tmp_path, OWN_CONV)
    model = api.convert(source, plugin=[str(path)])
    assert sum(op.type == "Conv" for op in model.main.ops) == 9
    (x,) = model.main.inputs
    feeds = {x.name: np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)}
    found = api.run(model, feeds, udo_package_path=path)
    for name, wanted in api.run(api.convert(source), feeds).items():
        np.testing.assert_allclose(found[name], wanted, atol=1e-5)
