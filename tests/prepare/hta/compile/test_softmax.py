import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, few, one_op, results, seeds, steps_apart, stored_inputs
from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, Tensor, f32, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.prepare.hta.compile import compile_section

RESULTS = [ScaleOffset(1 / 256, 0), ScaleOffset(0.0041, 0), ScaleOffset(0.02, -3)]


@given(st.floats(0.01, 0.3), st.sampled_from([2, 30, 1001]), st.sampled_from(RESULTS), seeds)
@few
def test_classes(scale, classes, result, seed):
    source = activation("x", (6, classes), ScaleOffset(float(np.float32(scale)), -100))
    check_equal(one_op("Softmax", [source], activation("y", (6, classes), result)), seed)


@given(st.sampled_from([1, 2, 3]), seeds)
@few
def test_axes(axis, seed):
    source = activation("x", (1, 5, 4, 6), ScaleOffset(0.05, -100))
    target = activation("y", source.shape, RESULTS[0])
    check_equal(one_op("Softmax", [source], target, {"axis": u32(axis)}), seed)


@pytest.mark.parametrize(("bits", "beta"), [(8, 0.5), (16, 1.0), (16, 2.0)])
def test_where_the_host_computes_reals_one_step_is_the_most(bits, beta):
    top = 1 << bits
    source = activation("x", (200, 30), ScaleOffset(10 / top, -100), bits)
    target = activation("y", source.shape, ScaleOffset(1 / top, 0), bits)
    most, share = steps_apart(one_op("Softmax", [source], target, {"beta": f32(beta)}))
    assert most <= 1
    assert share < 0.005


@pytest.mark.parametrize("bits", [8, 16])
def test_probabilities_of_float32(bits):
    source = activation("x", (20, 30), ScaleOffset(10 / (1 << bits), -100), bits)
    graph = one_op("Softmax", [source], Tensor("y", source.shape, FLOAT32))
    ((want, have),) = results(graph, stored_inputs(graph, 3))
    assert have.dtype == np.float32
    np.testing.assert_allclose(have, want, rtol=2e-6, atol=1e-12)


def test_what_is_far_from_probabilities_is_refused():
    source = activation("x", (2, 3), ScaleOffset(0.05, -100))
    with pytest.raises(ConstraintError, match=r"result in steps of 4\.0"):
        compile_section(one_op("Softmax", [source], activation("y", (2, 3), ScaleOffset(4.0))))
    target = activation("y", (2, 3), RESULTS[0])
    with pytest.raises(ConstraintError, match=r"factor -1\.0, should be positive"):
        compile_section(one_op("Softmax", [source], target, {"beta": f32(-1.0)}))
