"""Extents that follow from others where an operator's inference lacks them."""

from __future__ import annotations

import shlex

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.htp_models import needs_htp
from xdlc.cli.ports import contract
from xdlc.cli.tools.onnx_to_dlc import main as onnx_to_dlc
from xdlc.errors import XdlcError, each_problem
from xdlc.runtime.dynamic_dims import notice


def test_an_extent_behind_a_computed_shape_is_stated(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 7, opset_import: ["" : 11]>
        g (float[n,6] x) => (float y) <int64 zero = {0}, int64[1] two = {2}, int64[1] three = {3}> {
            s = Shape(x)
            n = Gather(s, zero)
            m = Unsqueeze<axes=[0]>(n)
            shape = Concat<axis=0>(m, two, three)
            y = Reshape(x, shape)
        }""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "m.onnx")
    converted = xdlc.convert(tmp_path / "m.onnx")
    (output,) = converted.main.outputs
    assert (output.shape, output.dynamic_axes) == ((1, 2, 3), (0,))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(xdlc.run(converted, {"x": x})["y"], x.reshape(4, 2, 3))


TWO = """<ir_version: 7, opset_import: ["" : 17]>
    g (float[batch,3,height,width] x, float[batch] gain) => (float y)
        <float[4,3,3,3] w = {WEIGHTS}, int64[4] to = {-1,1,1,1}> {
        c = Conv(x, w)
        r = Reshape(gain, to)
        y = Mul(c, r)
    }""".replace("WEIGHTS", ",".join("1" * 108))


@pytest.fixture
def opened(tmp_path):
    """Return the path of a model of two inputs with symbols."""
    model = onnx.parser.parse_model(TWO)
    model.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(1, ["batch", 4, "?", None]))
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_symbols_go_with_the_model(opened, tmp_path):
    said = []
    model = xdlc.convert(opened, notify=said.append)
    xdlc.save(model, tmp_path / "m.dlc")
    loaded = xdlc.load(tmp_path / "m.dlc")
    symbols = {"x": ["batch", None, "height", "width"], "gain": ["batch"], "y": ["batch", None, None, None]}
    assert model.metadata["symbols"] == loaded.metadata["symbols"] == symbols
    (line,) = said
    assert "(x: batch x 3 x height x width, gain: batch) keep 2 of 3 ops on the host" in line
    assert line == notice(loaded)
    lines = list(contract(loaded))
    assert any("batch x 3 x height x width" in line for line in lines)
    quantized = []
    samples = [{"x": np.ones((2, 3, 5, 4), np.float32), "gain": np.ones(2, np.float32)}]
    xdlc.quantize(loaded, samples, notify=quantized.append)
    assert line in quantized


def test_the_flags_of_the_notice_bind(opened, tmp_path):
    tool = ["-i", str(opened), "-o", str(tmp_path / "m.dlc")]
    result = CliRunner().invoke(onnx_to_dlc, tool)
    flags = shlex.split(result.stderr.rpartition(" with ")[2])
    assert flags[::3] == ["--define-symbol"] * 3
    bound = CliRunner().invoke(onnx_to_dlc, [*tool, *flags])
    assert (bound.exit_code, bound.stderr) == (0, "")
    assert [tensor.shape for tensor in xdlc.load(tmp_path / "m.dlc").main.inputs] == [(1, 3, 480, 640), (1,)]


def test_a_single_input_gets_a_shape(tmp_path):
    text = TWO.replace(", float[batch] gain", "").replace("Reshape(gain, to)", "Identity(c)")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert (notice(xdlc.convert(tmp_path / "m.onnx")) or "").endswith(" input_dims={'x': [1, 3, 480, 640]}")
    report = xdlc.check(tmp_path / "m.onnx", target="sm8650")
    assert [(each.node, each.op) for each in report.problems] == [("x", "input")]
    assert report.notices == ()


@needs_htp
def test_preparing_has_one_problem_with_open_dimensions(opened):
    model = xdlc.convert(opened)
    for partition in (False, True):
        with pytest.raises(XdlcError, match="dynamic dimensions") as found:
            xdlc.prepare(model, ["sm8650"], partition=partition)
        assert len(each_problem(found.value)) == 1
