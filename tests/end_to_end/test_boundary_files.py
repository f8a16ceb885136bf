"""Real networks with requests from files, against onnxruntime and numpy."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.end_to_end.test_boundary import LAST, NETWORKS, TOLERANCE
from tests.support.corpus_models import CorpusModel, relative_error

pytestmark = pytest.mark.corpus
CUSTOM = """
- IOName: {name}
  Layout: {{ Model: {model}, Custom: {custom} }}
  Datatype: {dtype}
  QuantParam: {{ Type: QNN_DEFINITION_DEFINED, Scale: 0.03125, Offset: {offset} }}
"""
CONFIG = """
Input Tensor Configuration:
  - Name: {name}
    Src Model Parameters: {{ DataType: float32, Layout: {model} }}
    Desired Model Parameters: {{ DataType: float16, Layout: {custom} }}
Output Tensor Configuration:
"""
OUTPUT = "  - Name: {}\n    Desired Model Parameters: {{ DataType: float16 }}\n"
CASES = {"custom uint8": ("uint8", -10), "custom int16": ("int16", 0), "config": ("float16", 0)}


def made(corpus, tmp_path, name, case):
    """Return the network, its DLC, what callers feed and what the network sees."""
    model = CorpusModel(corpus, name)
    (port, array), *_ = model.feeds.items()
    layouts = ("NHWC", "NCHW") if name in LAST else ("NCHW", "NHWC")
    dtype, offset = CASES[case]
    settings = dict(zip(("name", "model", "custom"), (port, *layouts), strict=True))
    path = tmp_path / "io.yaml"
    option = case.split()[0]
    if option == "custom":
        path.write_text(CUSTOM.format(dtype=dtype, offset=offset, **settings))
    else:
        outputs = map(OUTPUT.format, model.reference(model.feeds))
        path.write_text(CONFIG.format(**settings) + "".join(outputs))
    files = {"custom_io" if option == "custom" else "config": path}
    dlc = xdlc.convert(model.path, input_dims={port: array.shape}, **files)
    fed = np.random.default_rng(5).integers(0, 100, dlc.main.inputs[0].shape).astype(dtype)
    real = ((fed + float(offset)) * (0.03125 if option == "custom" else 1)).astype(np.float32)
    seen = np.moveaxis(real, 1, -1) if name in LAST else np.moveaxis(real, -1, 1)
    return model, dlc, {port: fed}, {port: seen}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NETWORKS)
def test_matches_onnxruntime(corpus, tmp_path, name, case):
    model, dlc, feeds, seen = made(corpus, tmp_path, name, case)
    results = xdlc.run(dlc, feeds)
    half = case == "config"
    for key, values in model.reference(seen).items():
        expected = values.astype(np.float16) if half else values
        limit = 1e-3 if half else TOLERANCE
        assert relative_error(results[key].astype(np.float32), expected.astype(np.float32)) <= limit


@pytest.mark.vendor
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["image_classifier32", "mlperf_resnet8"])
def test_htp_takes_it_and_computes_the_same(corpus, vendor_check, tmp_path, name, case):
    _, dlc, feeds, _ = made(corpus, tmp_path, name, case)
    dlc.save(tmp_path / "m.dlc")
    assert vendor_check("read", tmp_path / "m.dlc")["ok"]
    answer = vendor_check("compile", tmp_path / "m.dlc", "--soc", "SM8550", "--out", tmp_path / "m.bin")
    assert answer["ok"], answer["reason"]
    expected = xdlc.run(dlc, feeds)
    found = xdlc.run(dlc, feeds, runtime="htp", soc="sm8550")
    assert all(relative_error(found[key], values) <= 0.01 for key, values in expected.items())
