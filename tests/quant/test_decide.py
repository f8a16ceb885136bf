import pytest

from xdlc.ir import ScaleOffset
from xdlc.ir.dtype import UFIXED8, UFIXED16

RELU, SIGMOID = 4, 6


def model_of(net):
    n = net(1, 4, 4, 3)
    relu = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    flat = n.reshape(n.conv(relu, 4, "c2"), (1, 64), "flat")
    return n, n.done(flat, n.neuron(flat, SIGMOID, "gate"))


@pytest.mark.parametrize("schema", ["symmetric", "unsignedsymmetric"])
@pytest.mark.parametrize(("bits", "dtype"), [(8, UFIXED8), (16, UFIXED16)])
def test_a_symmetric_range_is_stored_about_its_middle(net, decided, schema, bits, dtype):
    n, model = model_of(net)
    samples = n.samples(4)
    forms, _ = decided(
        model, samples, act_bitwidth=bits, act_quantizer_schema=schema, act_quantizer_calibration="min-max"
    )
    largest = max(abs(sample["x"]).max() for sample in samples)
    for name in ("x", "c1", "r1", "flat"):
        assert forms[name][0] is dtype
        assert forms[name][1].offset == -(1 << (bits - 1))
    assert forms["x"][1].scale == pytest.approx(2 * largest / ((1 << bits) - 1))


def test_a_fixed_range_stays_fixed_beside_a_symmetric_schema(net, decided):
    n, model = model_of(net)
    forms, _ = decided(model, n.samples(2), act_quantizer_schema="symmetric")
    assert forms["gate"] == (UFIXED8, ScaleOffset(1 / 256, 0))


def test_sources(net, decided):
    n, model = model_of(net)
    _, sources = decided(model, n.samples(3), act_quantizer_calibration="min-max")
    assert sources == {
        "x": "min-max of 3 samples",
        "c1": "shared with r1",
        "r1": "min-max of 3 samples",
        "c2": "min-max of 3 samples",
        "flat": "shared with c2",
        "gate": "fixed by the range of Sigmoid",
    }


def test_a_range_that_readers_cut_says_so(net, decided):
    n = net(1, 4, 4, 3)
    model = n.done(n.neuron(n.conv(n.x, 8, "c"), SIGMOID, "y"))
    _, sources = decided(model, n.samples(1, scale=100.0), act_quantizer_calibration="moving-average")
    assert sources["c"].startswith("moving-average of 1 sample, cut")


def test_a_stated_encoding_is_its_own_source(net, decided):
    n, model = model_of(net)
    n.x.dtype, n.x.encoding = UFIXED8, ScaleOffset(0.5, -128)
    forms, sources = decided(model, n.samples(2))
    assert forms["x"] == (UFIXED8, ScaleOffset(0.5, -128))
    assert sources["x"] == "stated by the model"
