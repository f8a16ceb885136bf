"""Forms for HTP compute what their ops do, and need no further form."""

import numpy as np
import pytest

from tests.support.faulty_ops import CASES, PRECISION, Case, conv, log_softmax, one_op, whole
from tests.support.running import run
from xdlc import passes
from xdlc.ir import u32s

FORMS = [passes.find("avoid_faults")]


@pytest.mark.parametrize("name", CASES)
def test_numbers_stay(name):
    model, feeds = CASES[name]()
    graph = model.main
    expected, result = run(graph, feeds)["y"], graph.outputs[0]
    kind, encoding = result.dtype, result.encoding
    assert passes.run(graph, FORMS)
    graph.verify()
    assert (graph.outputs[0].dtype, graph.outputs[0].encoding) == (kind, encoding)
    found = run(graph, feeds)["y"]
    assert np.linalg.norm(found - expected) <= PRECISION.get(name, 3e-3) * np.linalg.norm(expected)


@pytest.mark.parametrize("name", CASES)
def test_forms_need_no_form(name):
    graph = CASES[name]()[0].main
    passes.run(graph, FORMS)
    count = len(graph.ops)
    passes.run(graph, FORMS)
    assert len(graph.ops) == count


def wide_map() -> Case:
    params = {"filter_size": u32s([2, 2]), "stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]])}
    return whole(one_op("PoolAvg2d", [np.ones((1, 17, 20, 4), np.float32)], (1, 16, 19, 4), params))


@pytest.mark.parametrize(
    "case",
    [
        lambda: log_softmax(64),
        lambda: log_softmax(66, 16),
        wide_map,
        lambda: conv("Conv2d", (1, 8, 9, 5), (3, 3, 5, 6), (1, 8, 9, 6), pad_amount=[[1, 1], [1, 1]]),
        lambda: conv(
            "Conv2d", (1, 8, 9, 5), (3, 3, 5, 6), (1, 8, 9, 6), pad_amount=[[6, 6], [6, 6]], dilation=[6, 6]
        ),
        lambda: conv("Conv2d", (1, 8, 9, 5), (1, 1, 5, 6), (1, 10, 11, 6), pad_amount=[[1, 1], [1, 1]]),
        lambda: conv("DepthWiseConv2d", (1, 8, 9, 32), (1, 1, 1, 32), (1, 8, 5, 32), stride=[1, 2]),
        lambda: conv("TransposeConv2d", (1, 6, 5, 8), (3, 3, 8, 1), (1, 13, 11, 8), stride=[2, 2]),
    ],
    ids=["64", "66", "wide-map", "same", "dilated", "one-tap", "32-channels", "upsampling"],
)
def test_neighbours_stay(case):
    assert not passes.run(case()[0].main, FORMS)
