"""Forms for HTP compute what the op computes that they replace."""

from __future__ import annotations

import numpy as np
import pytest

from tests.missing_ops import CASES, binary, floats, fused, one_op
from tests.running import run
from xdlc import passes
from xdlc.ir import dtype, static, u32
from xdlc.opdefs import elementwise_enums as enums
from xdlc.passes.avoid_faults import AvoidFaults


def rewritten(graph):
    form = graph.clone()
    passes.run(form, [AvoidFaults()])
    return form


@pytest.mark.parametrize("name", CASES)
def test_forms_compute_the_same_on_the_host(name):
    graph, feeds = CASES[name]()
    form = rewritten(graph)
    assert [(op.type, op.params) for op in form.ops] != [(op.type, op.params) for op in graph.ops]
    lifted = {tensor.name: feeds[tensor.name].reshape(tensor.shape) for tensor in form.inputs}
    expected, result = run(graph, feeds)["y"], run(form, lifted)["y"]
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", ["add-6", "windows", "six-groups", "seven-axes", "sum-of-6"])
def test_no_tensor_of_rank_6_is_left(name):
    form = rewritten(CASES[name]()[0])
    assert max(tensor.rank for tensor in form.tensors.values()) <= 5


def test_broadcasts_that_do_not_fold_stay():
    graph, _ = binary(enums.MAXIMUM, floats(2, 1, 4, 1, 6), floats(1, 3, 1, 5, 1))
    assert [op.type for op in rewritten(graph).ops] == ["ElementWiseBinary"]


@pytest.mark.parametrize(
    ("operation", "limit", "expected"),
    [
        (enums.EQUAL, np.inf, [False, False, True]),
        (enums.EQUAL, -np.inf, [True, False, False]),
        (enums.LESS, np.inf, [True, True, False]),
        (enums.NOT_EQUAL, -np.inf, [False, True, True]),
    ],
)
def test_comparisons_with_infinity_are_with_the_largest_float16(operation, limit, expected):
    x = np.float32([-65504, 1, 65504])
    graph, feeds = binary(operation, x, static("limit", np.float32([limit])), dtype.BOOL8)
    assert run(rewritten(graph), feeds)["y"].tolist() == expected


def test_a_neuron_that_shares_a_product_is_not_fused_and_stays():
    graph, _ = fused("Conv2d", enums.TANH)
    graph.add_output(graph.tensors["small"])
    assert [op.type for op in rewritten(graph).ops] == ["Conv2d", "ElementWiseNeuron"]


def test_scattered_maxima_stay():
    index = np.zeros((2, 3), np.int32)
    operands = [floats(2, 3), index, floats(2, 3)]
    graph, _ = one_op("ScatterElements", operands, (2, 3), axis=u32(1), reduction=u32(3))
    assert [op.type for op in rewritten(graph).ops][-1:] == ["ScatterElements"]
