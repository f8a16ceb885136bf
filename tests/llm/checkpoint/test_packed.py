"""Packed integers of GPTQ, AWQ and compressed-tensors, by definition."""

import json

import numpy as np
import pytest

from tests.llm.checkpoint.test_safetensors import safetensors
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.llm.checkpoint import open_checkpoint

OUT, IN, GROUP = 16, 32, 8
COUNT = IN // GROUP
RNG = np.random.default_rng(2)
NAME = "model.layers.0.mlp.up_proj"
ACROSS = {"config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "symmetric": True}}}}
METHODS = {
    "gptq": {"quant_method": "gptq", "bits": 4},
    "gptq-8": {"quant_method": "gptq", "bits": 8},
    "gptq_v2": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"},
    "awq": {"quant_method": "awq", "bits": 4, "version": "gemm"},
    "packed": {"quant_method": "compressed-tensors", "format": "pack-quantized", **ACROSS},
}


def words(integers, bits, order=None):
    """Return integers packed along the last axis into 32 bits, low bits first."""
    count = 32 // bits
    parts = integers.astype(np.uint64).reshape(*integers.shape[:-1], -1, count)
    order = range(count) if order is None else order
    whole = sum(parts[..., number] << np.uint64(at * bits) for at, number in enumerate(order))
    return whole.astype(np.uint32).view(np.int32)


def made(method, order=None):
    """Return tensors of a linear map, and its values."""
    bits = METHODS[method].get("bits", 4)
    q = RNG.integers(0, 1 << bits, (OUT, IN))
    zeros = RNG.integers(1, 1 << bits, (OUT, COUNT))
    scales = RNG.uniform(0.01, 1, (OUT, COUNT)).astype(np.float16)
    groups = np.arange(IN) // GROUP if order is None else order
    if method == "packed":
        tensors = {
            "weight_packed": words(q, bits),
            "weight_scale": scales,
            "weight_shape": np.array([OUT, IN]),
        }
        zeros[:] = 8
    elif method == "awq":
        order_of_word = (0, 2, 4, 6, 1, 3, 5, 7)
        tensors = {
            "qweight": words(q.T, bits, order_of_word),
            "qzeros": words(zeros.T, bits, order_of_word),
            "scales": scales.T.copy(),
        }
    else:
        stored = zeros - (method != "gptq_v2")
        tensors = {
            "qweight": words(q, bits).T.copy(),
            "qzeros": words(stored.T, bits),
            "scales": scales.T.copy(),
            "g_idx": groups.astype(np.int32),
        }
    values = (q - zeros[:, groups]).astype(np.float32) * scales.astype(np.float32)[:, groups]
    return tensors, values


def opened(tmp_path, stated, tensors):
    config = {"model_type": "llama", "quantization_config": stated}
    (tmp_path / "config.json").write_text(json.dumps(config))
    arrays = {f"{NAME}.{part}": array for part, array in tensors.items()}
    arrays["model.norm.weight"] = np.ones(4, np.float32)
    (tmp_path / "model.safetensors").write_bytes(safetensors(arrays))
    return open_checkpoint(tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_values(tmp_path, method):
    tensors, values = made(method)
    checkpoint = opened(tmp_path, METHODS[method], tensors)
    assert sorted(checkpoint.weights) == [f"{NAME}.weight", "model.norm.weight"]
    assert "quantization_config" not in checkpoint.config
    weight = checkpoint.weights[f"{NAME}.weight"]
    assert weight.shape == (OUT, IN)
    assert weight.encoding.block_shape == (1, GROUP)
    assert weight.encoding.bits == (None if method == "gptq-8" else 4)
    np.testing.assert_array_equal(weight.floats().numpy(), values)


def test_groups_in_any_order(tmp_path):
    tensors, values = made("gptq", RNG.permutation(np.arange(IN) // GROUP))
    weight = opened(tmp_path, METHODS["gptq"], tensors).weights[f"{NAME}.weight"]
    assert weight.encoding is None
    np.testing.assert_array_equal(weight.floats().numpy(), values)


def test_scales_that_no_encoding_has(tmp_path):
    tensors, values = made("gptq")
    tensors["scales"][0] *= -1
    values[:, :GROUP] *= -1
    weight = opened(tmp_path, METHODS["gptq"], tensors).weights[f"{NAME}.weight"]
    assert weight.encoding is None
    np.testing.assert_array_equal(weight.floats().numpy(), values)


@pytest.mark.parametrize(
    "stated",
    [
        {"quant_method": "bitsandbytes"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "gptq", "bits": 4.0},
        {"quant_method": "awq", "bits": 4, "version": "gemv"},
        {"quant_method": "compressed-tensors", "format": "int-quantized", **ACROSS},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": 3}}},
        {"quant_method": "compressed-tensors", "config_groups": {"g": 1}},
        {},
    ],
)
def test_unsupported(tmp_path, stated):
    with pytest.raises(UnsupportedOp) as error:
        opened(tmp_path, stated, made("gptq")[0])
    assert error.value.fix


@pytest.mark.parametrize(
    "change",
    [
        {"scales": None},
        {"qzeros": None},
        {"qweight": None},
        {"scales": np.ones((3, OUT), np.float16)},
        {"scales": np.ones((0, OUT), np.float16)},
        {"qzeros": np.ones((COUNT, OUT), np.int32)},
        {"qweight": np.ones((4, OUT), np.int64)},
        {"qweight": np.ones((0, OUT), np.int32)},
        {"g_idx": np.zeros(3, np.int32)},
        {"g_idx": np.full(IN, COUNT, np.int32)},
        {"g_idx": np.full(IN, -1, np.int32)},
    ],
)
def test_damaged(tmp_path, change):
    tensors = {name: array for name, array in (made("gptq")[0] | change).items() if array is not None}
    with pytest.raises(ModelError):
        opened(tmp_path, METHODS["gptq"], tensors).weights[f"{NAME}.weight"].floats()
