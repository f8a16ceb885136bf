"""Real networks section by section give what they give as a whole."""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel
from xdlc import api
from xdlc.container.aip_record import Engine
from xdlc.prepare import hta
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.sections import SectionSession

pytestmark = pytest.mark.corpus
HTA = Engine.HTA


def yolox(corpus):
    source = CorpusModel(corpus, "yolox_nano")
    rng = np.random.default_rng(0)
    samples = [
        {name: rng.uniform(0, 255, array.shape).astype(np.float32) for name, array in source.feeds.items()}
        for _ in range(2)
    ]
    return xdlc.quantize(source.convert(), samples)


def mobilenet(corpus):
    return CorpusModel(corpus, "mobilenet_v2_quant_nnstreamer").convert()


def deeplab(corpus):
    (path,) = (corpus / "dlc" / "mlperf_deeplabv3_v0_7").glob("*.dlc")
    return api.executable(path)


def feeds_of(model):
    rng = np.random.default_rng(1)
    return {tensor.name: rng.integers(0, 256, tensor.shape).astype(np.uint8) for tensor in model.main.inputs}


@pytest.mark.parametrize(
    ("network", "least", "manual"),
    [
        # Some borders part a convolution from what follows it, or a product from its sigmoid.
        (yolox, 0.9, ("9-50,51-200", "10-10", "12-12,20-21,101-103,150-366")),
        (mobilenet, 0.9, ("1-30", "2-2,5-5,60-63")),
        (deeplab, 0.9, ("0-82,96-107,109-118", "3-3,60-70")),
    ],
)
def test_sections_give_what_the_network_gives(corpus, network, least, manual):
    model = network(corpus)
    feeds = feeds_of(model)
    expected = CpuSession(model).run(feeds, native=True)
    for partitions in (None, *manual):
        prepared = hta.prepare(model, partitions)
        assert prepared.problems == ()
        on_hta = sum(
            section.last - section.first + 1 for section in prepared.sections if section.engine is HTA
        )
        if partitions is None:
            assert on_hta >= least * len(model.main)
            assert len(prepared.sections) <= 3
        else:
            assert sum(section.engine is HTA for section in prepared.sections) == partitions.count("-")
        found = SectionSession(prepared.model).run(feeds, native=True)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{partitions}: {name}")


def test_the_vendors_sections_run_on_the_cpu(corpus):
    (path,) = (corpus / "dlc" / "mlperf_deeplabv3_v0_7").glob("*.dlc")
    session = SectionSession(api.executable(path), records=api.load(path).records)
    (notice,) = session.notices
    assert notice.startswith("layers 0-82, 96-107, 109-118 have the vendor's HTA code")
    model = api.executable(path)
    feeds = feeds_of(model)
    np.testing.assert_array_equal(session.run(feeds)["ArgMax:0"], CpuSession(model).run(feeds)["ArgMax:0"])
