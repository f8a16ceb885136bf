"""8-bit products: the formula of HTP in numpy, against the graph that we run."""

import numpy as np
import pytest

import xdlc
from tests.runtime.htp_arithmetic.products import model_of, shapes_of, sums_of
from tests.support.single_ops import op_graph
from xdlc.ir import Model, ScaleOffset, Tensor, make_op, u32
from xdlc.ir import dtype as dt
from xdlc.runtime.cpu import CpuSession

INPUT, WEIGHT, OFFSET = 0.02, 0.01, -100
STRIDED = "depthwise with strides"
# kind, taps, channels, units, stride, multiplier
CASES = {
    "convolution": ("Conv2d", 3, 8, 16, 1, 0.004),
    "convolution with strides": ("Conv2d", 3, 3, 16, 2, 0.005),
    "many channels": ("Conv2d", 1, 700, 8, 1, 0.0005),
    "depthwise": ("DepthWiseConv2d", 3, 16, 16, 1, 0.007),
    STRIDED: ("DepthWiseConv2d", 3, 16, 16, 2, 0.007),
    "rows": ("FullyConnected", 1, 64, 32, 1, 0.002),
}


def case_of(kind, taps, channels, units, stride, multiplier, rows=10):
    """Return a model, what goes in, the exact sums and the multipliers."""
    rng = np.random.default_rng(2)
    shape, wide = shapes_of(kind, taps, channels, units, rows)
    x = rng.integers(0, 256, shape).astype(np.uint8)
    weights = rng.integers(-127, 128, wide)
    bias = rng.integers(-3000, 3000, units)
    scales = (WEIGHT * rng.uniform(0.5, 1.5, units)).astype(np.float32)
    encodings = ScaleOffset(INPUT, OFFSET), ScaleOffset(INPUT * WEIGHT / multiplier, -128)
    stored = weights.astype(np.int8), bias.astype(np.int32)
    model, multipliers = model_of(kind, x, *stored, scales, *encodings, stride=stride)
    return model, x, sums_of(x.astype(np.int64) + OFFSET, weights, stride) + bias, multipliers


def expected(accumulator, multipliers, whole):
    if whole:
        unit = 2.0 ** (np.floor(np.log2(multipliers)) - 14)
        kept = np.round(multipliers / unit) * unit
        steps = np.floor((accumulator + np.round(128 / multipliers)) * kept + 0.5)
    else:
        unit = 2.0 ** (-4 - np.floor(np.log2(multipliers)))
        kept = np.round(multipliers * unit * 2**15) / 2**15
        steps = np.floor(kept * (np.floor(accumulator / unit) + 0.5) + 0.5) + 128
    return np.clip(steps, 0, 255)


@pytest.mark.parametrize("case", CASES)
def test_equal_to_the_formula(case):
    model, x, accumulator, multipliers = case_of(*CASES[case])
    found = CpuSession(model).run({"x": x}, native=True)["y"]
    np.testing.assert_array_equal(found, expected(accumulator, multipliers, case == STRIDED))


@pytest.mark.vendor
@pytest.mark.parametrize("case", CASES)
def test_equal_to_htp(vendor_check, case):
    model, x, _, _ = case_of(*CASES[case])
    found = CpuSession(model).run({"x": x}, native=True)["y"].astype(np.int64)
    steps = np.abs(found - xdlc.run(model, {"x": x}, runtime="htp", native=True)["y"])
    assert steps.max() <= 1
    assert np.count_nonzero(steps) < 0.005 * steps.size


def test_an_activation_function_with_a_range_of_its_own_reads_unrounded_values():
    model, x, _, _ = case_of(*CASES["convolution"])
    graph = model.main
    (source,) = graph.outputs
    graph.outputs.clear()
    source.role = source.role.NATIVE
    target = Tensor("z", source.shape, dt.UFIXED8, ScaleOffset(source.encoding.scale / 4, 0))
    graph.append(make_op(graph, "ElementWiseNeuron", [source], [target], {"operation": u32(4)}, name="relu"))
    graph.add_output(target)
    found = CpuSession(model).run({"x": x}, native=True)["z"]
    assert len(np.unique(found)) > 100


def sum_of(first, second, result):
    x = np.repeat(np.arange(256, dtype=np.uint8), 256).reshape(1, 256, 256, 1)
    y = np.tile(np.arange(256, dtype=np.uint8), 256).reshape(x.shape)
    inputs = [
        Tensor(name, x.shape, dt.UFIXED8, ScaleOffset(*encoding))
        for name, encoding in (("x", first), ("y", second))
    ]
    target = Tensor("z", x.shape, dt.UFIXED8, ScaleOffset(*result))
    graph = op_graph("ElementWiseBinary", inputs, [target], {"operation": u32(0)}, name="add")
    return Model({"g": graph}), {"x": x, "y": y}


SUMS = {
    "less than one": ((0.0213, -100), (0.0091, -30), (0.0671, -60)),
    "between one and two": ((0.0213, -100), (0.0131, -120), (0.0297, -110)),
    "more than two": ((0.0913, -3), (0.0331, -200), (0.0297, -90)),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_are_within_a_step_of_exact_ones(case):
    model, feeds = sum_of(*SUMS[case])
    sums = CpuSession(model).run(feeds, native=True)["z"].astype(np.int64)
    (one, two), result = model.main.inputs, model.main.outputs[0].encoding
    real = sum(
        (feeds[tensor.name].astype(np.float64) + tensor.encoding.offset) * tensor.encoding.scale
        for tensor in (one, two)
    )
    exact = np.clip(np.round(real / result.scale) - result.offset, 0, 255)
    assert np.abs(sums - exact).max() <= 1
    assert 0 < np.count_nonzero(sums - exact) < 0.05 * exact.size


@pytest.mark.vendor
@pytest.mark.parametrize("case", SUMS)
def test_sums_are_htps(vendor_check, case):
    model, feeds = sum_of(*SUMS[case])
    found = CpuSession(model).run(feeds, native=True)["z"]
    np.testing.assert_array_equal(found, xdlc.run(model, feeds, runtime="htp", native=True)["z"])
