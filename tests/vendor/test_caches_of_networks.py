"""Caches of real networks: the vendor finds them all, and they compute what the composed graph does."""

from __future__ import annotations

import pytest

import xdlc
from tests.corpus_models import CorpusModel
from tests.htp_models import cnn, needs_htp
from tests.vendor.cached import SEVEN, differing, misfits
from xdlc.ir import Model

pytestmark = [pytest.mark.vendor, needs_htp]
NETWORKS = ("mlperf_resnet8", "mtcnn_pnet")  # bench/caches.py goes through all of them
INPUTS = 3


@pytest.fixture(scope="module", params=NETWORKS)
def prepared(request, corpus, tmp_path_factory):
    """Return the path of a quantized network with caches for all SoCs, and of a second one made otherwise."""
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
