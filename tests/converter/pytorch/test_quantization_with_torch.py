"""Quantized modules compute what PyTorch computes."""

import numpy as np
import pytest

import xdlc

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.frameworks
X = (3, 4, 8)


def _ops():
    import torch.ao.quantization.fx._decomposed

    return torch.ops.quantized_decomposed


def _per_tensor(low, high, name, scale, zero):
    given = (scale, zero, low, high, getattr(torch, name))
    return lambda x: _ops().dequantize_per_tensor(_ops().quantize_per_tensor(x, *given), *given)


def _per_channel(x):
    given = (torch.tensor([0.02, 0.03, 0.05, 0.01]), torch.arange(4), 1, -128, 127, torch.int8)
    return _ops().dequantize_per_channel(_ops().quantize_per_channel(x, *given), *given)


def _dynamic(x):
    scale, zero = _ops().choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    given = (scale, zero, -128, 127, torch.int8)
    return _ops().dequantize_per_tensor.tensor(_ops().quantize_per_tensor.tensor(x, *given), *given)


def _per_token(x):
    scales, zeros = _ops().choose_qparams_per_token_asymmetric(x, torch.int8)
    given = (scales, zeros, -128, 127, torch.int8)
    return _ops().dequantize_per_token(_ops().quantize_per_token(x, *given), *given, torch.float32)


CASES = {
    "uint8": _per_tensor(0, 255, "uint8", 0.02, 100),
    "int8, narrow": _per_tensor(-127, 127, "int8", 0.01, 0),
    "int16": _per_tensor(-32768, 32767, "int16", 0.0002, 1),
    "uint16 in int32": _per_tensor(0, 65535, "int32", 0.0001, 32000),
    "per channel": _per_channel,
    "dynamic": _dynamic,
    "per token": _per_token,
    "fake": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.02, 3, -100, 90),
    "learnable": lambda x: torch._fake_quantize_learnable_per_tensor_affine(
        x, torch.tensor([0.02]), torch.tensor([1.7]), -128, 127, 1.0
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_roundings_are_those_of_torch(name):
    class Net(torch.nn.Module):
        def forward(self, x):
            return CASES[name](x)

    x = torch.randn(X, generator=torch.Generator().manual_seed(1))
    model = xdlc.convert(Net().eval(), (x,))
    (found,) = xdlc.run(model, {model.main.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found, Net()(x).numpy(), rtol=1e-6, atol=1e-6)
