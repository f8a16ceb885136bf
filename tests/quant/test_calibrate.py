import numpy as np
import pytest

from xdlc.errors import ModelError, UsageError
from xdlc.ir import Tensor, make_op, u32
from xdlc.ir.dtype import FLOAT64
from xdlc.quant.calibration.calibrate import CHUNK, calibrate
from xdlc.quant.calibration.statistics import DECAY, VALUES, spread
from xdlc.quant.calibration.worker import Watch
from xdlc.quant.engine import Engine
from xdlc.quant.samples import HELD_OUT
from xdlc.runtime.cpu import CpuSession
from xdlc.worker.executors import open_workers

RELU, ADD, DIVIDE = 4, 0, 2


def network(net):
    n = net(1, 12, 10, 3)
    conv = n.conv(n.x, 16, "conv")
    relu = n.neuron(conv, RELU, "relu")
    summed = n.binary(n.conv(relu, 16, "next"), relu, ADD, "summed")
    flat = n.op("Reshape", [n.mean(summed, "mean")], (16,), "flat")
    return n, n.done(n.op("ElementWiseNeuron", [flat], (16,), "y", operation=u32(RELU)))


def values_of(model, tensors, samples):
    session = CpuSession(model, quantized=False, outputs=[t.name for t in tensors if t.producer is not None])
    results = [{**sample, **session.run(sample)} for sample in samples]
    return {tensor: [result[tensor.name] for result in results] for tensor in tensors}


def activations(model):
    return [tensor for tensor in model.main.tensors.values() if not tensor.is_static]


@pytest.mark.parametrize("count", [1, CHUNK, 2 * CHUNK + 3])
def test_ranges_are_those_of_all_values(net, count):
    n, model = network(net)
    tensors, samples = activations(model), n.samples(count)
    stats = calibrate(model, Watch(tensors), iter(samples), Engine()).statistics
    for tensor, values in values_of(model, tensors, samples).items():
        lows = [float(array.min()) for array in values]
        assert stats[tensor].seen.low == min(lows)
        assert stats[tensor].seen.high == max(float(array.max()) for array in values)
        weights = DECAY ** np.arange(count)[::-1]
        assert stats[tensor].average.low == pytest.approx(np.average(lows, weights=weights), abs=1e-6)
        assert stats[tensor].count == count
        assert stats[tensor].histogram.total == 0


@pytest.mark.parametrize("jobs", [1, 2])
def test_held_out_samples_tell_nothing_of_the_rest_and_values_are_given_in_order(net, jobs):
    n, model = network(net)
    samples, passed = n.samples(HELD_OUT + 2), []
    for sample in samples[HELD_OUT - 1 : HELD_OUT]:
        sample["x"] *= 100.0
    watch = Watch([n.x], outputs=["mean"])

    def give(number, values):
        passed.append((number, values["mean"]))

    with open_workers(jobs) as workers:
        found = calibrate(model, watch, iter(samples), Engine(workers=workers), give)
    rest = [sample["x"] for number, sample in enumerate(samples) if number != HELD_OUT - 1]
    assert found.rest[n.x].seen.high == max(float(array.max()) for array in rest)
    assert found.rest[n.x].count == HELD_OUT + 1
    assert found.statistics[n.x].seen.high > 10 * found.rest[n.x].seen.high
    assert [number for number, _ in passed] == list(range(len(samples)))
    mean = model.main.tensors["mean"]
    for (_, value), wanted in zip(passed, values_of(model, [mean], samples)[mean], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_means_are_those_of_each_channel(net, monkeypatch):
    monkeypatch.setattr("xdlc.quant.calibration.statistics.CLIPS", 100)  # no sample is an outlier
    n, model = network(net)
    tensors, samples = activations(model), n.samples(CHUNK + 2)
    means = calibrate(model, Watch([], averaged=tensors), samples, Engine()).means
    for tensor, values in values_of(model, tensors, samples).items():
        wanted = np.mean([array.reshape(-1, tensor.shape[-1]).mean(axis=0) for array in values], axis=0)
        np.testing.assert_allclose(means[tensor], wanted, atol=1e-5)


def test_histograms_count_values_of_every_sample(net):
    n, model = network(net)
    tensors, samples = activations(model), n.samples(CHUNK + 1)
    found = calibrate(model, Watch(tensors, histograms=True), samples, Engine()).statistics
    for tensor, values in values_of(model, tensors, samples).items():
        histogram = found[tensor].histogram
        assert histogram.total == len(values) * tensor.size  # all of them: the tensors are small
        every = np.float64(values).ravel()
        places = np.floor(every / histogram.width).astype(int) - histogram.first
        np.testing.assert_array_equal(np.bincount(places, minlength=histogram.counts.size), histogram.counts)


def test_histograms_take_a_part_of_large_tensors(net):
    n = net(1, 64, 64, 32)
    conv = n.conv(n.x, 32, "c")
    model, samples = n.done(conv), n.samples(2)
    stats = calibrate(model, Watch([n.x, conv], histograms=True), samples, Engine()).statistics
    for tensor, values in values_of(model, [n.x, conv], samples).items():
        every = np.concatenate([array.ravel() for array in values])
        assert 0.9 * VALUES < stats[tensor].histogram.total / 2 <= VALUES
        assert stats[tensor].seen.high == every.max()
        counts, centres = stats[tensor].histogram.counts, stats[tensor].histogram.centres
        assert np.average(centres, weights=counts) == pytest.approx(
            every.mean(), abs=0.1 * float(every.std())
        )


@pytest.mark.parametrize(("size", "limit"), [(1, 10), (10, 10), (12, 5), (30030, 10), (7, 0)])
def test_spread_stays_within_the_limit_and_the_size(size, limit):
    start, stride = spread(size, limit)
    assert 0 < len(range(start, size, stride)) <= max(limit, 1)


def test_open_extents(net):
    n = net(1, 4, 4, 3)
    n.x.dynamic_axes = (0,)
    y = n.neuron(n.x, RELU, "y")
    y.dynamic_axes = (0,)
    model = n.done(y)
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((count, 4, 4, 3)).astype("f")} for count in (1, 3, 2)]
    found = calibrate(model, Watch([n.x, y], averaged=[y], histograms=True), samples, Engine())
    every = np.concatenate([sample["x"].ravel() for sample in samples])
    assert found.statistics[n.x].seen.low == every.min()
    assert found.statistics[y].seen.high == every.max()
    assert found.statistics[y].histogram.total == found.statistics[n.x].histogram.total == every.size


def test_doubles(net):
    n = net(2)
    double = Tensor("double", (2,), FLOAT64)
    n.graph.append(make_op(n.graph, "Cast", [n.x], [double]))
    model = n.done(n.op("Cast", [double], (2,), "y"))
    found = calibrate(
        model, Watch([double], histograms=True), [{"x": np.float32([-1.5, 2.5])}], Engine()
    ).statistics
    assert (found[double].seen.low, found[double].seen.high) == (-1.5, 2.5)
    assert found[double].histogram.total == 2


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("shape", [(1, 5), (4, 5), (5,), (1, 2, 2, 5)])
def test_nan_is_found_wherever_it_is(net, shape, averaged):
    n = net(*shape)
    y = n.op("ElementWiseNeuron", [n.binary(n.x, n.x, DIVIDE, "d")], shape, "y", operation=u32(RELU))
    model = n.done(y)
    tensors, size = activations(model), int(np.prod(shape))
    for place in range(size):
        bad = np.ones(size, np.float32)
        bad[place] = 0.0
        samples = [{"x": np.ones(shape, np.float32)}, {"x": bad.reshape(shape)}]
        with pytest.raises(ModelError, match=r"sample 1, tensor 'd'(?s:.*)NaN"):
            calibrate(model, Watch(tensors, averaged=tensors if averaged else []), samples, Engine())


def test_nothing_but_nan_is_found(net):
    n = net(1, 5)
    model = n.done(n.neuron(n.binary(n.x, n.x, DIVIDE, "d"), RELU, "y"))
    tensors, zeros = activations(model), [{"x": np.zeros((1, 5), np.float32)}]
    for averaged in (tensors, []):
        with pytest.raises(ModelError, match=r"sample 0, tensor 'd'(?s:.*)NaN"):
            calibrate(model, Watch(tensors, averaged=averaged), zeros, Engine())


def test_the_largest_floats_are_no_nan(net):
    n = net(1, 4, 2)
    model = n.done(n.neuron(n.x, RELU, "y"), n.op("Reshape", [n.x], (1, 8), "z"))
    large = np.float32([[[3e38, -3e38]] * 4])
    found = calibrate(
        model, Watch(activations(model), averaged=activations(model)), [{"x": large}], Engine()
    ).statistics
    assert {statistics.seen.high for statistics in found.values()} == {float(np.float32(3e38))}


# ---------------------------------------------------------------------- processes


def identical(first, two):
    assert list(first.statistics) == list(two.statistics)
    for tensor, mine in first.statistics.items():
        theirs = two.statistics[tensor]
        assert (mine.seen, mine.count, mine.lows, mine.highs) == (
            theirs.seen,
            theirs.count,
            theirs.lows,
            theirs.highs,
        )
        assert (mine.histogram.exponent, mine.histogram.first) == (
            theirs.histogram.exponent,
            theirs.histogram.first,
        )
        np.testing.assert_array_equal(mine.histogram.counts, theirs.histogram.counts)
    for tensor, mean in first.means.items():
        np.testing.assert_array_equal(mean, two.means[tensor])


def test_processes_do_not_change_a_bit(net):
    n, model = network(net)
    tensors, samples = activations(model), n.samples(2 * CHUNK + 3)
    watch = Watch(tensors, tensors, histograms=True)
    alone = calibrate(model, watch, iter(samples), Engine())
    with open_workers(2) as workers:
        shared = calibrate(model, watch, iter(samples), Engine(workers=workers))
    identical(alone, shared)


def test_an_error_in_a_process_is_the_same_error(net):
    n, model = network(net)
    samples = n.samples(CHUNK + 2)
    samples[CHUNK]["x"][0, 0, 0, 0] = np.nan
    for jobs in (1, 2):
        with (
            open_workers(jobs) as workers,
            pytest.raises(UsageError, match=f"sample {CHUNK}, tensor 'x'(?s:.*)NaN") as caught,
        ):
            calibrate(model, Watch(activations(model)), samples, Engine(workers=workers))
        assert (caught.value.code, bool(caught.value.fix)) == ("XD212", True)
        with open_workers(jobs) as workers, pytest.raises(UsageError, match="list of samples is empty"):
            calibrate(model, Watch(activations(model)), [], Engine(workers=workers))
