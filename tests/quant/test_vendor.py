"""Quantized networks on the vendor's emulation, against our own run."""

import numpy as np
import pytest

from tests.support.accuracy import sqnr
from tests.support.htp_models import needs_htp
from xdlc.ir import b8, f32, static
from xdlc.ir.dtype import UFIXED16
from xdlc.prepare.htp import prepare
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.session import HtpSession

RELU, SIGMOID, ADD, MULTIPLY = 4, 6, 0, 13

pytestmark = pytest.mark.vendor


def residual(net):
    n = net(1, 16, 16, 3)
    first = n.neuron(n.conv(n.x, 16, "c1"), RELU, "r1")
    second = n.conv(first, 16, "c2")
    total = n.neuron(n.binary(first, second, ADD, "add"), RELU, "r2")
    gate = n.conv(total, 16, "c3", kernel=1)
    silu = n.binary(gate, n.neuron(gate, SIGMOID, "s"), MULTIPLY, "silu")
    return n, n.done(n.reshape(n.concat([silu, total], "both"), (1, 256, 32), "y"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_per_channel_quantization": False},
        {"weights_bitwidth": 4},
        {"weights_bitwidth": 4, "weights_block_size": 8, "use_lpbq": True},
        {"weights_bitwidth": 2, "act_bitwidth": 16},
        {"weights_bitwidth": 16, "act_bitwidth": 16},
        {"use_per_channel_quantization": False, "param_quantizer_schema": "unsignedsymmetric"},
        {"bias_bitwidth": 8, "use_per_channel_quantization": False},
        {"bias_bitwidth": 8},
        {"act_bitwidth": 16},
        {"act_bitwidth_of": dict.fromkeys(("c1", "r1", "add", "r2"), 16)},
        {"act_bitwidth_of": dict.fromkeys(("c3", "s", "silu"), 16)},
        {"act_bitwidth_of": {"r2": 16, "add": 16}, "float_ops": ["s"]},
        {"float_ops": ["c2", "s"], "float_bitwidth": 16},
    ],
)
def test_taken_by_the_compiler_and_equal_within_two_steps(net, vendor_check, tmp_path, options):
    n, model = residual(net)
    quantized = quantize(model, n.samples(8), **options)
    path = tmp_path / "net.dlc"
    quantized.save(path)
    assert vendor_check("validate", str(path), "--soc", "SM8650")["ok"]
    for soc in ("SM8550", "SM8650", "SM8750"):
        assert vendor_check("compile", str(path), "--soc", soc, "--out", str(tmp_path / soc))["ok"]
    (sample,) = n.samples(1, seed=5)
    np.savez(tmp_path / "in.npz", **sample)
    paths = ["--inputs", str(tmp_path / "in.npz"), "--out", str(tmp_path / "out.npz"), "--float"]
    assert vendor_check("run", str(path), "--soc", "SM8650", *paths)["ok"]
    found = np.load(tmp_path / "out.npz")["y"]
    wanted = CpuSession(quantized.main).run(sample)["y"]
    steps = np.abs(found - wanted) / quantized.main.tensors["y"].encoding.scale
    allowed = 128 if quantized.main.tensors["y"].dtype == UFIXED16 else 2
    assert (steps <= allowed + 0.01).mean() >= 0.99


def attention(net):
    """Return attention between two LayerNorms, which share a result with an Add."""
    n = net(1, 16, 32)

    def norm(x, name):
        inputs = [x, n.weights(f"{name}_g", 32), n.weights(f"{name}_b", 32)]
        return n.op(
            "LayerNorm", inputs, x.shape, name, axes=static("axes", np.uint32([2])), epsilon=f32(1e-5)
        )

    def linear(x, name, scale=0.15):
        return n.op("MatMul", [x, n.weights(f"{name}_w", 32, 32, scale=scale)], x.shape, name)

    first = norm(n.x, "n1")
    keys, values = linear(first, "k"), linear(first, "v")
    scores = n.op("MatMul", [linear(first, "q", 0.05), keys], (1, 16, 16), "scores", transpose_in1=b8(True))
    mixed = n.op("MatMul", [n.op("Softmax", [scores], scores.shape, "p"), values], n.x.shape, "mixed")
    return n, n.done(norm(n.binary(first, n.binary(mixed, values, ADD, "both"), ADD, "sum"), "y"))


@needs_htp
@pytest.mark.parametrize(("bits", "least", "same"), [(8, 20.0, 25.0), (16, 40.0, 55.0)])
def test_attention_runs_on_each_generation_as_well(net, bits, least, same):
    n, model = attention(net)
    test = n.samples(3, seed=5)
    expected = [CpuSession(model).run(sample)["y"] for sample in test]
    reached = {}
    for soc in ("qcs6490", "sm8450", "sm8550"):
        quantized = quantize(model, n.samples(8), act_bitwidth=bits, target=soc)
        with HtpSession(prepare(quantized, [soc]), soc) as session:
            found = [session.run(sample)["y"] for sample in test]
        ours = [CpuSession(quantized).run(sample)["y"] for sample in test]
        reached[soc] = sqnr(expected, found)
        assert sqnr(ours, found) > same
    assert min(reached.values()) > least, reached
    assert reached["sm8550"] - min(reached.values()) < 6.0, reached
