"""The vendor's own libraries open, validate, compile and execute what we write."""

import re

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CNNS, OTHERS, CorpusModel
from tests.support.vendor_compare import differences

pytestmark = [pytest.mark.corpus, pytest.mark.vendor]
QUANTIZED = ("mobilenet_v2_quant_nnstreamer",)
SOCS = ("SM8550", "SM8650", "SM8750")
STEPS, SHARE, INPUTS = 2, 0.99, 3
# These fall short of SHARE: single ops agree within a step (test_single_ops), but HTP rounds one in a
# thousand products otherwise, and those that it computes as one with what follows; these networks amplify
# that.  The figures keep it from getting worse; of ppocr_cls there are six outputs.
BELOW = {
    "yolox_nano": 0.70,
    "mtcnn_pnet": 0.90,
    "mtcnn_rnet": 0.55,
    "ppocr_cls_v2": 0.30,
    "oww_embedding_model": 0.98,
    "mlperf_resnet8": 0.85,
}


@pytest.fixture(scope="module")
def written(corpus, tmp_path_factory):
    """Convert and quantize each model once: (source, float, quantized) by name."""
    folder = tmp_path_factory.mktemp("dlc")
    files = {}

    def write(name):
        if name not in files:
            model = CorpusModel(corpus, name)
            float_model = model.convert()
            paths = folder / f"{name}.dlc", folder / f"{name}_quantized.dlc"
            float_model.save(paths[0])
            if name not in QUANTIZED:
                xdlc.quantize(float_model, model.samples(4)).save(paths[1])
            files[name] = (model, *paths[: 1 + (name not in QUANTIZED)])
        return files[name]

    return write


@pytest.mark.parametrize("name", [*CNNS, *OTHERS])
def test_vendor_reads_what_we_meant(written, vendor_check, name):
    for path in written(name)[1:]:
        answer = vendor_check("read", path)
        assert answer["ok"], answer["reason"]
        assert differences(xdlc.load(path).main, answer["graphs"][0]) == []


@pytest.mark.parametrize("name", CNNS)
def test_htp_accepts_every_op_of_the_float_networks(written, vendor_check, name):
    answer = vendor_check("validate", written(name)[1], "--soc", "SM8650")
    assert answer["ok"], answer["reason"]


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("name", CNNS)
def test_htp_compiles(written, vendor_check, tmp_path, name, soc):
    for path in written(name)[1:]:
        answer = vendor_check("compile", path, "--soc", soc, "--out", tmp_path / "context.bin")
        assert answer["ok"], answer["reason"]


@pytest.mark.parametrize("name", CNNS)
def test_emulation_agrees_with_our_quantized_run(written, vendor_check, tmp_path, name):
    model, _, path = written(name)
    quantized = xdlc.load(path)
    within, count = 0, 0
    for feeds in (model.feeds, *model.samples(INPUTS - 1, seed=5)):
        np.savez(tmp_path / "in.npz", **{re.sub(r"\W", "_", key): array for key, array in feeds.items()})
        arguments = ("--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz", "--float")
        answer = vendor_check("run", path, "--soc", "SM8650", *arguments)
        assert answer["ok"], answer["reason"]
        ours = xdlc.run(quantized, feeds)
        with np.load(tmp_path / "out.npz") as theirs:
            for tensor, shown in zip(quantized.main.outputs, answer["outputs"], strict=True):
                steps = np.abs(theirs[shown["name"]] - ours[tensor.name]) / tensor.encoding.scale
                within += np.count_nonzero(steps <= STEPS + 0.01)
                count += steps.size
    assert within / count >= BELOW.get(name, SHARE)


def test_vendor_finds_the_caches_we_store(written, vendor_check, tmp_path):
    _, _, path = written("mlperf_resnet8")
    prepared = [tmp_path / f"prepared{index}.dlc" for index in range(2)]
    for target in prepared:
        xdlc.prepare(path, socs=["sm8550", "sm8650"]).save(target)
    answer = vendor_check("caches", prepared[0])
    assert answer["ok"], answer["reason"]
    assert sorted(cache["soc_id"] for cache in answer["caches"]) == [43, 57]
    assert prepared[0].read_bytes() == prepared[1].read_bytes()
    assert differences(xdlc.load(prepared[0]).main, vendor_check("read", prepared[0])["graphs"][0]) == []
