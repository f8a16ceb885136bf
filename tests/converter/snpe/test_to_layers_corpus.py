"""Networks of the corpus as layers of SNPE 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.corpus_models import CorpusModel
from tests.section_models import feeds_of
from xdlc import api
from xdlc.container.aip_record import parse_aip
from xdlc.converter.snpe import foreign, to_layers, translate
from xdlc.ir.equality import differences
from xdlc.prepare.hta import prepare
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.sections import SectionSession

pytestmark = pytest.mark.corpus

DEEPLAB = "dlc/mlperf_deeplabv3_v0_7/deeplabv3_quantized_hta_enabled.dlc"
BEST9 = "dlc/best9_yolo_quantized_512/9_best_quantized_512.dlc"


def assert_same(model: xdlc.Model, held: xdlc.Model, feeds: dict[str, np.ndarray]) -> None:
    expected = CpuSession(model).run(feeds, native=True)
    for name, array in CpuSession(translate(held)).run(feeds, native=True).items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("name", ["yolox_nano", "mlperf_resnet8"])
def test_quantized_networks_compute_the_same(corpus, tmp_path, name):
    source = CorpusModel(corpus, name)
    model = xdlc.quantize(source.convert(), [source.feeds])
    api.save(model, tmp_path / "a.dlc", "3")
    held = xdlc.load(tmp_path / "a.dlc")
    types = {op.type for op in foreign(held)}
    assert types <= {
        f"qti.aisw::{type}"
        for type in ("Transpose", "ElementWiseBinary", "ResizeNearestNeighbor", "FullyConnected", "Softmax")
    }
    assert_same(model, held, source.feeds)


@pytest.mark.parametrize("file", [DEEPLAB, BEST9])
def test_networks_of_snpe_come_back_as_they_were(corpus, tmp_path, file):
    layers = xdlc.load(corpus / file)
    model = translate(layers)
    back = to_layers(model, strict=True)
    assert [(op.name, op.param("layer_id")) for op in back.main.ops] == [
        (op.name, op.param("layer_id")) for op in layers.main.ops
    ]
    back.save(tmp_path / "a.dlc", version="3")
    held = xdlc.load(tmp_path / "a.dlc")
    assert differences(translate(held).main, model.main) == []
    assert_same(model, held, feeds_of(model))


def test_sections_of_deeplab_run_from_the_file(corpus, tmp_path):
    model = api.executable(corpus / DEEPLAB)
    prepared = prepare(model, "1-82,96-107,109-118")  # as SNPE divides it
    assert prepared.problems == ()
    path = Path(tmp_path / "a.dlc")
    api.save(prepared.model, path, "3")
    held = xdlc.load(path)
    record = parse_aip(held.records["aip.metadata0"].numpy().tobytes(), where="record")
    assert [(one.engine.name, one.first, one.last) for one in record.sections] == [
        ("HTA", 0, 82),
        ("HNN", 83, 95),
        ("HTA", 96, 107),
        ("HNN", 108, 108),
        ("HTA", 109, 118),
        ("HNN", 119, 119),
    ]
    feeds = feeds_of(model)
    expected = SectionSession(prepared.model).run(feeds)
    found = SectionSession(translate(held), records=held.records).run(feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_network_quantized_at_its_source_rounds_as_it_did(corpus, tmp_path):
    source = CorpusModel(corpus, "mobilenet_v2_quant_nnstreamer")
    model = source.convert()
    prepared = prepare(model)
    api.save(prepared.model, tmp_path / "a.dlc", "3")
    held = xdlc.load(tmp_path / "a.dlc")
    assert_same(model, held, source.feeds)
    expected = SectionSession(prepared.model).run(source.feeds, native=True)
    found = SectionSession(translate(held), records=held.records).run(source.feeds, native=True)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
