"""Real models that HTP supports in part: cached partitions run as their ops."""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel
from tests.support.htp_models import needs_htp
from tests.support.htp_parts import in_segments, parts_of
from xdlc.prepare.htp import prepare_all
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.process import WorkerSession
from xdlc.runtime.htp.session import emulated_partitions

pytestmark = [pytest.mark.corpus, pytest.mark.vendor, needs_htp]
RECORD = "htp.cache.sm8650.0"


@pytest.mark.parametrize(
    ("name", "quantized", "refused"), [("ddddocr_crnn_old", False, {"DynamicQuantizeLSTM"})]
)
def test_parts_are_accepted_and_run_as_composed(name, quantized, refused, corpus, tmp_path, vendor_check):
    source = CorpusModel(corpus, name)
    model = source.convert()
    if quantized:
        model = xdlc.quantize(model, source.samples(2))
    prepared = prepare_all(model, ["sm8650"], partition=True)
    assert prepared.problems == ()
    (plan,) = prepared.plans
    assert refused <= {left.type for left in plan.left}
    path = tmp_path / "p.dlc"
    prepared.model.save(path)
    answer = vendor_check("caches", path)
    assert answer["ok"], answer["reason"]
    assert [cache["record"] for cache in answer["caches"]] == [RECORD]
    model = xdlc.load(path)
    partitions = parts_of(model, RECORD)
    assert list(partitions) == [partition.name for partition in plan.partitions]
    with WorkerSession.of_cache(model.records[RECORD]) as emulation:
        emulated = emulated_partitions(model, {model.main.name: partitions}, emulation)
        found = CpuSession(model, accelerator=emulated).run(source.feeds, native=True)
    expected = in_segments(model, partitions, source.feeds)
    assert list(found) == [tensor.name for tensor in model.main.outputs]
    for key, array in found.items():
        assert np.array_equal(array, expected[key], equal_nan=array.dtype.kind == "f"), key
