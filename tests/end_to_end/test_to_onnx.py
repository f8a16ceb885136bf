"""Real containers by way of ``xdlc-to-onnx``: they run, or the reason is true."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import xdlc
from tests.support.corpus_models import CNNS, CorpusModel
from tests.support.differences import differences

pytestmark = pytest.mark.corpus
# bench/roundtrip.py measures the whole corpus and names the causes where a graph differs.
ROUND_TRIPS = [name for name in CNNS if name not in ("silero_encoder_v5",)]


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(path, *inputs):
    opened = session(path)
    return opened.run(None, dict(zip((entry.name for entry in opened.get_inputs()), inputs, strict=True)))


def dlc(corpus, name):
    (path,) = (corpus / "dlc" / name).glob("*.dlc")
    return path


@pytest.mark.parametrize("name", ["nns_add2_float_v1", "nns_add2_float_v2"])
def test_two_is_added(corpus, tmp_path, name):
    (path,) = xdlc.to_onnx(dlc(corpus, name), tmp_path / "m.onnx")
    (found,) = run(path, np.array([1.25], np.float32))
    np.testing.assert_array_equal(found, [3.25])


def test_two_is_added_in_steps(corpus, tmp_path):
    model = xdlc.load(dlc(corpus, "nns_add2_uint8_v2"))
    (path,) = xdlc.to_onnx(model, tmp_path / "m.onnx")
    (source,), (target,) = model.main.inputs, model.main.outputs
    value = np.array([(17 + source.encoding.offset) * source.encoding.scale], np.float32)
    (found,) = run(path, value)
    np.testing.assert_allclose(found, value + 2, atol=target.encoding.scale)


@pytest.mark.parametrize(("name", "step"), [("ort_test_abs", 0.0), ("ort_test_abs_q", 0.25)])
def test_absolute_values(corpus, tmp_path, name, step):
    model = xdlc.load(dlc(corpus, name))
    (path,) = xdlc.to_onnx(model, tmp_path / "m.onnx")
    x = np.random.default_rng(3).uniform(-4, 4, model.main.inputs[0].shape).astype(np.float32)
    (found,) = run(path, x)
    np.testing.assert_allclose(found, abs(x), atol=step)


def test_equal_parts(corpus, tmp_path):
    (path,) = xdlc.to_onnx(dlc(corpus, "ort_test_split_equal_parts_2d"), tmp_path / "m.onnx")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for found, expected in zip(run(path, x), np.split(x, 2, axis=1), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["best9_yolo_quantized_512", "mlperf_deeplabv3_v0_7"])
def test_layers_keep_to_the_ranges_that_they_were_calibrated_to(corpus, name):
    """A layer that is read wrongly would leave the range the quantizer saw."""
    model = xdlc.load(dlc(corpus, name))
    graph = xdlc.api.executable(model).main
    (source,) = graph.inputs
    image = np.random.default_rng(1).uniform(0, 255, (1, 16, 16, source.shape[-1])).astype(np.float32)
    image = image.repeat(32, axis=1).repeat(32, axis=2)
    feeds = {source.name: (image + source.encoding.offset) * source.encoding.scale}
    seen = [tensor for tensor in graph.tensors.values() if tensor.producer and tensor.encoding]
    from xdlc.runtime.cpu import CpuSession

    values = CpuSession(graph, quantized=False, outputs=[tensor.name for tensor in seen]).run(feeds)
    inside = []
    for tensor in seen:
        low, high = (stored + tensor.encoding.offset for stored in (0, 255))
        found = values[tensor.name] / tensor.encoding.scale
        inside.append(np.mean((found >= low - 1) & (found <= high + 1)))
    assert np.mean(inside) > 0.98


def test_every_container_runs_or_is_refused(corpus, tmp_path):
    """onnxruntime accepts each written file, without an engine error."""
    refused = {}
    for path in sorted((corpus / "dlc").rglob("*.dlc")):
        try:
            (target, *_) = xdlc.to_onnx(path, tmp_path / "m.onnx")
        except xdlc.XdlcError as error:
            refused[path.stem] = str(error)
            continue
        onnx.checker.check_model(target, full_check=True)
        session(target)
    assert refused == {}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_the_same_graph_comes_back(corpus, tmp_path, name):
    model = CorpusModel(corpus, name)
    model.convert().save(tmp_path / "first.dlc")
    first = xdlc.load(tmp_path / "first.dlc").main
    xdlc.to_onnx(tmp_path / "first.dlc", tmp_path / "m.onnx")
    xdlc.convert(tmp_path / "m.onnx").save(tmp_path / "second.dlc")
    assert differences(first, xdlc.load(tmp_path / "second.dlc").main, ["origins", "reasons"]) == []
