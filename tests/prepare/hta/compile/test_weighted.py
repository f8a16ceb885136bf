"""Plans of convolutions and fully connected ops give the host's integers, all of them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hta_models import both, convolution, rows, transposed
from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, ScaleOffset
from xdlc.ir import dtype as dt
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime.hta.session import PlanSession

FORMS = ("channels", "signed", "unsigned", "zeros")
BIASES = ("steps", "byte", "float", "none")
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
pairs = st.tuples(st.integers(0, 3), st.integers(0, 3))


def assert_same(graph, rng, *, stated=False):
    found, expected = both(graph, rng, stated=stated)
    np.testing.assert_array_equal(found["y"], expected["y"])


@settings(max_examples=40, deadline=None)
@given(
    rng=seeds,
    depthwise=st.booleans(),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(pairs, pairs),
    groups=st.integers(1, 3),
    batch=st.integers(1, 2),
    form=st.sampled_from(FORMS[:3]),
    biased=st.sampled_from(BIASES),
    stated=st.booleans(),
)
def test_a_convolution_of_8_bits(
    rng, depthwise, taps, stride, dilation, pads, groups, batch, form, biased, stated
):
    graph = convolution(
        rng,
        "DepthWiseConv2d" if depthwise else "Conv2d",
        channels=2 * groups,
        units=2 * groups * (1 + depthwise),
        groups=1 if depthwise else groups,
        taps=taps,
        stride=stride,
        dilation=dilation,
        pads=pads,
        batch=batch,
        form=form,
        biased=biased,
    )
    assert_same(graph, rng, stated=stated)


@settings(max_examples=15, deadline=None)
@given(
    rng=seeds,
    depthwise=st.booleans(),
    taps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
    form=st.sampled_from(("channels", "signed")),
    biased=st.sampled_from(("steps", "none")),
)
def test_a_convolution_of_16_bits(rng, depthwise, taps, stride, form, biased):
    kind = "DepthWiseConv2d" if depthwise else "Conv2d"
    options = dict(taps=taps, stride=(stride, stride), form=form, biased=biased, bits=16)
    assert_same(convolution(rng, kind, channels=4, units=4, **options), rng)


@settings(max_examples=25, deadline=None)
@given(
    rng=seeds,
    units=st.integers(1, 9),
    form=st.sampled_from(FORMS[:3]),
    biased=st.sampled_from(BIASES),
    stated=st.booleans(),
)
def test_rows_of_8_bits(rng, units, form, biased, stated):
    assert_same(rows(rng, units=units, form=form, biased=biased), rng, stated=stated)


@pytest.mark.parametrize("shape", [(4, 30), (1, 2, 2, 30), (2, 60)])
@pytest.mark.parametrize("bits", [8, 16])
def test_rows_of_other_shapes(shape, bits):
    rng = np.random.default_rng(5)
    assert_same(rows(rng, shape=shape, bits=bits), rng)


@settings(max_examples=25, deadline=None)
@given(
    rng=seeds,
    groups=st.integers(1, 2),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    longer=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    form=st.sampled_from(FORMS[:3]),
    biased=st.sampled_from(("float", "none")),
)
def test_a_transposed_convolution(rng, groups, taps, stride, dilation, longer, form, biased):
    longer = tuple(min(extra, step - 1) for extra, step in zip(longer, stride, strict=True))
    graph = transposed(
        rng,
        groups=groups,
        taps=taps,
        stride=stride,
        dilation=dilation,
        longer=longer,
        form=form,
        biased=biased,
        pads=((0, 0), (0, 0)),
    )
    assert_near(graph, rng)


def assert_near(graph, rng):
    """The host computes in single precision: next to the middle between two steps it may take the other."""
    found, expected = both(graph, rng)
    difference = np.abs(found["y"].astype(int) - expected["y"])
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= 1 + difference.size // 5000


def test_a_transposed_convolution_with_edges_cut_off():
    rng = np.random.default_rng(8)
    assert_near(transposed(rng, extents=(20, 20)), rng)


def test_a_transposed_convolution_is_exact():
    graph = transposed(np.random.default_rng(9), channels=3, units=2, extents=(3, 4), biased="none")
    tensors = graph.tensors
    x = np.random.default_rng(10).integers(0, 256, (1, 3, 4, 3)).astype(np.uint8)
    found = PlanSession(compile_section(graph)).run({"x": x})["y"]
    entry, result = tensors["x"].encoding, tensors["y"].encoding
    weights = tensors["w"].numpy().astype(int)
    sums = np.zeros((9, 11, 2), int)
    for row, column in np.ndindex(3, 4):
        window = np.tensordot(x[0, row, column].astype(int) + entry.offset, weights, (0, 2))
        sums[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += window
    for (row, column, unit), stored in np.ndenumerate(found[0]):
        steps = int(sums[row + 1, column + 1, unit]) * Fraction(tensors["w"].encoding.scales[unit])
        real = steps * Fraction(entry.scale) / Fraction(result.scale)
        assert stored == min(max(round(real) - result.offset, 0), 255)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda tensors: setattr(tensors["w"], "dtype", dt.SFIXED16), "at most 8 bits"),
        (lambda tensors: setattr(tensors["w"], "encoding", AxisScaleOffset(2, (0.1,) * 5)), "along axis 2"),
        (lambda tensors: setattr(tensors["w"], "data", None), "computed"),
        (lambda tensors: setattr(tensors["b"], "data", None), "bias 'b' is computed"),
        (
            lambda tensors: setattr(tensors["w"], "encoding", ScaleOffset(1e20)),
            "fixed-point multipliers reach",
        ),
        (lambda tensors: setattr(tensors["y"], "dtype", dt.SFIXED8), "HTA computes on ufixed8"),
    ],
)
def test_what_has_no_form_is_refused_with_the_rule(change, rule):
    graph = convolution(np.random.default_rng(1))
    change(graph.tensors)
    with pytest.raises(ConstraintError, match=rule) as caught:
        compile_section(graph)
    assert "op 'op' (Conv2d)" in caught.value.where


@pytest.mark.parametrize("kind", ["Conv2d", "DepthWiseConv2d"])
def test_weights_with_a_zero_point_per_channel(kind):
    rng = np.random.default_rng(11)
    assert_near(convolution(rng, kind, channels=6, form="zeros", extents=(30, 30)), rng)
