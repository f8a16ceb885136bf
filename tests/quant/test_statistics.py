import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from xdlc.errors import ModelError
from xdlc.ir import static
from xdlc.quant.advice import most_reach
from xdlc.quant.calibration.statistics import BINS, Histogram, Statistics, share_below
from xdlc.quant.ranges import NOTHING, range_of
from xdlc.quant.weights import channel_ranges
from xdlc.quant.widening.activations import typical_steps

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
near = st.floats(-8, 8, width=32)
some = st.one_of(arrays("f4", st.integers(0, 40), elements=e) for e in (numbers, near))


def of(values):
    return Statistics.of(range_of(values), Histogram.of(values))


def same(one, two):
    return (one.exponent, one.first, one.counts.tolist()) == (two.exponent, two.first, two.counts.tolist())


@given(some)
def test_each_value_is_counted_in_its_bin(values):
    histogram = Histogram.of(values)
    assert histogram.total == values.size
    assert histogram.counts.size <= BINS
    for value, count in zip(*np.unique(values, return_counts=True), strict=True):
        place = math.floor(math.ldexp(float(value), -histogram.exponent)) - histogram.first
        assert histogram.counts[place] >= count
    if values.size:
        edges = histogram.edges
        assert edges[0] <= values.min() < edges[1]
        assert edges[-2] <= values.max() < edges[-1]


@given(some, some)
def test_merged_histograms_are_those_of_all_values(one, two):
    merged = Histogram.of(one).merge(Histogram.of(two))
    assert same(merged, Histogram.of(np.concatenate([one, two])))
    assert same(merged, Histogram.of(two).merge(Histogram.of(one)))


@given(some, some, some)
def test_merging_histograms_is_associative(one, two, three):
    a, b, c = Histogram.of(one), Histogram.of(two), Histogram.of(three)
    assert same(a.merge(b).merge(c), a.merge(b.merge(c)))


@given(st.lists(some, max_size=4))
@settings(max_examples=50)
def test_merged_statistics_are_those_of_all_samples(samples):
    merged = Statistics()
    for sample in samples:
        merged = merged.merge(of(sample))
    every = np.concatenate([np.zeros(0, "f4"), *samples])
    assert merged.seen == range_of(every)
    assert merged.count == sum(sample.size > 0 for sample in samples)
    assert same(merged.histogram, Histogram.of(every))
    if every.size:
        assert merged.seen.low <= every.min() <= every.max() <= merged.seen.high
        assert merged.average.low <= merged.average.high


@given(st.lists(some, min_size=3, max_size=3))
def test_merging_statistics_is_associative(samples):
    a, b, c = map(of, samples)
    one, two = a.merge(b).merge(c), a.merge(b.merge(c))
    assert (one.seen, one.count) == (two.seen, two.count)
    assert same(one.histogram, two.histogram)
    assert one.lows == pytest.approx(two.lows, rel=1e-12)  # sums of reals, which rounding makes differ
    assert one.highs == pytest.approx(two.highs, rel=1e-12)


@given(some)
def test_the_average_range_of_one_sample_is_its_range(values):
    assert of(values).average == range_of(values)


def test_nothing_seen():
    nothing = of(np.zeros((0, 3), "f4"))
    assert nothing.seen == nothing.average == NOTHING
    assert (nothing.count, nothing.histogram.total) == (0, 0)
    some = of(np.float32([1, 2]))
    assert nothing.merge(some).seen == some.merge(nothing).seen == some.seen


@given(numbers, st.integers(1, 50))
def test_a_constant_takes_one_bin(value, count):
    histogram = Histogram.of(np.full(count, value, "f4"))
    assert histogram.counts.tolist() == [count]
    assert histogram.edges[0] <= value < histogram.edges[1]
    assert histogram.width <= max(abs(value) * 2.0**-40, 2.0**-126)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        Histogram.of(np.float32([1.0, bad]))
    for axis in (None, 1):
        with pytest.raises(ModelError, match=r"'w'.*NaN or infinite"):
            channel_ranges(static("w", np.float32([[1.0, bad]])), axis)


@given(arrays("f4", st.tuples(*[st.integers(1, 4)] * 3), elements=numbers), st.integers(0, 2))
def test_channels_have_the_ranges_that_each_has_alone(values, axis):
    channels = channel_ranges(static("w", values), axis)
    assert channels.whole == channel_ranges(static("w", values), None).whole == range_of(values)
    for index, largest in enumerate(channels.largest):
        alone = channel_ranges(static("c", np.take(values, [index], axis)), None)
        assert largest == alone.largest[0]


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64])
def test_the_size_below_which_a_share_lies(kind):
    counts = (np.full(1000, 0.1) if kind is not np.int64 else np.full(1000, 1)).astype(kind)
    sizes = np.arange(1000.0)
    for share in (0.0, 0.5, 0.999, np.nextafter(1.0, 2.0), 1.0):  # sums of 0.1 are rounded
        assert share_below(sizes, counts, share) == pytest.approx(max(1000 * min(share, 1.0) - 1, 0), abs=1)
    assert share_below(np.zeros(0), np.zeros(0, kind), 0.5) == 0.0
    assert share_below(sizes, np.zeros(1000, kind), 0.5) == 0.0


def test_an_empty_histogram_reaches_nothing():
    assert most_reach(Histogram()) == 0.0
    assert typical_steps(Statistics()) == float("inf")


def test_a_histogram_that_travels_keeps_its_counts():
    for values in (np.float32([]), np.float32([1.0, 2.0]), np.zeros(70_000, np.float32)):
        histogram = Histogram.of(values)
        copy = pickle.loads(pickle.dumps(histogram))
        assert (copy.exponent, copy.first, copy.counts.dtype) == (
            histogram.exponent,
            histogram.first,
            np.int64,
        )
        np.testing.assert_array_equal(copy.counts, histogram.counts)
