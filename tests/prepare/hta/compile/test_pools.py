import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds, steps_apart
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, b8, static, u32
from xdlc.prepare.hta.compile import compile_section


def pool(kind, source, encoding, size, stride, pads, *, ceil=False, counts=None):
    bits = source.dtype.bits
    extents = []
    for axis in range(2):
        room = source.shape[1 + axis] + sum(pads[axis]) - size[axis]
        steps = -(-room // stride[axis]) if ceil else room // stride[axis]
        extents.append(steps + 1)
    params = {
        "filter_size": static("size", np.array(size, np.uint32)),
        "stride": static("stride", np.array(stride, np.uint32)),
        "pad_amount": static("pads", np.array(pads, np.uint32)),
        "rounding_mode": u32(int(ceil)),
    }
    if counts is not None:
        params["count_pad_for_edges"] = b8(counts)
    shape = (source.shape[0], *extents, source.shape[3])
    return one_op(kind, [source], activation("y", shape, encoding, bits), params)


SHAPE = (1, 7, 6, 5)


@st.composite
def windows(draw):
    size = [draw(st.integers(1, 3)) for _ in range(2)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    pads = [[draw(st.integers(0, extent - 1)) for _ in range(2)] for extent in size]
    ceil = draw(st.booleans())
    if ceil:  # else a window could start behind the input
        stride = [min(one, two) for one, two in zip(stride, size, strict=True)]
        pads = [[before, 0] for before, _ in pads]
    return {"size": size, "stride": stride, "pads": pads, "ceil": ceil}


@given(windows(), st.data(), seeds)
@few
def test_maxima(window, data, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    before = data.draw(encodings(bits))
    after = data.draw(st.one_of(st.just(before), encodings(bits)))
    check_equal(pool("PoolMax2d", activation("x", SHAPE, before, bits), after, **window), seed)


@given(windows(), st.data(), seeds)
@few
def test_averages(window, data, seed):
    before = data.draw(encodings())
    after = data.draw(st.one_of(st.just(before), encodings()))
    counts = data.draw(st.booleans())
    check_equal(pool("PoolAvg2d", activation("x", SHAPE, before), after, **window, counts=counts), seed)


@given(encodings(), st.sampled_from([(2, 2), (4, 8), (7, 7), (13, 3)]), seeds)
@few
def test_averages_of_whole_images(encoding, size, seed):
    source = activation("x", (1, *size, 20), encoding)
    check_equal(pool("PoolAvg2d", source, encoding, size, (1, 1), [[0, 0], [0, 0]]), seed)


def test_ties_are_decided_as_on_the_host():
    """A quarter of all means of four are halfway between two steps where encodings are the same."""
    source = activation("x", (1, 32, 32, 16), ScaleOffset(0.0371, -77))
    check_equal(pool("PoolAvg2d", source, source.encoding, (2, 2), (2, 2), [[0, 0], [0, 0]]))


@pytest.mark.parametrize(("size", "stride"), [((2, 2), (2, 2)), ((3, 4), (1, 3)), ((15, 13), (1, 1))])
def test_averages_of_16_bits(size, stride):
    source = activation("x", (1, 15, 13, 16), ScaleOffset(0.00011, -30000), 16)
    for result in (source.encoding, ScaleOffset(0.0001, -31000)):
        check_equal(pool("PoolAvg2d", source, result, size, stride, [[0, 0], [0, 0]]))


def mean(shape, axes, before, after, *, keep, bits=8):
    result = [1 if axis in axes else shape[axis] for axis in range(len(shape)) if keep or axis not in axes]
    params = {"axes": static("axes", np.array(axes, np.uint32)), "keep_dims": b8(keep)}
    return one_op(
        "ReduceMean", [activation("x", shape, before, bits)], activation("y", result, after, bits), params
    )


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", [[1, 2], [1], [2, 1]])
@given(st.data(), seeds)
@few
def test_means_of_rows(keep, axes, data, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    before, after = data.draw(encodings(bits)), data.draw(encodings(bits))
    check_equal(mean((1, 7, 5, 6), axes, before, after, keep=keep, bits=bits), seed)


@pytest.mark.parametrize("axes", [[2], [3], [1, 2, 3]])
def test_other_means_are_exact_where_the_host_rounds_sums(axes):
    graph = mean((1, 8, 12, 16), axes, ScaleOffset(0.0371, -77), ScaleOffset(0.0371, -77), keep=False)
    most, share = steps_apart(graph)
    assert most <= 1
    assert share < 0.05


def test_zeros_that_are_no_stored_integer_are_refused():
    source = activation("x", (1, 4, 4, 2), ScaleOffset(0.02, -300))
    with pytest.raises(ConstraintError, match="a zero within them"):
        compile_section(pool("PoolAvg2d", source, ScaleOffset(0.02), (2, 2), (2, 2), [[0, 0], [0, 0]]))


@pytest.mark.parametrize("kind", ["PoolAvg2d", "PoolMax2d"])
def test_windows_in_the_padding_are_refused(kind):
    source = activation("x", (1, 3, 3, 2), ScaleOffset(0.02, -30))
    params = {
        "filter_size": static("size", np.array([1, 1], np.uint32)),
        "stride": static("stride", np.array([1, 1], np.uint32)),
        "pad_amount": static("pads", np.array([[1, 1], [1, 1]], np.uint32)),
    }
    graph = one_op(kind, [source], activation("y", (1, 5, 5, 2), source.encoding), params)
    with pytest.raises(ConstraintError, match="hold nothing of its input"):
        compile_section(graph)
