"""Quantized TFLite networks: fixed point, compiled by the vendor, accurate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.htp_models import needs_htp
from xdlc import ir

pytestmark = pytest.mark.corpus
NETWORKS = {
    "coral_deeplabv3_mnv2_dm05_pascal_quant/deeplabv3_mnv2_dm05_pascal_quant": 1,
    "coral_mobilenet_v1_0.25_128_quant/mobilenet_v1_0.25_128_quant": 0,
    "litert_small/conv_fc_mnist_srq_a8w8/conv_fc_mnist_srq_a8w8": 0,
    "mlperf_kws/kws_ref_model": 0,
    "mlperf_resnet8/pretrainedResnet_quant": 0,
    "mlperf_strm_ww/str_ww_ref_model": 0,
    "tflm_micro_speech_quantized/micro_speech_quantized": 0,
    "tflm_person_detect/person_detect": 0,
}
"""Networks whose inputs and outputs are integers, with the number of QUANTIZE between different scales."""
SETS = {
    "kws01/kws01": ("mlperf_kws/kws_ref_model", 537, 1),
    "cifar10/cifar10": ("mlperf_resnet8/pretrainedResnet_quant", 222, 2),
}
"""Network of each labelled set, LiteRT's number of right answers, and by how many its own kernels differ."""


def _model(corpus: Path, name: str) -> ir.Model:
    path = corpus / "tflite" / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return xdlc.convert(path, notify=lambda _: None)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_operation_is_one_on_fixed_point(corpus: Path, name: str) -> None:
    graph = _model(corpus, name).main
    ends = {*graph.inputs, *graph.outputs}
    inside = [op for op in graph.ops if not ends & {*op.inputs, *op.outputs}]
    assert {op.package for op in graph.ops} == {ir.NATIVE_PACKAGE}
    assert not any(tensor.dtype.is_float for tensor in graph.tensors.values())
    assert not any(op.type in ("Quantize", "Dequantize") for op in graph.ops)
    assert sum(op.type == "Convert" for op in inside) == NETWORKS[name]


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("soc", ["sm8550", "sm8650"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_library_compiles_it(
    corpus: Path, tmp_path: Path, vendor_check, name: str, soc: str
) -> None:
    _model(corpus, name).save(tmp_path / "m.dlc")
    answer = vendor_check("compile", tmp_path / "m.dlc", "--soc", soc, "--out", tmp_path / "c.bin")
    assert answer["ok"], answer["reason"]


def _right(corpus: Path, name: str, runtime: str, count: int | None = None) -> tuple[int, int]:
    """Return the right answers and the number of samples."""
    with np.load(corpus / "datasets" / f"{name}.npz") as held:
        samples, labels = held["x"][:count], held["y"][:count]
    if samples.dtype == np.uint8:
        samples = (samples.astype(np.int16) - 128).astype(np.int8)
    model = _model(corpus, SETS[name][0])
    (fed,), (read,) = model.main.inputs, model.main.outputs
    with xdlc.session(model, runtime) as session:
        found = [session.run({fed.name: sample[None]}, native=True)[read.name] for sample in samples]
    assert found[0].dtype == np.int8
    return sum(int(each.argmax()) == label for each, label in zip(found, labels, strict=True)), len(labels)


@pytest.mark.parametrize("name", SETS)
def test_as_many_right_answers_as_with_litert(corpus: Path, name: str) -> None:
    _, expected, spread = SETS[name]
    assert abs(_right(corpus, name, "cpu")[0] - expected) <= spread


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("name", SETS)
def test_as_many_right_answers_on_the_emulation_as_on_the_host(corpus: Path, name: str) -> None:
    found, count = _right(corpus, name, "htp", 100)
    assert count == 100
    assert abs(found - _right(corpus, name, "cpu", 100)[0]) <= SETS[name][2]
