"""Real networks with other outputs, types and dims: the vendor compiles them."""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel
from tests.support.htp_models import needs_htp
from tests.vendor.cached import differing, misfits, stored
from xdlc.ir import ScaleOffset
from xdlc.ir.quantization import to_float
from xdlc.runtime.htp.process import WorkerSession

pytestmark = [pytest.mark.vendor, pytest.mark.corpus, needs_htp]
SOC = "SM8650"


@pytest.fixture(scope="module")
def network(corpus):
    source = CorpusModel(corpus, "mlperf_resnet8")
    return xdlc.quantize(source.convert(), source.samples(2))


def inner(model):
    """Return the name and the op of a quantized tensor near the input."""
    op = list(model.main.ops)[4]
    return op.outputs[0].name, op.name


@pytest.mark.parametrize(
    "options",
    [
        lambda model: {"set_output_tensors": [inner(model)[0]]},
        lambda model: {
            "set_output_layers": [inner(model)[1]],
            "set_output_tensors": [model.main.outputs[0].name],
        },
        lambda model: {"buffer_data_type": {model.main.inputs[0].name: "fixedPoint16"}},
        lambda model: {"input_dimensions": {model.main.inputs[0].name: (3, 32, 32, 3)}},
    ],
    ids=["an inner tensor", "an inner op too", "16-bit input", "a batch"],
)
def test_the_cache_is_of_the_edited_network(network, options, tmp_path, vendor_check):
    path = tmp_path / "p.dlc"
    xdlc.prepare(network, [SOC], **options(network)).save(path)
    model = xdlc.load(path)
    assert misfits(vendor_check("caches", path), model, [SOC]) == []
    assert list(differing(path, model, SOC, 2)) == []
    answer = vendor_check("compile", path, "--soc", SOC, "--out", tmp_path / "context.bin")
    assert answer["ok"], answer["reason"]


def test_other_outputs_are_what_the_whole_network_computes(network):
    name, result = inner(network)[0], network.main.outputs[0].name
    edited = xdlc.prepare(network, [SOC], set_output_tensors=[name, result])
    (held,) = (tensor for tensor in edited.main.outputs if tensor.name == name)
    assert held.encoding == network.main.tensors[name].encoding
    feeds = stored(edited.main, 0)
    with WorkerSession.of_cache(edited.records["htp.cache.sm8650.0"], soc=SOC) as cache:
        results = cache.run(feeds, native=True)
    on_cpu = xdlc.run(network, feeds, native=True, outputs=[name])
    assert results.keys() == on_cpu.keys()
    assert np.abs(results[name].astype(int) - on_cpu[name].astype(int)).max() <= 1
    whole = xdlc.prepare(network, [SOC])
    with WorkerSession.of_cache(whole.records["htp.cache.sm8650.0"], soc=SOC) as cache:
        np.testing.assert_array_equal(results[result], cache.run(feeds, native=True)[result])


def test_float_ports_give_what_quantized_ones_do(network):
    port, result = network.main.inputs[0], network.main.outputs[0]
    feeds = stored(network.main, 0)
    real = {port.name: to_float(feeds[port.name], port.encoding, where="")}
    results = []
    for options, given in (({}, feeds), ({"use_float_io": True}, real)):
        model = xdlc.prepare(network, [SOC], **options)
        with WorkerSession.of_cache(model.records["htp.cache.sm8650.0"], soc=SOC) as cache:
            results.append(cache.run(given)[result.name])
    assert [tensor.dtype.name for tensor in (*model.main.inputs, *model.main.outputs)] == ["float32"] * 2
    encoding = result.encoding
    assert isinstance(encoding, ScaleOffset)
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=encoding.scale / 100)


def test_items_of_a_batch_are_computed_as_single_ones(network):
    name, result = network.main.inputs[0].name, network.main.outputs[0].name
    batched = xdlc.prepare(network, [SOC], input_dimensions={name: (2, 32, 32, 3)})
    feeds = stored(batched.main, 0)
    with WorkerSession.of_cache(batched.records["htp.cache.sm8650.0"], soc=SOC) as cache:
        batch = cache.run(feeds, native=True)[result]
    single = xdlc.prepare(network, [SOC])
    with WorkerSession.of_cache(single.records["htp.cache.sm8650.0"], soc=SOC) as cache:
        for item in range(2):
            wanted = cache.run({name: feeds[name][item : item + 1]}, native=True)[result]
            assert np.abs(batch[item : item + 1].astype(int) - wanted.astype(int)).max() <= 1
