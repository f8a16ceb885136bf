"""Quantized programs: encodings of PT2E, torchao and fake quantization."""

import numpy as np
import pytest

import xdlc
from tests.converter.pytorch.programs import TinyProgram, results
from xdlc import ir
from xdlc.errors import UnsupportedOp
from xdlc.ir.dtype import SFIXED4, SFIXED8, SFIXED32, UFIXED8

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 4, 8)).astype(np.float32)
W = RNG.integers(-8, 8, (6, 16)).astype(np.int8)
SCALES = np.float32([0.02, 0.03, 0.05, 0.01])
INT8 = {"quant_min": -128, "quant_max": 127, "dtype": np.int8}


def rounded(x, scale, zero, low, high):
    inverse = np.float32(1) / np.asarray(scale, np.float32)
    return np.clip(np.rint(x * inverse) + zero, low, high)


def restored(x, scale, zero):
    return ((x.astype(np.float32) - np.float32(zero)) * np.asarray(scale, np.float32)).astype(np.float32)


def fake(x, scale, zero, low, high):
    return restored(rounded(x, scale, zero, low, high), scale, zero)


COLUMN = SCALES.reshape(1, 4, 1)
LOW, HIGH = np.minimum(X.min(-1, keepdims=True), 0), np.maximum(X.max(-1, keepdims=True), 0)
GROUPS = RNG.uniform(0.1, 0.3, (6, 4)).astype(np.float32)
TOKENS = np.abs(X).max(-1, keepdims=True) / 127
ROWS = RNG.standard_normal((4, 16)).astype(np.float32)
CASES = [
    ("quantize_per_tensor", {"input": X, "scale": 0.02, "zero_point": 3, **INT8},
     rounded(X, 0.02, 3, -128, 127).astype(np.int8)),
    ("quantize_per_tensor", {"input": X, "scale": 0.02, "zero_point": 3, **INT8, "quant_max": 90},
     rounded(X, 0.02, 3, -128, 90).astype(np.int8)),
    ("quantize_per_tensor",
     {"input": X, "scale": 1e-4, "zero_point": 32000, "quant_min": 0, "quant_max": 65535, "dtype": np.int32},
     rounded(X, 1e-4, 32000, 0, 65535).astype(np.int32)),
    ("dequantize_per_tensor", {"input": W, "scale": 0.5, "zero_point": -2, **INT8}, restored(W, 0.5, -2)),
    ("quantize_per_channel",
     {"input": X, "scales": SCALES, "zero_points": np.arange(4), "axis": 1, **INT8},
     rounded(X, COLUMN, np.arange(4).reshape(1, 4, 1), -128, 127).astype(np.int8)),
    ("dequantize_per_channel_group",
     {"input": W, "scales": GROUPS, "zero_points": None, "quant_min": -8, "quant_max": 7, "dtype": np.int8,
      "group_size": 4, "output_dtype": np.float32}, restored(W, GROUPS.repeat(4, 1), 0)),
    ("quantize_per_token", {"input": X, "scales": TOKENS, "zero_points": np.zeros_like(TOKENS), **INT8},
     rounded(X, TOKENS, 0, -128, 127).astype(np.int8)),
    ("choose_qparams.tensor", {"input": X, "eps": 1e-5, **INT8},
     [np.float32([(X.max() - X.min()) / 255]),
      np.int64([-128 - np.rint(X.min() / np.float32((X.max() - X.min()) / 255))])]),
    ("choose_qparams_symmetric.tensor",
     {"input": X, "quant_min": -127, "quant_max": 127, "eps": 1e-5, "dtype": np.int8},
     [np.float32([np.abs(X).max() / 127]), np.int64([0])]),
    ("choose_qparams_per_token", {"input": X, "dtype": np.int8}, [TOKENS, np.zeros((3, 4, 1), np.float32)]),
    ("torchao.quantize_affine",
     {"input": X, "block_size": [1, 2, 8], "scale": GROUPS[:3, :2], "zero_point": None,
      "output_dtype": np.int8, "quant_min": -100, "quant_max": 100},
     rounded(X, GROUPS[:3, :2].repeat(2, 1)[..., None], 0, -100, 100).astype(np.int8)),
    ("torchao.choose_qparams_affine",
     {"input": X, "mapping_type": "ASYMMETRIC", "block_size": [1, 1, 8], "target_dtype": np.int8},
     [((HIGH - LOW) / 255)[..., 0],
      (-128 - np.rint(LOW / ((HIGH - LOW) / 255)))[..., 0].astype(np.int32)]),
    ("aten._int_mm", {"self": W, "mat2": W.T}, W.astype(np.int32) @ W.T),
    ("aten._int_mm", {"self": W.repeat(65, 1), "mat2": W.repeat(65, 1).T}, 65 * (W.astype(np.int32) @ W.T)),
    ("aten._weight_int8pack_mm", {"self": ROWS, "mat2": W, "scales": GROUPS[:, 0]},
     ROWS @ W.T * GROUPS[:, 0]),
    ("aten.fake_quantize_per_tensor_affine",
     {"self": X, "scale": 0.02, "zero_point": 3, "quant_min": -100, "quant_max": 90},
     fake(X, 0.02, 3, -100, 90)),
    ("aten.fake_quantize_per_channel_affine",
     {"self": X, "scale": SCALES, "zero_point": np.zeros(4, np.int32), "axis": 1, "quant_min": 0,
      "quant_max": 255}, fake(X, COLUMN, 0, 0, 255)),
]  # fmt: skip


@pytest.mark.parametrize(("target", "arguments", "expected"), CASES)
def test_numbers_are_those_of_the_formula(tmp_path, target, arguments, expected):
    if target.startswith("aten."):
        target = target.removeprefix("aten.")
    elif not target.startswith("torchao."):
        target = f"quantized_decomposed.{target}"
    found = results(tmp_path, target, like=expected, named=arguments)
    if not isinstance(expected, list):
        found, expected = [found], [expected]
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
        assert got.dtype == wanted.dtype


class Net(TinyProgram):
    """A quantized program as ``convert_pt2e`` makes it."""

    def crossed(self, x, shape, scale, zero):
        """Round a value to int8 and restore it."""
        given = {"scale": scale, "zero_point": zero, **INT8}
        for name, dtype in (("quantize", "int8"), ("dequantize", "float32")):
            target = f"quantized_decomposed.{name}_per_tensor"
            x = self.op(target, named={"input": x, **given}, shape=shape, dtype=dtype)
        return x

    def frozen(self, name, array, scales):
        """Restore stored integers, with a scale for each channel out."""
        given = {"input": self.weight(name, array, "buffer"), "zero_points": None, "axis": 0, **INT8}
        given["scales"] = self.weight(f"{name}_scale", scales, "buffer")
        target = "quantized_decomposed.dequantize_per_channel"
        return self.op(target, named=given, shape=array.shape, dtype="float32")


@pytest.fixture
def network():
    """Write a convolution, a Relu6 after the rounding, and a layer of products."""
    net, rng = Net(), np.random.default_rng(5)
    x = net.crossed(net.input("x", (1, 3, 6, 6)), (1, 3, 6, 6), 0.02, -4)
    kernel = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    weight = net.frozen("_frozen_param0", kernel, np.float32([0.002, 0.001, 0.003, 0.002]))
    bias = net.weight("conv.bias", np.float32([0.1, -0.2, 0.3, 0]))
    x = net.op("conv2d", x, weight, bias, shape=(1, 4, 4, 4), module="conv")
    x = net.crossed(x, (1, 4, 4, 4), 0.01, 5)
    x = net.op("hardtanh", x, 0.0, 6.0)
    x = net.crossed(x, (1, 4, 4, 4), 0.01, 5)
    x = net.op("flatten.using_ints", x, 1, -1, shape=(1, 64))
    matrix = rng.integers(-127, 128, (5, 64)).astype(np.int8)
    x = net.op("linear", x, net.frozen("_frozen_param1", matrix, np.full(5, 0.01, np.float32)),
                net.weight("fc.bias", np.zeros(5, np.float32)), shape=(1, 5), module="fc")  # fmt: skip
    net.crossed(x, (1, 5), 0.1, 0)
    net.kernel = kernel
    return net


def test_a_program_of_pt2e_is_fixed_point(tmp_path, network):
    graph = network.convert(tmp_path).main
    computed = {tensor.dtype for tensor in graph.tensors.values() if not tensor.is_static}
    assert computed == {UFIXED8}
    assert {op.type for op in graph.ops} == {
        "Transpose", "Conv2d", "ElementWiseNeuron", "FullyConnected", "Reshape"
    }  # fmt: skip
    (conv,) = (op for op in graph.ops if op.type == "Conv2d")
    _, weight, bias = conv.inputs
    assert (weight.name, weight.dtype) == ("conv.weight", SFIXED8)
    assert (bias.name, bias.dtype) == ("conv.bias", SFIXED32)
    np.testing.assert_array_equal(weight.numpy(), network.kernel.transpose(2, 3, 1, 0))
    assert graph.inputs[0].encoding == ir.ScaleOffset(0.02, -124)
    (clamp,) = (op for op in graph.ops if op.type == "ElementWiseNeuron")
    assert set(clamp.params) == {"operation"}  # Relu: 6 is out of the range of its encoding


def test_a_program_of_pt2e_computes_what_its_floats_do(tmp_path, network):
    x = np.random.default_rng(6).standard_normal((1, 3, 6, 6)).astype(np.float32)
    results = xdlc.run(network.convert(tmp_path), {"x": x})
    rounded_input = fake(x, 0.02, -4, -128, 127)
    windows = np.lib.stride_tricks.sliding_window_view(rounded_input[0], (3, 3), (1, 2))
    weight = restored(network.kernel, np.float32([0.002, 0.001, 0.003, 0.002]).reshape(4, 1, 1, 1), 0)
    y = np.einsum("chwij,ocij->ohw", windows, weight) + np.float32([0.1, -0.2, 0.3, 0]).reshape(4, 1, 1)
    y = fake(np.clip(fake(y, 0.01, 5, -128, 127), 0, 6), 0.01, 5, -128, 127).reshape(1, -1)
    matrix = network.stored["weights"]["_frozen_param1"][0]
    wanted = fake(y @ restored(matrix, 0.01, 0).T, 0.1, 0, -128, 127)
    np.testing.assert_allclose(next(iter(results.values())), wanted, atol=0.101)


@pytest.mark.parametrize(
    ("low", "dtype", "stored"), [(-8, np.int8, SFIXED4), (0, np.uint8, ir.dtype.UFIXED4)]
)
def test_weights_of_four_bits_stay_packed(tmp_path, low, dtype, stored):
    builder = TinyProgram()
    x = builder.input("x", (2, 16))
    weight = builder.weight("fc.parametrizations.weight.original0", (W + (low + 8)).astype(dtype))
    zero = builder.weight("z", np.full((6, 4), 3, np.int32))
    given = {"input": weight, "block_size": [1, 4], "scale": builder.weight("s", GROUPS), "zero_point": zero}
    given |= {"input_dtype": dtype, "quant_min": low, "quant_max": low + 15, "output_dtype": np.float32}
    real = builder.op("torchao.dequantize_affine", named=given, shape=(6, 16), dtype="float32")
    builder.op("linear", x, real, None, shape=(2, 6))
    model = builder.convert(tmp_path)
    (held,) = (tensor for tensor in model.main.tensors.values() if tensor.is_static)
    assert (held.name, held.dtype) == ("fc.weight", stored)
    feed = np.random.default_rng(4).standard_normal((2, 16)).astype(np.float32)
    expected = feed @ restored(W + (low + 8), GROUPS.repeat(4, 1), 3).T
    np.testing.assert_allclose(xdlc.run(model, {"x": feed})[model.main.outputs[0].name], expected, rtol=1e-4)


def test_weights_that_the_program_rounds_keep_their_name(tmp_path):
    builder, kernel = TinyProgram(), ROWS[:, :, None, None]
    rounding = {
        "scales": builder.weight("s", SCALES),
        "zero_points": builder.weight("z", np.zeros(4, np.int64)),
    }
    rounding |= {"axis": 0, **INT8, "quant_min": -127}
    x = builder.input("x", (1, 16, 2, 2))
    target = "quantized_decomposed.{}_per_channel"
    weight = builder.weight("fc.weight", kernel)
    q = builder.op(
        target.format("quantize"), named={"input": weight, **rounding}, shape=kernel.shape, dtype="int8"
    )
    w = builder.op(
        target.format("dequantize"), named={"input": q, **rounding}, shape=kernel.shape, dtype="float32"
    )
    builder.op("conv2d", x, w, shape=(1, 4, 2, 2))
    tensors = builder.convert(tmp_path).main.tensors
    assert tensors["fc.weight"].dtype is SFIXED8
    expected = rounded(ROWS, SCALES[:, None], 0, -127, 127).T
    np.testing.assert_array_equal(tensors["fc.weight"].numpy()[0, 0], expected)


def test_values_that_no_integers_hold_are_refused(tmp_path):
    made = TinyProgram()
    given = {"input": made.input("x", (4,)), "scale": 0.5, "zero_point": 0, "quant_min": 0, "quant_max": 1}
    made.op("quantized_decomposed.quantize_per_tensor", named={**given, "dtype": np.float16}, dtype="float16")
    with pytest.raises(UnsupportedOp, match="float16"):
        made.convert(tmp_path)
