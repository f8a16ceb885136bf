"""Infinite values do not count if selections drop them, and are else an error."""

import numpy as np
import pytest

import xdlc
from tests.support.missing_ops import floats
from xdlc.errors import ModelError
from xdlc.ir import Graph, Model, Tensor, dtype, make_op, static, u32
from xdlc.opdefs import elementwise_enums as enums


def reciprocals(least: float) -> Model:
    """Return y = 1 / x where x > least, else x."""
    graph = Graph("main")
    x = graph.add_input(Tensor("x", (1, 8), dtype.FLOAT32))
    shares, y = (Tensor(name, (1, 8), dtype.FLOAT32) for name in ("shares", "y"))
    large = Tensor("large", (1, 8), dtype.BOOL8)
    one, limit = (static(name, np.float32([value])) for name, value in (("one", 1), ("limit", least)))
    graph.append(
        make_op(
            graph, "ElementWiseBinary", [one, x], [shares], {"operation": u32(enums.DIVIDE)}, name="divide"
        )
    )
    graph.append(
        make_op(
            graph, "ElementWiseBinary", [x, limit], [large], {"operation": u32(enums.GREATER)}, name="greater"
        )
    )
    graph.append(make_op(graph, "ElementWiseSelect", [large, shares, x], [y], name="select"))
    graph.add_output(y)
    return Model({"main": graph})


SAMPLE = {"x": np.float32([[0, 0.5, 1, 2, 0, 4, 0.25, 0.5]])}


def test_dropped_infinities_do_not_count_for_ranges():
    model = reciprocals(0.1)
    quantized = xdlc.quantize(model, [SAMPLE])
    encoding = quantized.main.tensors["shares"].encoding
    assert 3.9 < encoding.scale * 255 < 4.2
    result = xdlc.run(quantized, SAMPLE)["y"]
    np.testing.assert_allclose(result, xdlc.run(model, SAMPLE)["y"], atol=0.03)


def test_an_infinity_that_is_selected_is_an_error_of_the_selection():
    with pytest.raises(ModelError) as caught:
        xdlc.quantize(reciprocals(-1.0), [SAMPLE])
    assert "'y'" in caught.value.where


def test_masks_of_samples_may_hold_minus_infinity():
    graph = Graph("main")
    x, mask = (
        graph.add_input(Tensor(name, shape, dtype.FLOAT32)) for name, shape in (("x", (4, 8)), ("m", (1, 8)))
    )
    scores, y = (Tensor(name, (4, 8), dtype.FLOAT32) for name in ("scores", "y"))
    add = {"operation": u32(enums.ADD)}
    graph.append(make_op(graph, "ElementWiseBinary", [x, mask], [scores], add, name="add"))
    graph.append(make_op(graph, "Softmax", [scores], [y], {"axis": u32(1)}, name="softmax"))
    graph.add_output(y)
    model, hidden = Model({"main": graph}), np.arange(8)[None] > 4
    feeds = [{"x": floats(4, 8), "m": np.where(hidden, low, 0).astype("f4")} for low in (-1e9, -np.inf)]
    feeds[1]["x"] = feeds[0]["x"]
    first, second = (xdlc.run(xdlc.quantize(model, [feed]), feed)["y"] for feed in feeds)
    np.testing.assert_array_equal(first, second)
