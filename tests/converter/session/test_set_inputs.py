"""Inputs fixed to values: what follows from them folds, graphs inside included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import xdlc
from xdlc.cli.tools.onnx_to_dlc import main as onnx_to_dlc
from xdlc.errors import XdlcError, each_problem

# Both branches read inputs of the main graph; the condition follows from one of them.
BRANCHES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch,4] x, int64 rate, float[batch,4] gain, bool[2] flags) => (float[batch,4] y)
        <int64 slow = {8000}> {
        is_slow = Equal(rate, slow)
        flag = Cast<to=1>(flags)
        strength = ReduceSum<keepdims=0>(flag)
        scaled = Mul(x, gain)
        y = If(is_slow) <
            then_branch = a () => (float[batch,4] p) { p = Sub(scaled, strength) },
            else_branch = b () => (float[batch,4] q) {
                r = Cast<to=1>(rate)
                s = Mul(r, strength)
                q = Add(scaled, s)
            }
        >
    }"""
FLAGS = np.array([True, True])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return the path of the model."""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(BRANCHES), path)
    return path


def test_a_fixed_input_dissolves_branches(source: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "flags.npy", FLAGS)
    fixed = {"rate": 16000, "gain": 2, "flags": tmp_path / "flags.npy"}
    said: list[str] = []
    options = {"set_inputs": fixed, "define_symbol": {"batch": 3}}
    model = xdlc.convert(source, notify=said.append, **options)
    assert [tensor.name for tensor in model.main.inputs] == ["x"]
    assert [(op.package, op.type) for op in model.main.ops] == [("qti.aisw", "ElementWiseBinary")] * 2
    assert len(model.graphs) == 1
    assert [line.split("'")[1] for line in said] == ["rate", "gain", "flags"]
    args = model.metadata["history"][0]["args"]
    assert (args["set_input rate"], args["set_input flags"]) == ("16000", "[true, true]")
    fates = {name: reason for name, _, reason in model.metadata["nodes"]}
    assert fates[next(name for name in fates if "is_slow" in name)] == "its result is known while converting"
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    feeds = {"x": x, "rate": np.array(16000), "gain": np.full((3, 4), 2, np.float32), "flags": FLAGS}
    (expected,) = onnxruntime.InferenceSession(source).run(None, feeds)
    np.testing.assert_array_equal(xdlc.run(model, {"x": x})["y"], expected)
    report = xdlc.check(source, target="sm8650", **options)
    assert (report.problems, len(report.notices)) == ((), 3)


def test_the_tool_takes_it_with_other_flags(source: Path, tmp_path: Path) -> None:
    words = ["-i", source, "-o", tmp_path / "m.dlc", "-d", "gain", "2,4", "-d", "x", "2,4"]
    words += ["--set_input", "rate", "8000", "--set_input", "flags", "[1,0]", "--set_input", "gain", "0.5"]
    result = CliRunner().invoke(onnx_to_dlc, list(map(str, words)))
    assert result.exit_code == 0, result.output
    x = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(xdlc.run(tmp_path / "m.dlc", {"x": x})["y"], x * 0.5 - 1)
    again = CliRunner().invoke(onnx_to_dlc, [*map(str, words), "--set_input", "rate", "1"])
    assert again.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rat", 1, "rate"),
        ("rate", 1.5, "int64"),
        ("rate", 2**63, "int64"),
        ("flags", [2, 0], "bool"),
        ("gain", 1, "shape"),  # of an open dimension
        ("gain", "1e39", "float32"),
        ("rate", [1, 2], "shape"),
        ("flags", [True], "shape"),
        ("rate", "sixteen", "not numeric"),
        ("rate", "none.npy", "none.npy"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(source: Path, name: str, value: object, message: str) -> None:
    with pytest.raises(XdlcError, match=message) as found:
        xdlc.convert(source, set_inputs={name: value})
    assert len(each_problem(found.value)) == 1
    assert found.value.fix


def test_an_output_may_be_all_known(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] k) => (float[2] y, float[2] z) '
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text + "{ y = Neg(k)  z = Abs(x) }"), path)
    model = xdlc.convert(path, set_inputs={"k": [1, 2]})
    assert xdlc.run(model, {"x": np.zeros(2, np.float32)})["y"].tolist() == [-1, -2]
