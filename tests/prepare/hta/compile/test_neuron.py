import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds
from xdlc.ir import ScaleOffset, f32, u32
from xdlc.prepare.hta.compile import compile_section

OPS = {
    "Convert": {},
    "ElementWiseNeuron": {"operation": u32(5), "min_value": f32(-0.5), "max_value": f32(1.5)},
    "HardSwish": {},
    "Quantize": {},
    "Relu": {},
    "Relu6": {},
    "ReluMinMax": {"min_value": f32(-1.0), "max_value": f32(0.7)},
    "Sigmoid": {},
    "Tanh": {},
}
SHAPE = (1, 5, 7, 3)


@pytest.mark.parametrize("kind", OPS)
@given(st.data(), seeds)
@few
def test_functions_give_what_the_host_gives(kind, data, seed):
    bits, wider = data.draw(st.sampled_from([(8, 8), (16, 16), (8, 16), (16, 8)]))
    source = activation("x", SHAPE, data.draw(encodings(bits)), bits)
    target = activation("y", SHAPE, data.draw(encodings(wider)), wider)
    check_equal(one_op(kind, [source], target, OPS[kind]), seed)


@pytest.mark.parametrize("operation", [3, 4, 6, 8])
def test_neurons_are_the_ops_of_their_operations(operation):
    source = activation("x", SHAPE, ScaleOffset(0.03, -100))
    target = activation("y", SHAPE, ScaleOffset(0.02, -90))
    check_equal(one_op("ElementWiseNeuron", [source], target, {"operation": u32(operation)}))


def test_a_function_that_changes_nothing_is_a_copy():
    encoding = ScaleOffset(0.03, 0)
    graph = one_op("Relu", [activation("x", SHAPE, encoding)], activation("y", SHAPE, encoding))
    assert [step.kind for step in compile_section(graph).instructions] == ["copy"]


def test_tables_hold_integers_only():
    graph = one_op(
        "Sigmoid",
        [activation("x", SHAPE, ScaleOffset(0.03, -100), 16)],
        activation("y", SHAPE, ScaleOffset(1 / 256, 0)),
    )
    plan = compile_section(graph)
    (step,) = plan.instructions
    assert {name: plan.array(held).shape for name, held in step.constants.items()} == {"table": (1, 65536)}
    assert plan.array(step.constants["table"]).dtype == np.uint8
