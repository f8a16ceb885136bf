"""Forms for HTP compute what the op computes that they replace."""

import numpy as np
import pytest

from tests.support.missing_ops import CASES, binary, floats, fused, integers, one_op
from tests.support.running import run
from xdlc import passes
from xdlc.ir import Graph, Tensor, b8, dtype, make_op, static, u32, u32s
from xdlc.opdefs import elementwise_enums as enums


def rewritten(graph):
    form = graph.clone()
    passes.run(form, [passes.find("avoid_faults")])
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


def test_broadcasts_that_do_not_fold_are_repeated_first():
    graph, feeds = binary(enums.MAXIMUM, floats(2, 1, 4, 1, 6), floats(1, 3, 1, 5, 1))
    form = rewritten(graph)
    assert [op.outputs[0].rank for op in form.ops if op.type == "ElementWiseBinary"] == [1]
    np.testing.assert_array_equal(run(form, feeds)["y"], run(graph, feeds)["y"])


@pytest.mark.parametrize(
    ("operation", "limit", "expected"),
    [
        (enums.EQUAL, np.inf, [False, False, True]),
        (enums.EQUAL, -np.inf, [True, False, False]),
        (enums.LESS, np.inf, [True, True, False]),
        (enums.NOT_EQUAL, -np.inf, [False, True, True]),
        (enums.GREATER, -np.inf, [False, True, True]),
        (enums.GREATER_EQUAL, np.inf, [False, False, True]),
        (enums.LESS_EQUAL, -np.inf, [True, False, False]),
    ],
)
def test_comparisons_with_infinity_are_with_the_largest_float16(operation, limit, expected):
    x = np.float32([-65504, 1, 65504])
    graph, feeds = binary(operation, x, static("limit", np.float32([limit])), dtype.BOOL8)
    assert run(rewritten(graph), feeds)["y"].tolist() == expected


@pytest.mark.parametrize(
    ("operation", "limit", "expected"),
    [
        (enums.GREATER, np.inf, [True, True, False]),
        (enums.LESS, -np.inf, [False, True, True]),
        (enums.EQUAL, np.inf, [False, False, True]),
        (enums.LESS_EQUAL, np.inf, [False, False, True]),
    ],
)
def test_infinity_on_the_left_is_compared_alike(operation, limit, expected):
    x = Tensor("x", (3,), dtype.FLOAT32)
    graph, _ = one_op(
        "ElementWiseBinary",
        [static("limit", np.float32([limit])), x],
        (3,),
        dtype.BOOL8,
        operation=u32(operation),
    )
    result = run(rewritten(graph), {"x": np.float32([-65504, 1, 65504])})
    assert result["y"].tolist() == expected


def test_a_neuron_that_shares_a_product_is_not_fused_and_stays():
    graph, _ = fused("Conv2d", enums.TANH)
    graph.add_output(graph.tensors["small"])
    assert [op.type for op in rewritten(graph).ops] == ["Conv2d", "ElementWiseNeuron"]


def test_a_product_of_one_element_leaves_its_operand_to_others():
    graph, feeds = Graph("one"), {"x": floats(4, 1)}
    x = graph.add_input(Tensor("x", (4, 1), dtype.FLOAT32))
    before, y, z = (Tensor(name, x.shape, x.dtype) for name in ("before", "y", "z"))
    relu, axes = {"operation": u32(enums.RELU)}, {"axes": u32s([1]), "keep_dims": b8(True)}
    graph.append(make_op(graph, "ElementWiseNeuron", [x], [before], relu, name="relu"))
    graph.append(make_op(graph, "ReduceProd", [before], [y], axes, name="op"))
    graph.append(make_op(graph, "ElementWiseNeuron", [before], [z], relu, name="reader"))
    graph.add_output(y)
    graph.add_output(z)
    expected, results = run(graph, feeds), run(rewritten(graph), feeds)
    assert all(np.array_equal(results[name], expected[name]) for name in ("y", "z"))


@pytest.mark.parametrize(("addend", "clips"), [(1.0, 1), (2000.0, 0)])
def test_a_quotient_is_clipped_by_its_own_form_and_for_an_addend_of_1_alone(addend, clips):
    graph, feeds = Graph("soft"), {"x": np.float32([0.5, -3, 20000])}
    x = graph.add_input(Tensor("x", (3,), dtype.FLOAT32))
    size, total, y = (Tensor(name, x.shape, x.dtype) for name in ("size", "total", "y"))
    one = static("one", np.float32([addend]))
    graph.append(make_op(graph, "ElementWiseUnary", [x], [size], {"operation": u32(enums.ABS)}, name="abs"))
    graph.append(
        make_op(graph, "ElementWiseBinary", [size, one], [total], {"operation": u32(enums.ADD)}, name="add")
    )
    graph.append(
        make_op(graph, "ElementWiseBinary", [x, total], [y], {"operation": u32(enums.DIVIDE)}, name="op")
    )
    graph.add_output(y)
    form = rewritten(graph)
    assert [op.type for op in form.ops].count("ElementWiseNeuron") == clips
    np.testing.assert_allclose(run(form, feeds)["y"], run(graph, feeds)["y"], rtol=1e-4)


def test_signs_of_unsigned_numbers_are_0_and_1():
    graph, feeds = one_op("ElementWiseUnary", [np.uint8([0, 1, 200])], (3,), operation=u32(enums.SIGN))
    assert run(rewritten(graph), feeds)["y"].tolist() == [0, 1, 1]


def test_scattered_maxima_stay():
    index = np.zeros((2, 3), np.int32)
    operands = [floats(2, 3), index, floats(2, 3)]
    graph, _ = one_op("ScatterElements", operands, (2, 3), axis=u32(1), reduction=u32(3))
    assert [op.type for op in rewritten(graph).ops][-1:] == ["ScatterElements"]


def test_negative_indices_of_rank_6_are_counted_from_the_start_once():
    shape = (2, 1, 2, 3, 2, 2)
    graph, _ = one_op("GatherElements", [floats(2, 4, 2, 3, 2, 2), integers(*shape)], shape, axis=u32(1))
    assert sum(op.type == "ElementWiseSelect" for op in rewritten(graph).ops) == 1


def test_inputs_of_64_bits_and_rank_6_are_narrowed_once():
    graph, _ = one_op("Cast", [np.zeros((2, 1, 2, 3, 2, 2), np.int64)], (2, 1, 2, 3, 2, 2), dtype.FLOAT32)
    passes.run(graph, passes.htp_query())
    assert max(tensor.rank for tensor in graph.tensors.values()) <= 5


def lstm(steps: int, *, time_major: bool, is_coupled: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    batch, width, units = 2, 3, 5
    shape = (steps, batch, width) if time_major else (batch, steps, width)
    graph, feeds = Graph("cell"), {"x": floats(*shape), "h": floats(batch, units), "c": floats(batch, units)}
    x, hidden, cell = (graph.add_input(Tensor(name, feeds[name].shape, dtype.FLOAT32)) for name in feeds)
    weights = [static(f"w{at}", floats(units, width if at < 3 else units)) for at in range(6)]
    inputs = [x, *weights, *(static(f"b{at}", floats(units)) for at in range(3)), hidden, cell]
    if not is_coupled:
        inputs += [None] * 4 + [static("wi", floats(units, width)), static("ri", floats(units, units))]
        inputs += [None] * 3 + [static("bi", floats(units))]
    results = [Tensor("y", (*shape[:2], units), dtype.FLOAT32)]
    results += [Tensor(name, (batch, units), dtype.FLOAT32) for name in ("last_c", "last_h")]
    params = {"direction": u32(steps != 1), "time_major": b8(time_major)}
    graph.append(make_op(graph, "Lstm", inputs, results, params, name="op"))
    for tensor in results:
        graph.add_output(tensor)
    return graph, feeds


@pytest.mark.parametrize(
    ("steps", "time_major", "is_coupled"), [(4, False, False), (3, True, True), (1, True, False)]
)
def test_a_written_cell_has_all_outputs_of_an_lstm(steps, time_major, is_coupled):
    graph, feeds = lstm(steps, time_major=time_major, is_coupled=is_coupled)
    form = rewritten(graph)
    assert "Lstm" not in {op.type for op in form.ops}
    expected, found = run(graph, feeds), run(form, feeds)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def test_an_lstm_of_very_many_steps_stays():
    graph, _ = lstm(257, time_major=True, is_coupled=False)
    assert [op.type for op in rewritten(graph).ops] == ["Lstm"]


def test_indices_of_batches_count_from_the_end_too():
    index = static("i", np.int32([[[2, -1], [-3, 0]], [[0, 1], [1, 1]]]))
    graph, feeds = one_op("GatherNd", [floats(2, 3, 2, 4), index], (2, 2, 4), batch_dims=u32(1))
    form = rewritten(graph)
    assert [op.type for op in form.ops] == ["Reshape", "Gather", "Reshape"]
    x = feeds["x0"]
    expected = np.stack([x[0, 2, 1], x[0, 0, 0], x[1, 0, 1], x[1, 1, 1]]).reshape(2, 2, 4)
    assert np.array_equal(run(form, feeds)["y"], expected)
