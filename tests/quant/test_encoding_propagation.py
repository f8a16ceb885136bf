import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir import ScaleOffset
from xdlc.ir.dtype import FLOAT32, SFIXED8, UFIXED8, UFIXED16
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession

RELU = 4


def chain(net):
    n = net(1, 4, 4, 3)
    one = n.conv(n.x, 4, "c1")
    flat = n.reshape(n.neuron(one, RELU, "r1"), (1, 16, 4), "flat")
    back = n.reshape(flat, (1, 4, 4, 4), "back")
    return n, n.done(n.conv(back, 2, "c2"))


def given(model, **encodings):
    for name, encoding in encodings.items():
        model.main.tensors[name].encoding = encoding
    return model


def test_what_has_no_encoding_stays_float(net):
    _, model = chain(net)
    given(model, x=ScaleOffset(0.03, -128, 8), c1=ScaleOffset(0.1, -128, 8))
    quantized = quantize(model, [], enable_float_fallback=True).main
    tensors = quantized.tensors
    assert {tensors[name].dtype for name in ("x", "c1")} == {UFIXED8}
    assert tensors["c1_w"].dtype == SFIXED8
    assert {tensors[name].dtype for name in ("r1", "flat", "back", "c2", "c2_w")} == {FLOAT32}
    assert [op.type for op in quantized.ops] == [
        "Conv2d", "Dequantize", "ElementWiseNeuron", "Reshape", "Reshape", "Conv2d",
    ]  # fmt: skip
    assert all(tensor.encoding is None for tensor in tensors.values() if tensor.dtype == FLOAT32)


@pytest.mark.parametrize("known", ["r1", "flat", "back"])
def test_encodings_go_through_ops_that_move_values(net, known):
    _, model = chain(net)
    shared = ScaleOffset(0.001, 0, 16)
    given(model, x=ScaleOffset(0.0001, -32768, 16), c1=ScaleOffset(0.002, -32768, 16))
    given(model, c2=ScaleOffset(0.02, -32768, 16), **{known: shared})
    tensors = quantize(model, [], enable_float_fallback=True).main.tensors
    assert {tensors[name].dtype for name in ("x", "c1", "r1", "flat", "back", "c2")} == {UFIXED16}
    scales = {
        (tensors[name].encoding.scale, tensors[name].encoding.offset) for name in ("r1", "flat", "back")
    }
    assert scales == {(np.float32(0.001), 0)}


def test_close_to_float_without_samples(net):
    n, model = chain(net)
    calibrated = quantize(model, n.samples(4)).main.tensors
    for name in ("x", "c1", "r1", "c2"):
        encoding = calibrated[name].encoding
        given(model, **{name: ScaleOffset(encoding.scale, encoding.offset, 8)})
    quantized = quantize(model, [], enable_float_fallback=True)
    assert all(op.type in ("Conv2d", "ElementWiseNeuron", "Reshape") for op in quantized.main.ops)
    (sample,) = n.samples(1, seed=5)
    wanted, found = (CpuSession(m, quantized=m is quantized).run(sample)["c2"] for m in (model, quantized))
    assert np.abs(wanted - found).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("options", "text"),
    [({}, "no activation has an encoding"), ({"min_sqnr": 30}, "mixed_precision needs calibration")],
)
def test_what_makes_no_sense(net, options, text):
    n, model = chain(net)
    with pytest.raises(UsageError, match=text):
        quantize(model, n.samples(1), enable_float_fallback=True, **options)
