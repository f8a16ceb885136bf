"""Caches of real networks: the vendor finds and runs them all."""

import re
import subprocess
import sys

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel
from tests.support.htp_models import cnn, needs_htp
from tests.vendor.cached import SEVEN, differing, misfits
from xdlc.ir import Model
from xdlc.targets import find_soc

pytestmark = [pytest.mark.vendor, needs_htp]
NETWORKS = ("mlperf_resnet8", "mtcnn_pnet")  # bench/caches.py goes through all of them
INPUTS = 3


@pytest.fixture(scope="module", params=NETWORKS)
def prepared(request, corpus, tmp_path_factory):
    """Return the paths of two quantized networks, the first with all caches."""
    folder = tmp_path_factory.mktemp("caches")
    source = CorpusModel(corpus, request.param)
    xdlc.quantize(source.convert(), source.samples(2)).save(folder / "q.dlc")
    xdlc.prepare(folder / "q.dlc", SEVEN).save(folder / "p.dlc")
    xdlc.prepare(folder / "q.dlc", [*SEVEN[::-1], SEVEN[0].lower()], jobs=3).save(folder / "again.dlc")
    return folder


@pytest.mark.corpus
def test_vendor_finds_a_cache_for_each_soc(prepared, vendor_check):
    model = xdlc.load(prepared / "p.dlc")
    assert misfits(vendor_check("caches", prepared / "p.dlc"), model) == []


@pytest.mark.corpus
def test_bytes_do_not_depend_on_order_or_run(prepared):
    assert (prepared / "p.dlc").read_bytes() == (prepared / "again.dlc").read_bytes()


@pytest.mark.corpus
@pytest.mark.parametrize("soc", SEVEN)
def test_stored_cache_computes_what_the_composed_graph_does(prepared, soc):
    model = xdlc.load(prepared / "p.dlc")
    assert list(differing(prepared / "p.dlc", model, soc, INPUTS)) == []


def test_several_graphs_are_in_each_cache(tmp_path, vendor_check):
    first, second = cnn(quantized=True).main, cnn(quantized=True).main
    second.name = "other"
    path = tmp_path / "p.dlc"
    socs = ("SM8350", "SM8650")
    xdlc.prepare(Model({"cnn": first, "other": second}), socs).save(path)
    model = xdlc.load(path)
    assert list(model.graphs) == ["cnn", "other"]
    assert misfits(vendor_check("caches", path), model, socs) == []
    for soc in socs:
        assert list(differing(path, model, soc, 1)) == []


FOUND = re.compile(r"Found exact match record htp\.cache\.sm8350\.0 with backend record identifier (\w+)")
LOAD = """
import os, sys
from pathlib import Path
from xdlc.runtime.htp.backend import Htp
Htp(30, binary=Path(sys.argv[1]).read_bytes())
os._exit(0)
"""


@pytest.mark.corpus
def test_vendors_runtime_picks_the_record_of_its_device_and_loads_it(prepared):
    """The library reads a DLC as a binary, and this machine as an SM8350."""
    words = [sys.executable, "-c", LOAD, str(prepared / "p.dlc")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert FOUND.findall(done.stdout + done.stderr) == ["HTP_V68_SM8350_4MB"]


def test_shared_weights_are_laid_out_as_the_vendor_does(tmp_path, vendor_check):
    path, alone = tmp_path / "p.dlc", tmp_path / "alone.dlc"
    xdlc.prepare(cnn(quantized=True), SEVEN, share_weights=True).save(path)
    model = xdlc.load(path)
    assert misfits(vendor_check("caches", path), model) == []
    soc = "SM8650"
    cnn(quantized=True).save(tmp_path / "m.dlc")
    words = [sys.executable, "-c", WRITE, str(tmp_path / "m.dlc"), str(find_soc(soc).id), str(alone)]
    subprocess.run(words, timeout=120, check=True, capture_output=True)
    theirs = xdlc.load(alone)
    for name, data in theirs.records.items():
        assert np.array_equal(data.numpy(), model.records[name].numpy()), name
    ours = {item["parentRecordName"]: item["childRecordNames"] for item in model.metadata["relations"]}
    for item in theirs.metadata["relations"]:
        assert ours[item["parentRecordName"]] == item["childRecordNames"]
    (described,) = theirs.metadata["cacheList"]
    (own,) = (item for item in model.metadata["cacheList"] if item["socModel"] == find_soc(soc).id)
    assert {**own, "timestamp": ""} == {**described, "timestamp": ""}


WRITE = """
import os, sys
from pathlib import Path
from xdlc.container import load
from xdlc.runtime.htp.backend import Htp
from xdlc.runtime.htp.options import CompileOptions
model, soc, path = sys.argv[1:]
htp = Htp(int(soc), options=CompileOptions(share_weights=True))
for graph in load(model).graphs.values():
    htp.compile(graph, CompileOptions(8, 2))
htp.shared_cache(Path(path))
os._exit(0)
"""
