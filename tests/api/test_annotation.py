from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import xdlc
from xdlc.api import annotate
from xdlc.errors import UsageError

ENCODINGS = {
    "version": "0.6.1",
    "activation_encodings": {"x": [{"bitwidth": 8, "min": -3.0, "max": 3.0}]},
    "param_encodings": {},
}


@pytest.fixture
def path(models: Any) -> Path:
    made: Path = models.save(models.cnn())
    return made


def test_encodings_are_those_of_the_quantizer(path: Path, tmp_path: Path) -> None:
    feeds = [{"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}]
    annotate(xdlc.convert(path), quantization_overrides=ENCODINGS).save(tmp_path / "net.dlc")
    stored = xdlc.quantize(tmp_path / "net.dlc", feeds)
    given = xdlc.quantize(xdlc.convert(path), feeds, quantization_overrides=ENCODINGS)
    assert stored.main.tensors["x"].encoding == given.main.tensors["x"].encoding
    assert stored.main.tensors["x"].encoding.offset == -127
    with pytest.raises(UsageError, match="none"):
        annotate(xdlc.convert(path), quantization_overrides=ENCODINGS | {"param_encodings": {"none": [{}]}})


def test_stripped_encodings(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]> main (float[1,4] x) => (float[1,4] y)
        <float s = {0.5}, uint8 z = {128}> {
            q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Relu(d) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    model = xdlc.convert(tmp_path / "net.onnx")
    assert any(tensor.encoding is not None for tensor in model.main.tensors.values())
    made = annotate(model, strip_encodings=True)
    tensors = made.main.tensors.values()
    assert all(tensor.encoding is None and tensor.dtype.is_float for tensor in tensors)
    feeds = {"x": np.array([[-1, 0.3, 0.8, 1]], np.float32)}
    np.testing.assert_array_equal(xdlc.run(made, feeds)["y"], np.maximum(feeds["x"], 0))


def test_floats_outside_of_a_quantized_model(path: Path) -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    model = xdlc.quantize(xdlc.convert(path), [feeds])
    expected = xdlc.run(model, feeds)["y"]
    assert model.main.inputs[0].dtype.is_fixed
    with pytest.raises(UsageError, match="preserve_io_datatype names 'z'"):
        annotate(model, preserve_io_datatype=["z"])
    annotate(model, preserve_io_datatype=["x"])
    assert model.main.inputs[0].dtype.name == "float32"
    assert model.main.outputs[0].dtype.is_fixed
    annotate(model, preserve_io_datatype=[])
    assert model.main.outputs[0].dtype.name == "float32"
    np.testing.assert_array_equal(xdlc.run(model, feeds)["y"], expected)


def test_floats_of_16_bits(path: Path, tmp_path: Path) -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    annotate(xdlc.convert(path), float_bitwidth=16).save(tmp_path / "net.dlc")
    model = xdlc.load(tmp_path / "net.dlc")
    types = {tensor.dtype.name for op in model.main.ops for tensor in op.inputs if tensor is not None}
    assert {tensor.dtype.name for tensor in (*model.main.inputs, *model.main.outputs)} == {"float32"}
    assert "float16" in types
    np.testing.assert_allclose(
        xdlc.run(model, feeds)["y"], xdlc.run(xdlc.convert(path), feeds)["y"], rtol=2e-2, atol=2e-2
    )


def test_inputs_that_nothing_reads(tmp_path: Path) -> None:
    head = '<ir_version: 9, opset_import: ["" : 17]>'
    text = f"{head} main (float[2] x, float[3] z) => (float[2] y) {{ y = Relu(x) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    model = annotate(xdlc.convert(tmp_path / "net.onnx"), remove_unused_inputs=True)
    model.save(tmp_path / "net.dlc")
    assert [tensor.name for tensor in xdlc.load(tmp_path / "net.dlc").main.inputs] == ["x"]
    assert xdlc.run(model, {"x": np.ones(2, np.float32)})["y"].tolist() == [1, 1]


def test_texts(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ours")
    model = xdlc.convert(path)
    model.metadata["history"] = [{"tool": "other"}]
    annotate(model, model_version="1.2", copyright_file=tmp_path / "text")
    model.save(tmp_path / "net.dlc")
    args = xdlc.load(tmp_path / "net.dlc").metadata["history"][-1]["args"]
    assert (args["model_version"], args["model_copyright"]) == ("1.2", "ours")
    with pytest.raises(UsageError, match="64 bytes"):
        annotate(model, model_version="x" * 65)
    with pytest.raises(UsageError, match="32, 16"):
        annotate(model, float_bitwidth=8)
    with pytest.raises(UsageError, match="the string 'x'"):
        annotate(model, preserve_io_datatype="x")
    with pytest.raises(UsageError, match="of type PosixPath"):
        annotate(path)  # type: ignore[arg-type]
