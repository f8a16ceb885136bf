import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xdlc.errors import UsageError
from xdlc.ir import u32
from xdlc.ir.dtype import UFIXED16
from xdlc.ir.quantization import to_float
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.range_methods import Grid, find_range_method, known_range_methods, legacy
from xdlc.quant.range_methods.auto import HEADROOM, with_headroom
from xdlc.quant.ranges import NOTHING, Range, activation_type, asymmetric, range_of, to_quantized

floats = st.floats(-1e6, 1e6, width=32)
arrays = hnp.arrays(np.float32, st.integers(1, 200), elements=floats)
grids = st.builds(Grid, st.sampled_from([8, 16]), st.booleans(), st.floats(90.0, 100.0))
methods = st.sampled_from(known_range_methods())


def statistics(array):
    return Statistics.of(range_of(array), Histogram.of(array))


def find(method, array, grid):
    return find_range_method(method).find(statistics(array), grid)


def heavy(count=20_000, seed=0):
    """Values of which a few are far larger than the rest."""
    return np.random.default_rng(seed).standard_t(3, count).astype(np.float32)


def noise(array, values, grid):
    dtype = activation_type(grid.bits)
    encoding = asymmetric(values, grid.bits)
    back = to_float(to_quantized(array, encoding, dtype), encoding, where="here")
    return float(np.square(back.astype(np.float64) - array).mean())


@given(methods, arrays, grids)
def test_a_range_lies_within_what_was_seen(method, array, grid):
    found = find(method, array, grid)
    assert found.is_finite
    assert found.low <= found.high
    assert found.within(range_of(array))


@given(methods, arrays, grids)
def test_zero_is_exact_and_what_lies_inside_is_off_by_half_a_step(method, array, grid):
    dtype = activation_type(grid.bits)
    found = find(method, array, grid)
    encoding = asymmetric(found, grid.bits)
    inside = array[(array >= found.low) & (array <= found.high)]
    values = np.append(inside, np.float32(0.0))
    back = to_float(to_quantized(values, encoding, dtype), encoding, where="here").astype(np.float64)
    assert back[-1] == 0.0
    slack = 4e-7 * np.abs(values).max()
    assert np.abs(back - values).max() <= encoding.scale / 2 + slack


@given(arrays, grids)
def test_min_max_contains_the_data(array, grid):
    assert find("min-max", array, grid) == range_of(array)


@pytest.mark.parametrize("method", known_range_methods())
@pytest.mark.parametrize("bits", [8, 16])
def test_nothing_seen_gives_nothing(method, bits):
    assert find_range_method(method).find(Statistics(), Grid(bits, 99.99)) == NOTHING


@pytest.mark.parametrize("method", known_range_methods())
@pytest.mark.parametrize("value", [0.0, 5.0, -5.0, 1e-30, -3e38])
@pytest.mark.parametrize("symmetric", [False, True])
def test_equal_values_are_kept(method, value, symmetric):
    found = find(method, np.full(10, value, np.float32), Grid(8, 99.99, symmetric))
    assert found == Range(np.float32(value), np.float32(value))


@pytest.mark.parametrize("method", known_range_methods())
def test_without_a_histogram_all_that_was_seen_is_kept(method):
    seen = Statistics.of(Range(-2.0, 3.0))
    assert find_range_method(method).find(seen, Grid(8, 99.99)) == Range(-2.0, 3.0)


@pytest.mark.parametrize("method", ["sqnr", "mse", "percentile", "entropy"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_an_outlier_is_cut_off(method, symmetric):
    array = np.append(np.random.default_rng(0).standard_normal(100_000), 60.0).astype(np.float32)
    found = find(method, array, Grid(4, 99.9, symmetric))
    assert found.high < 30.0
    assert -6.0 < found.low <= -1.0


@pytest.mark.parametrize("method", ["sqnr", "mse"])
@pytest.mark.parametrize(("bits", "part"), [(8, 0.96), (16, 1.001)])
def test_noise_is_not_above_that_of_min_max(method, bits, part):
    grid, array = Grid(bits, 99.99), heavy()
    assert noise(array, find(method, array, grid), grid) <= part * noise(array, range_of(array), grid)


def test_sqnr_draws_in_only_the_end_that_has_the_outlier():
    rng = np.random.default_rng(0)
    array = np.append(rng.uniform(-1.0, 1.0, 100_000), 8.0).astype(np.float32)
    found = find("sqnr", array, Grid(4, 99.99))
    assert found.low == pytest.approx(-1.0, abs=0.1)
    assert found.high < 2.0


def test_mse_costs_values_on_zero_nothing():
    dense = np.random.default_rng(0).standard_t(4, 5_000).astype(np.float32)
    sparse = np.append(dense, np.zeros(100_000, np.float32))
    assert find("mse", dense, Grid(8, 99.99)).width == pytest.approx(
        find("mse", sparse, Grid(8, 99.99)).width, rel=0.05
    )
    assert find("sqnr", sparse, Grid(8, 99.99)).width < 0.9 * find("sqnr", dense, Grid(8, 99.99)).width


def test_percentile_leaves_out_half_of_the_rest_at_each_end():
    array = np.linspace(-1.0, 3.0, 40_001, dtype=np.float32)
    found = find("percentile", array, Grid(8, 90.0))
    assert found.low == pytest.approx(-0.8, abs=0.01)
    assert found.high == pytest.approx(2.8, abs=0.01)
    assert find("percentile", array, Grid(8, 100.0)) == Range(-1.0, 3.0)


def test_entropy_keeps_all_where_there_are_more_integers_than_bins():
    assert find("entropy", heavy(), Grid(16, 99.99)) == range_of(heavy())


def test_entropy_keeps_both_sides_of_zero_in_proportion():
    array = heavy()
    array[array < 0] *= np.float32(0.5)
    seen, found = range_of(array), find("entropy", array, Grid(8, 99.99))
    assert found.width < seen.width
    assert found.low / seen.low == pytest.approx(found.high / seen.high)


@pytest.mark.parametrize(
    ("name", "stands_for"),
    [
        ("tf", ("min-max", "asymmetric")),
        ("enhanced", ("sqnr", "asymmetric")),
        ("adjusted", ("min-max", "asymmetric")),
        ("symmetric", ("min-max", "symmetric")),
        ("percentile", ("percentile", None)),
    ],
)
def test_names_of_the_older_tools(name, stands_for):
    assert legacy(name) == stands_for
    assert find_range_method(name).name == stands_for[0]


def test_an_unknown_method_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no range method 'percentil'.*known: .*entropy.*") as caught:
        find_range_method("percentil")
    assert "percentile" in str(caught.value.fix)


RELU, SQRT, LOG, ADD = 4, 15, 7, 0


def unary(n, x, operation, name):
    return n.op("ElementWiseUnary", [x], x.shape, name, operation=u32(operation))


def test_both_ends_move_away_from_zero(net):
    n = net(1, 4, 4, 3)
    c = n.conv(n.x, 4, "c")
    model = n.done(c)
    assert with_headroom(model.main, c, Range(-1.5, 4.0)) == Range(-1.5 * HEADROOM, 4.0 * HEADROOM)


def test_an_end_at_zero_or_beyond_stays(net):
    n = net(1, 4, 4, 3)
    r = n.neuron(n.x, RELU, "r")
    model = n.done(r)
    assert with_headroom(model.main, r, Range(0.0, 4.0)) == Range(0.0, 4.0 * HEADROOM)
    assert with_headroom(model.main, r, Range(2.0, 4.0)) == Range(2.0, 4.0 * HEADROOM)
    assert with_headroom(model.main, r, NOTHING) == NOTHING


def test_the_bounds_of_an_op_stay(net):
    n = net(1, 4, 4, 3)
    r = n.op("Relu6", [n.x], n.x.shape, "r")
    model = n.done(r)
    assert with_headroom(model.main, r, Range(0.0, 6.0)) == Range(0.0, 6.0)


@pytest.mark.parametrize("operation", [SQRT, LOG])
def test_small_values_keep_their_step_where_they_are_magnified(net, operation):
    n = net(1, 4, 4, 3)
    square = n.binary(n.x, n.x, 13, "square")
    total = n.reshape(n.binary(square, square, ADD, "total"), (1, 48), "flat")
    model = n.done(unary(n, total, operation, "y"))
    for tensor in (square, total):
        assert with_headroom(model.main, tensor, Range(0.0, 4.0)) == Range(0.0, 4.0)
    assert with_headroom(model.main, n.x, Range(-2.0, 2.0)).high == 2.0 * HEADROOM


def test_another_reader_wants_headroom_again(net):
    n = net(1, 4, 4, 3)
    square = n.binary(n.x, n.x, 13, "square")
    model = n.done(unary(n, square, SQRT, "y"), n.binary(square, n.x, 13, "z"))
    assert with_headroom(model.main, square, Range(0.0, 4.0)).high == 4.0 * HEADROOM


def test_auto_widens_activations_of_16_bits_alone(net, decided):
    n = net(1, 4, 4, 3)
    model = n.done(n.conv(n.x, 4, "c"))
    samples = n.samples(4)
    plain, _ = decided(model, samples, act_bitwidth=16, act_quantizer_calibration="min-max")
    wide, sources = decided(model, samples, act_bitwidth=16, act_quantizer_calibration="auto")
    assert wide["x"][0] is UFIXED16
    assert wide["x"][1].scale == pytest.approx(HEADROOM * plain["x"][1].scale)
    assert sources["x"] == "min-max and headroom of 4 samples"
