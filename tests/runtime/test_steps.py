"""Iterations as one graph, and accumulators kept apart."""

import numpy as np

from tests.runtime.test_control_flow import growing
from xdlc.ir import Tensor, make_op
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.control_flow import Loop
from xdlc.runtime.steps import Accumulator, accumulators, iteration


def parts():
    model = growing()
    cond, body = model.graphs["main_cond"], model.graphs["main_body"]
    return cond, body, Loop.of(model.main.ops[0], body)


def test_an_accumulator_is_a_state_that_only_grows():
    cond, body, counts = parts()
    concat = body.ops[0]
    grown = accumulators(cond, body, counts)
    assert grown == {0: Accumulator(0, in_front=False)}
    graph, names = iteration(cond, body, grown)
    graph.verify()
    assert [tensor.name for tensor in graph.inputs] == ["i", "n", "x"]
    assert [tensor.name for tensor in graph.outputs] == ["j"]
    assert names == ["x", "j", "more"]
    assert [op.type for op in graph.ops] == ["ElementWiseBinary", "ElementWiseBinary"]
    body.set_inputs(concat, concat.inputs[::-1])
    assert accumulators(cond, body, counts) == {0: Accumulator(0, in_front=True)}


def test_a_state_that_something_reads_is_no_accumulator():
    cond, body, counts = parts()
    concat = body.ops[0]
    other = Tensor("other", (1, 2), FLOAT32, dynamic_axes=(0,))
    body.insert_before(concat, make_op(body, "Relu", [concat.inputs[0]], [other]))
    body.set_inputs(concat, [concat.inputs[0], other])
    assert accumulators(cond, body, counts) == {}


def test_pieces_are_joined_at_either_end():
    none, rows = np.zeros((0, 2)), [np.full((1, 2), number) for number in range(3)]
    assert Accumulator(0, False).joined(none, rows)[:, 0].tolist() == [0, 1, 2]
    assert Accumulator(0, True).joined(none, rows)[:, 0].tolist() == [2, 1, 0]
    assert Accumulator(1, False).joined(none, []) is none
