"""Output extents follow from the parameters."""

import numpy as np
import pytest

import xdlc
from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Model, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs import verify_extents


def graph(type, output, weight=None, **params):
    made = Graph("g")
    x = made.add_input(Tensor("x", (1, 8, 8, 4), FLOAT32))
    inputs = [x] if weight is None else [x, static("w", np.ones(weight, np.float32))]
    values = {key: static("", np.asarray(value, np.uint32)) for key, value in params.items()}
    y = Tensor("y", output, FLOAT32)
    made.append(make_op(made, type, inputs, [y], values))
    made.add_output(y)
    return made


WINDOW = {"stride": [2, 2], "pad_amount": [[1, 1], [1, 1]]}
CASES = [
    ("Conv2d", (1, 4, 4, 6), (3, 3, 4, 6), {**WINDOW, "dilation": [1, 1]}),
    ("DepthWiseConv2d", (1, 4, 4, 4), (3, 3, 1, 4), WINDOW),
    ("PoolMax2d", (1, 4, 4, 4), None, {**WINDOW, "filter_size": [3, 3]}),
    ("TransposeConv2d", (1, 15, 15, 6), (3, 3, 4, 6), WINDOW),
    ("Pad", (1, 10, 8, 4), None, {"pad_amount": [[0, 0], [1, 1], [0, 0], [0, 0]]}),
    ("Tile", (1, 16, 8, 4), None, {"multiples": [1, 2, 1, 1]}),
]


@pytest.mark.parametrize(("type", "output", "weight", "params"), CASES)
def test_extents(type, output, weight, params):
    assert verify_extents(graph(type, output, weight, **params)) == []
    wrong = (output[0], output[1] + 1, *output[2:])
    (problem,) = verify_extents(graph(type, wrong, weight, **params))
    assert isinstance(problem, ConstraintError)
    assert f"make the output {list(output)}, but it is {list(wrong)}" in str(problem)


def test_pool_that_rounds_up_may_keep_or_drop_the_last_window():
    params = {"filter_size": [2, 2], "stride": [3, 3], "pad_amount": [[0, 0], [0, 0]]}
    for extent in (2, 3):
        made = graph("PoolMax2d", (1, extent, extent, 4), None, **params)
        made.ops[0].params["rounding_mode"] = u32(1)
        assert verify_extents(made) == []


def test_host_run_refuses_a_padding_of_millions():
    made = graph("Conv2d", (1, 8, 8, 6), (3, 3, 4, 6), **{**WINDOW, "pad_amount": [[1 << 23, 1], [1, 1]]})
    with pytest.raises(ConstraintError, match="its parameters make the output"):
        xdlc.run(Model({"g": made}), {"x": np.zeros((1, 8, 8, 4), np.float32)})
