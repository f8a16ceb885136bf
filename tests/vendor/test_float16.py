"""Floats of 16 bits: the host rounds as HTP does, with all kinds of weights."""

from typing import Any

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc.ir import AxisScaleOffset, Encoding, Graph, Model, ScaleOffset, Tensor, make_op, static, u32, u32s
from xdlc.ir.dtype import FLOAT16, SFIXED8

pytestmark = [pytest.mark.vendor, needs_htp]
RNG = np.random.default_rng(0)


def test_the_host_predicts_what_underflows_on_htp():
    model = Model(metadata={"history": [{"tool": "xdlc-quant", "args": {"float_bitwidth": "16"}}]})
    graph = model.add_graph(Graph("magnitude"))
    x = graph.add_input(Tensor("x", (1, 64), FLOAT16))
    power, root = Tensor("power", (1, 64), FLOAT16), Tensor("root", (1, 64), FLOAT16)
    graph.append(make_op(graph, "ElementWiseMultiply", [x, x], [power], name="square"))
    graph.append(make_op(graph, "ElementWiseSquareRoot", [power], [root], name="root"))
    graph.add_output(root)
    feeds = {"x": np.geomspace(1e-5, 1.0, 64).astype(np.float16)[None]}
    host, htp = (run(model, feeds, **chosen)["root"] for chosen in ({}, {"runtime": "htp"}))
    np.testing.assert_allclose(host, htp, rtol=2e-3, atol=1e-7)
    small = feeds["x"] < 1e-4  # their squares are below half of the least float16
    assert small.any()
    assert not host[small].any()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kernel", [1, 3])
def test_eight_bit_weights_beside_float16(kernel, per_channel):
    stored = RNG.integers(-127, 128, (kernel, kernel, 4, 8)).astype(np.int8)
    encoding: Encoding = ScaleOffset(0.01, 0)
    if per_channel:
        encoding = AxisScaleOffset(3, tuple(np.linspace(0.005, 0.02, 8)), (0,) * 8)
    graph = Graph("conv")
    x = graph.add_input(Tensor("x", (1, 6, 6, 4), FLOAT16))
    weight = static("w", stored, dtype=SFIXED8, encoding=encoding)
    y = Tensor("y", (1, 7 - kernel, 7 - kernel, 8), FLOAT16)
    params: dict[str, Any] = {"stride": u32s([1, 1]), "pad_amount": u32s([[0, 0], [0, 0]]), "group": u32(1)}
    graph.append(make_op(graph, "Conv2d", [x, weight], [y], params, name="conv"))
    graph.add_output(y)
    feeds = {"x": RNG.standard_normal((1, 6, 6, 4)).astype(np.float16)}
    host, htp = (run(graph, feeds, **chosen)["y"] for chosen in ({}, {"runtime": "htp"}))
    np.testing.assert_allclose(host, htp, rtol=1e-2, atol=1e-2)
