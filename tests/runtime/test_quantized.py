"""Quantized graphs against integer arithmetic in numpy; forms ONNX lacks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.single_ops import op_graph
from xdlc.errors import ModelError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    ScaleOffset,
    Tensor,
    VectorCode,
    static,
)
from xdlc.ir.dtype import BY_NAME
from xdlc.ir.quantization import float_data, to_quantized, unpacked
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.lower import lower

UFIXED8, SFIXED8, UFIXED16, SFIXED32 = (BY_NAME[n] for n in ("ufixed8", "sfixed8", "ufixed16", "sfixed32"))


def conv_graph(rng, *, activation=UFIXED8, per_channel=True, bits=None, bias_scale=1.0):
    """Return a 3x3 convolution and the arrays and scales it consists of."""
    wide = activation is UFIXED16
    x_encoding = ScaleOffset(0.0005 if wide else 0.02, -30000 if wide else -100)
    y_encoding = ScaleOffset(0.002 if wide else 0.1, -32768 if wide else -120)
    low, high = (-7, 8) if bits == 4 else (-127, 128)
    weight = rng.integers(low, high, (3, 3, 4, 6)).astype(np.int8)
    weight_scale = np.asarray(rng.uniform(0.005, 0.02, 6), np.float32)
    if not per_channel:
        weight_scale[:] = weight_scale[0]
    encoding = (
        AxisScaleOffset(3, tuple(weight_scale), bits=bits)
        if per_channel
        else ScaleOffset(float(weight_scale[0]), bits=bits)
    )
    bias_real = rng.normal(0, 1, 6)
    steps = np.float32(x_encoding.scale) * weight_scale * np.float32(bias_scale)
    bias = np.rint(bias_real / steps).astype(np.int32)
    x = Tensor("x", (1, 6, 6, 4), activation, x_encoding)
    y = Tensor("y", (1, 6, 6, 6), activation, y_encoding)
    params = {
        "stride": static("s", np.array([1, 1], np.uint32)),
        "pad_amount": static("p", np.array([[1, 1], [1, 1]], np.uint32)),
    }
    w = static("w", weight & 15 if bits == 4 else weight, SFIXED8, encoding)
    b = static("b", bias, SFIXED32, AxisScaleOffset(0, tuple(float(step) for step in steps)))
    graph = op_graph("Conv2d", [x, w, b], [y], params, name="conv")
    real_weight = weight * weight_scale.astype(np.float64)
    return graph, x, y, real_weight, bias * steps.astype(np.float64)


def conv_by_hand(stored, x, y, weight, bias):
    real = (stored.astype(np.float64) + x.encoding.offset) * x.encoding.scale
    padded = np.pad(real, [(0, 0), (1, 1), (1, 1), (0, 0)])
    total = sum(
        np.einsum("bhwc,co->bhwo", padded[:, i : i + 6, j : j + 6], weight[i, j])
        for i in range(3)
        for j in range(3)
    )
    low, high = y.dtype.limits
    return np.clip(np.rint((total + bias) / y.encoding.scale) - y.encoding.offset, low, high)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activation", [UFIXED8, UFIXED16])
@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("bias_scale", [1.0, 0.25])
def test_conv_is_within_one_step_of_integer_arithmetic(rng, activation, per_channel, bits, bias_scale):
    graph, x, y, weight, bias = conv_graph(
        rng, activation=activation, per_channel=per_channel, bits=bits, bias_scale=bias_scale
    )
    stored = rng.integers(0, activation.limits[1] + 1, x.shape).astype(activation.numpy)
    found = CpuSession(graph, threads=1, plain=True).run({"x": stored}, native=True)["y"]
    want = conv_by_hand(stored, x, y, weight, bias)
    assert np.ptp(want) > 30
    assert np.abs(found.astype(np.int64) - want).max() <= 1


@pytest.mark.parametrize(("stated", "kernel"), [(False, "ConvInteger"), (True, "QLinearConv")])
def test_8_bit_conv_runs_as_an_integer_kernel(rng, tmp_path, stated, kernel):
    import onnx
    import onnxruntime

    graph, *_ = conv_graph(rng)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(
        lower(graph, stated=stated).proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    types = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    assert kernel in types
    assert "Conv" not in types


def test_float_view_ignores_activation_encodings(rng):
    graph, x, _, weight, bias = conv_graph(rng)
    real = rng.normal(0, 1, x.shape).astype(np.float32)
    result = CpuSession(graph, quantized=False).run({"x": real})["y"]
    padded = np.pad(real.astype(np.float64), [(0, 0), (1, 1), (1, 1), (0, 0)])
    total = sum(
        np.einsum("bhwc,co->bhwo", padded[:, i : i + 6, j : j + 6], weight[i, j])
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(result, total + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("type", "params"),
    [
        ("Reshape", {}),
        ("Transpose", {"perm": (0, 3, 1, 2)}),
        ("Concat", {"axis": 3}),
        ("PoolMax2d", {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}),
        ("ResizeNearestNeighbor", {}),
        ("StridedSlice", {"ranges": ((0, 1, 1), (0, 4, 1), (1, 3, 1), (0, 3, 1))}),
    ],
)
@pytest.mark.parametrize("dtype", [UFIXED8, UFIXED16, BY_NAME["sfixed8"], BY_NAME["sfixed16"]])
def test_moves_with_the_same_encoding_are_exact(one_op, rng, type, params, dtype):
    shapes = {
        "Reshape": (4, 12), "Transpose": (1, 3, 4, 4), "Concat": (1, 4, 4, 6), "PoolMax2d": (1, 2, 2, 3),
        "ResizeNearestNeighbor": (1, 8, 8, 3), "StridedSlice": (1, 4, 2, 3),
    }  # fmt: skip
    low, high = dtype.limits
    encoding = ScaleOffset(0.0123, -(high // 3) if low == 0 else 3)
    stored = rng.integers(low, high + 1, (1, 4, 4, 3)).astype(dtype.numpy)
    sources = [Tensor(f"x{i}", (1, 4, 4, 3), dtype, encoding) for i in range(2 if type == "Concat" else 1)]
    graph = one_op.graph(type, sources, [(shapes[type], dtype.name)], params)
    graph.outputs[0].encoding = encoding
    result = CpuSession(graph).run(dict.fromkeys([t.name for t in sources], stored), native=True)["y0"]
    want = {
        "Reshape": lambda: stored.reshape(4, 12),
        "Transpose": lambda: stored.transpose(0, 3, 1, 2),
        "Concat": lambda: np.concatenate([stored, stored], 3),
        "PoolMax2d": lambda: stored.reshape(1, 2, 2, 2, 2, 3).max((2, 4)),
        "ResizeNearestNeighbor": lambda: stored.repeat(2, 1).repeat(2, 2),
        "StridedSlice": lambda: stored[:, :, 1:3],
    }[type]()
    np.testing.assert_array_equal(result, want)


@settings(max_examples=20, deadline=None)
@given(
    scale=st.floats(1e-3, 10),
    offset=st.integers(-700, 300),
    bits=st.sampled_from([None, 4, 8]),
    name=st.sampled_from(["ufixed8", "sfixed8", "ufixed16", "sfixed16"]),
)
def test_activations_are_rounded_to_any_encoding(scale, offset, bits, name):
    """Also where the zero point is no value of the type, or only some bits are used."""
    dtype = BY_NAME[name]
    x = Tensor("x", (64,), BY_NAME["float32"])
    y = Tensor("y", (64,), dtype, ScaleOffset(scale, offset, bits=bits))
    graph = op_graph("Quantize", [x], [y], name="q")
    real = (np.linspace(-900, 900, 64) * scale).astype(np.float32)
    session = CpuSession(graph)
    stored = session.run({"x": real}, native=True)["y"].astype(np.int64)
    assert np.abs(stored - to_quantized(real, y).astype(np.int64)).max() <= 1
    limit = dtype.limits if bits is None else ((-(1 << bits - 1)) if dtype.is_signed else 0, 0)
    assert stored.min() >= limit[0]
    back = session.run({"x": real})["y"]
    np.testing.assert_allclose(back, (stored + offset) * y.encoding.scale, rtol=1e-5, atol=scale * 1e-3)


def test_packed_and_masked_4_bit_values():
    packed = static("w", np.array([0x8F, 0x07], np.uint8), BY_NAME["sfixed4"], ScaleOffset(0.5))
    packed.shape = (3,)
    np.testing.assert_array_equal(unpacked(packed).numpy(), [-1, -8, 7])
    unsigned = static("w", np.array([0x8F, 0x07], np.uint8), BY_NAME["ufixed4"], ScaleOffset(0.5, -8))
    unsigned.shape = (3,)
    np.testing.assert_array_equal(float_data(unsigned).numpy(), [3.5, 0, -0.5])
    masked = static("w", np.array([15, -1, 8, 7], np.int8), SFIXED8, ScaleOffset(0.5, bits=4))
    np.testing.assert_array_equal(unpacked(masked).numpy(), [-1, -1, -8, 7])


def test_block_encodings():
    stored = np.arange(8, dtype=np.int8).reshape(2, 4)
    blocks = static("w", stored, SFIXED8, BlockScaleOffset((1, 2), (1, 10, 100, 1000), (0, 1, 0, 0)))
    np.testing.assert_array_equal(float_data(blocks).numpy(), [[0, 1, 30, 40], [400, 500, 6000, 7000]])
    lpbq = static("w", stored, SFIXED8, BlockwiseExpansion(0, (1, 0.5), (0, 0), 2, 4, (1, 2, 3, 4)))
    np.testing.assert_array_equal(float_data(lpbq).numpy(), [[0, 1, 4, 6], [6, 7.5, 12, 14]])
    weight = static(
        "w", stored.reshape(1, 1, 4, 2), SFIXED8, BlockwiseExpansion(3, (1, 0.5), (0, 0), 2, 4, (1, 2, 3, 4))
    )
    np.testing.assert_array_equal(float_data(weight).numpy()[0, 0], [[0, 1.5], [2, 4.5], [8, 10], [12, 14]])


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (None, "has no encoding"),
        (VectorCode(0, (1.0,), (0,), (1,)), "code book"),
        (AxisScaleOffset(0, (1.0,) * 3), "3 scales along axis 0"),
        (AxisScaleOffset(5, (1.0,) * 2), "along axis 5"),
        (BlockScaleOffset((1, 3), (1.0,)), "do not divide"),
        (BlockScaleOffset((1, 2), (1.0,)), "4 blocks need a scale each"),
        (BlockwiseExpansion(0, (1, 1), (0, 0), 3, 4, (1,) * 6), "do not fit"),
    ],
)
def test_weights_without_a_usable_encoding_name_the_op_and_the_tensor(one_op, encoding, message):
    weight = static("w1", np.zeros((2, 4), np.int8), SFIXED8, encoding)
    graph = one_op.graph("FullyConnected", [np.zeros((1, 4), np.float32), weight], [(1, 2)])
    with pytest.raises(ModelError, match=message) as caught:
        lower(graph)
    assert "op 'op' (FullyConnected): tensor 'w1'" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_are_no_positive_number(one_op, scale):
    graph = one_op.graph("Relu", [np.zeros(3, np.float32)], [((3,), "ufixed8")])
    graph.outputs[0].encoding = ScaleOffset(scale)
    with pytest.raises(ModelError, match="not a positive number"):
        lower(graph)
