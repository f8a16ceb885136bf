"""Where values lie in the arena, and what a plan shares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hta_models import act, activated, convolution, operation
from xdlc.errors import ConstraintError, ProblemList
from xdlc.ir import Graph, Role, Tensor, make_op
from xdlc.ir import dtype as dt
from xdlc.prepare.hta.compile import compile_section
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.runtime import CpuSession
from xdlc.runtime.hta.form import ALIGNMENT
from xdlc.runtime.hta.session import PlanSession


@st.composite
def graphs(draw):
    """Sums of earlier values of other sizes, in any order; some are outputs, and some nobody reads."""
    graph = Graph("g")
    count = draw(st.integers(1, 3))
    rows = draw(st.integers(1, 3))
    values = [graph.add_input(act(f"x{index}", (rows, 5), 0.05, -128)) for index in range(count)]
    for index in range(draw(st.integers(1, 12))):
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        shape = draw(st.sampled_from([(rows, 5), (7, rows, 5)]))
        if 7 in (*first.shape, *second.shape):
            shape = (7, rows, 5)
        if shape != np.broadcast_shapes(first.shape, second.shape):
            shape = np.broadcast_shapes(first.shape, second.shape)
        made = act(f"v{index}", tuple(shape), 0.08, -100)
        graph.append(make_op(graph, "ElementWiseAdd", [first, second], [made], {}, name=f"op{index}"))
        values.append(made)
    made = values[count:]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique_by=lambda held: held.name))
    for tensor in outputs:
        graph.add_output(tensor)
    return graph


def lives(plan):
    """Return for each buffer the first and the last step of its life."""
    first = dict.fromkeys(plan.inputs, -1)
    last = dict.fromkeys(plan.outputs, len(plan.instructions))
    for number, step in enumerate(plan.instructions):
        for index in step.outputs:
            assert index not in plan.inputs
            first.setdefault(index, number)
        for index in step.inputs:
            assert first[index] < number
            last[index] = max(last.get(index, number), number)
    return {index: (start, last.get(index, start)) for index, start in first.items()}


@settings(max_examples=25, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_values_that_live_together_lie_apart(graph, seed):
    plan = compile_section(graph)
    held = lives(plan)
    spans = {
        index: (plan.buffers[index].offset, plan.buffers[index].offset + plan.buffers[index].nbytes)
        for index in held
    }
    assert all(start % ALIGNMENT == 0 and stop <= plan.arena for start, stop in spans.values())
    for one, (born, died) in held.items():
        for other, (start, stop) in held.items():
            if one < other and born <= stop and start <= died:
                assert spans[one][1] <= spans[other][0] or spans[other][1] <= spans[one][0]
    rng = np.random.default_rng(seed)
    feeds = {tensor.name: rng.integers(0, 256, tensor.shape).astype(np.uint8) for tensor in graph.inputs}
    expected = CpuSession(graph, threads=1).run(feeds, native=True)
    found = PlanSession(plan).run(feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_chain_needs_the_room_of_two_values():
    graph = Graph("g")
    value = graph.add_input(act("x", (1, 100), 0.1, -3))
    for index in range(9):
        made = act(f"v{index}", (1, 100), 0.1 * 1.9 ** (index + 1), -3)
        graph.append(make_op(graph, "ElementWiseAdd", [value, value], [made], {}, name=f"op{index}"))
        value = made
    graph.add_output(value)
    assert compile_section(graph).arena == 2 * 104 - 4


def test_equal_constants_are_stored_once():
    rng = np.random.default_rng(0)
    plan = compile_section(activated(rng, "Conv2d", "Prelu", rounded_too=True))
    assert [step.kind for step in plan.instructions] == ["conv", "conv"]
    first, second = plan.instructions
    assert first.constants["weights"] == second.constants["weights"]


def test_ops_whose_results_nobody_gets_are_left_out():
    rng = np.random.default_rng(0)
    graph = activated(rng, "Conv2d", "Relu", rounded_too=True, zero=9)
    result = graph.tensors["z"]
    graph.outputs.remove(result)
    result.role = Role.NATIVE
    plan = compile_section(graph)
    assert [plan.buffers[index].name for index in plan.instructions[0].outputs] == ["y"]
    assert len(plan.instructions) == 1


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("x", (1, 3), dt.SFIXED8, act("x", (1,), 0.1, 0).encoding),
        Tensor("x", (1, 3), dt.UFIXED8),
        Tensor("x", (0, 3), dt.UFIXED8, act("x", (1,), 0.1, 0).encoding),
        Tensor("x", (1, 3), dt.UFIXED8, act("x", (1,), 0.1, 0).encoding, dynamic_axes=(0,)),
        Tensor("x", (1, 3), dt.FLOAT16),
    ],
)
def test_values_without_a_form_are_refused(tensor):
    with pytest.raises(ConstraintError, match="HTA computes on"):
        PlanBuilder(Graph("g")).buffer(tensor)


def test_all_problems_are_told():
    graph = operation(np.random.default_rng(0), "ElementWisePower", ((1, 3), (1, 3)))
    y = graph.outputs[0]
    z = act("z", y.shape, 1.0, 0)
    graph.append(make_op(graph, "Nothing", [y], [z], {}, name="other"))
    graph.outputs.clear()
    graph.add_output(z)
    with pytest.raises(ProblemList) as caught:
        compile_section(graph)
    assert [problem.node for problem in caught.value.problems] == ["op", "other"]
    assert all("no integer form" in problem.problem for problem in caught.value.problems)


def test_a_plan_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("xdlc.prepare.hta.compile.builder.LARGEST_ARENA", 100)
    with pytest.raises(ConstraintError, match="bytes for values"):
        compile_section(convolution(np.random.default_rng(0)))
