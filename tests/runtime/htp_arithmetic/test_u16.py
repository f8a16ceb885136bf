"""16-bit products: the formula of HTP in numpy, against the graph that we run."""

import numpy as np
import pytest

import xdlc
from tests.runtime.htp_arithmetic.products import model_of, shapes_of, sums_of
from tests.support.single_ops import op_graph
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.runtime.cpu import CpuSession

INPUT, WEIGHT = 0.001, 0.01


def half_down(values):
    return np.ceil(values - 0.5)


def fifteen_bits(value):
    unit = 2.0 ** (np.floor(np.log2(value)) - 14)
    return np.round(value / unit) * unit


class Product:
    """One op with static weights, and what goes in."""

    def __init__(self, kind, taps, channels, units, offset, *, stride=1, multiplier=0.003, rows=12, bits=8):
        rng = np.random.default_rng(0)
        self.step = 256 if bits == 8 else 65536
        self.stride, self.offset = stride, offset
        shape, wide = shapes_of(kind, taps, channels, units, rows)
        self.x = rng.integers(0, 65536, shape).astype(np.uint16)
        most = 127 if bits == 8 else 0x7F7F
        self.weights = rng.integers(-most, most + 1, wide)
        self.bias = rng.integers(-(10**6), 10**6, units) * self.step // 256
        scales = (WEIGHT * 256 / self.step * rng.uniform(0.5, 1.5, units)).astype(np.float32)
        encodings = ScaleOffset(INPUT, offset), ScaleOffset(INPUT * WEIGHT / multiplier, -32768)
        stored = self.weights.astype(f"int{bits}"), self.bias.astype(np.int32)
        self.model, self.multipliers = model_of(kind, self.x, *stored, scales, *encodings, stride=stride)

    def expected(self, *, whole):
        sums = self.weights.sum(axis=1) if self.weights.ndim == 2 else self.weights.sum(axis=(0, 1, 2))
        if whole:
            exact = sums_of(self.x, self.weights, self.stride) + self.offset * sums + self.bias
            lifted = exact + np.round(32768 / self.multipliers)
            steps = np.floor(lifted * fifteen_bits(self.multipliers) + 0.5)
        else:
            bias = (np.trunc if self.step == 256 else np.round)(self.bias / self.step)
            rest = half_down(self.offset * sums / self.step) + bias
            total = np.floor(sums_of(self.x, self.weights, self.stride) / self.step) + rest
            steps = np.round(total * self.step * self.multipliers) + 32768
        return np.clip(steps, 0, 65535).astype(np.uint16)


CASES = {
    "convolution": (("Conv2d", 3, 8, 16, -30001), False),
    "one tap": (("Conv2d", 1, 40, 8, 0), False),
    "depthwise": (("DepthWiseConv2d", 3, 16, 16, -12345), False),
    "depthwise one tap": (("DepthWiseConv2d", 1, 16, 16, -12345), True),
    "rows": (("FullyConnected", 1, 64, 32, -77), False),
}


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("case", CASES)
def test_equal_to_the_formula(case, bits):
    arguments, whole = CASES[case]
    if whole and bits == 16:
        pytest.skip("computed in floats")
    product = Product(*arguments, bits=bits)
    found = CpuSession(product.model).run({"x": product.x}, native=True)["y"]
    np.testing.assert_array_equal(found, product.expected(whole=whole))


def test_depthwise_with_strides_keeps_the_whole_accumulator():
    product = Product("DepthWiseConv2d", 5, 16, 16, -40000, stride=2)
    found = CpuSession(product.model).run({"x": product.x}, native=True)["y"]
    np.testing.assert_array_equal(found, product.expected(whole=True))


def runs_as_htp():
    """Yield cases but strided depthwise ones of 16 bits: floats compute these."""
    for case, ((kind, *_), _) in CASES.items():
        for stride, bits in ((1, 8), (2, 8), (1, 16), (2, 16)):
            if (stride, bits, kind) != (2, 16, "DepthWiseConv2d"):
                yield case, stride, bits


@pytest.mark.vendor
@pytest.mark.parametrize(("case", "stride", "bits"), list(runs_as_htp()))
def test_equal_to_htp(vendor_check, case, stride, bits):
    arguments, _ = CASES[case]
    product = Product(*arguments, stride=stride if "Conv2d" in arguments[0] else 1, bits=bits)
    found = CpuSession(product.model).run({"x": product.x}, native=True)["y"].astype(np.int64)
    emulated = xdlc.run(product.model, {"x": product.x}, runtime="htp", native=True)["y"]
    steps = np.abs(found - emulated)
    assert steps.max() <= 1
    assert np.count_nonzero(steps) < (0.01 if bits == 8 else 0.05) * steps.size


def matmul(offset):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 65536, (1, 2, 12, 20)).astype(np.uint16)
    w = rng.integers(0, 65536, (1, 2, 20, 8)).astype(np.uint16)
    inputs = [
        Tensor("x", x.shape, dt.UFIXED16, ScaleOffset(INPUT, offset)),
        Tensor("w", w.shape, dt.UFIXED16, ScaleOffset(0.0001, -32768)),
    ]
    target = Tensor("y", (1, 2, 12, 8), dt.UFIXED16, ScaleOffset(0.01, -32768))
    return Model({"g": op_graph("MatMul", inputs, [target])}), {"x": x, "w": w}


@pytest.mark.parametrize("offset", [0, -20001, -32768])
def test_products_of_activations_are_equal_to_the_formula(offset):
    model, feeds = matmul(offset)
    result = CpuSession(model).run(feeds, native=True)["y"]
    w = np.minimum(feeds["w"].astype(np.int64) - 32768, 0x7F7F)
    raw = feeds["x"].astype(np.int64) @ w
    total = np.floor(raw / 65536) + half_down(offset * w.sum(axis=-2, keepdims=True) / 65536)
    entry, other = (tensor.encoding.scale for tensor in model.main.inputs)
    factor = 65536 * entry * other / model.main.outputs[0].encoding.scale
    np.testing.assert_array_equal(result, np.clip(np.round(total * factor) + 32768, 0, 65535))


@pytest.mark.vendor
@pytest.mark.parametrize("offset", [0, -20001, -32768])
def test_products_of_activations_are_equal_to_htp(vendor_check, offset):
    model, feeds = matmul(offset)
    found = CpuSession(model).run(feeds, native=True)["y"].astype(np.int64)
    steps = np.abs(found - xdlc.run(model, feeds, runtime="htp", native=True)["y"])
    assert steps.max() <= 1
    assert np.count_nonzero(steps) < 0.02 * steps.size
