"""Real TensorFlow models: the DLC from disk outputs what TensorFlow outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import relative_error

pytestmark = pytest.mark.corpus
TOLERANCE = 1e-4
MODELS = {
    "tensorflow/cifar_frozen_mlnet/frozen_model.pb": {},
    "tensorflow/gru_frozen/frozen.pb": {"set_inputs": {"keep_prob": 1.0}},
    "tensorflow/mnist_nns/mnist.pb": {},
    "tensorflow/model_matmul_mlnet/frozen_saved_model.pb": {},
    "tensorflow_savedmodel/basic_pitch_nmp": {},
    "tensorflow_savedmodel/mlnet_mnist_lr_model": {},
    "tensorflow_savedmodel/mlperf_kws_ref": {},
    "tensorflow_savedmodel/serving_saved_model_half_plus_two_cpu": {},
}
"""Path and options of the models that TensorFlow runs; shapes are those of the reference."""
FACES = "tensorflow/opencv_face_detector_uint8/opencv_face_detector_uint8.pb"
SNIPS = "tensorflow/hey_snips_3/hey_snips_3.pb"


def reference(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return inputs, by the names of their nodes, and results."""
    file = path / "saved_model.pb.tfref.npz" if path.is_dir() else path.with_name(path.name + ".tfref.npz")
    with np.load(file) as held:
        arrays = {key: held[key] for key in held.files}
    inputs = {key[4:].removesuffix(":0"): array for key, array in arrays.items() if key.startswith("in::")}
    return inputs, {key[5:]: array for key, array in arrays.items() if key.startswith("out::")}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("bound", [True, False])
def test_matches_tensorflow(corpus: Path, tmp_path: Path, name: str, bound: bool) -> None:
    feeds, expected = reference(corpus / name)
    options = dict(MODELS[name])
    for fixed in options.get("set_inputs", {}):
        del feeds[fixed]
    if bound or "gru" in name:
        options["input_dims"] = {key: array.shape for key, array in feeds.items()}
    xdlc.convert(corpus / name, notify=lambda _: None, **options).save(tmp_path / "m.dlc")
    found = xdlc.run(xdlc.load(tmp_path / "m.dlc"), feeds)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].shape == values.shape
        assert relative_error(found[key], values) <= TOLERANCE


def test_ranges_that_are_almost_empty(corpus: Path) -> None:
    """TensorFlow flushes the range of six biases to zero: most results are NaN."""
    feeds, expected = reference(corpus / FACES)
    dims = {key: array.shape for key, array in feeds.items()}
    found = xdlc.run(xdlc.convert(corpus / FACES, dims, notify=lambda _: None), feeds)
    assert {key: array.shape for key, array in found.items()} == {
        key: array.shape for key, array in expected.items()
    }
    assert all(np.isfinite(array).all() for array in found.values())


def test_an_input_of_unknown_rank_takes_the_shape_that_is_given(corpus: Path) -> None:
    model = xdlc.convert(corpus / SNIPS, {"inputs": [120, 40]})
    assert [each.shape for each in model.main.outputs] == [(86, 5)]
