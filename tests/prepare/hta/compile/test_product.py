import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, results, seeds
from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, Graph, ScaleOffset, make_op, static, u32
from xdlc.ir.dtype import SFIXED16, UFIXED8, UFIXED16
from xdlc.prepare.hta.compile import compile_section

SHAPE = (1, 5, 7, 3)
KINDS = ["ElementWiseMultiply", "ElementWiseDivide"]
SIGMOID, MULTIPLY = 6, 13


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [SHAPE, (1, 1, 1, 3), (1, 5, 1, 1), (3,)])
@given(st.data(), seeds)
@few
def test_pairs_of_activations(kind, other, data, seed):
    inputs = [activation("x", SHAPE, data.draw(encodings())), activation("z", other, data.draw(encodings()))]
    if data.draw(st.booleans()):
        inputs.reverse()
    check_equal(one_op(kind, inputs, activation("y", SHAPE, data.draw(encodings()))), seed)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), seeds)
@few
def test_static_operands(kind, data, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    values = np.array(data.draw(st.sampled_from([[77], [3, 200, 3]])), np.uint8)
    inputs = [
        activation("x", SHAPE, data.draw(encodings(bits)), bits),
        static("w", values, UFIXED8, ScaleOffset(0.003, -20)),
    ]
    if data.draw(st.booleans()):
        inputs.reverse()
    check_equal(one_op(kind, inputs, activation("y", SHAPE, data.draw(encodings(bits)), bits)), seed)


@given(encodings(), encodings(), seeds)
@few
def test_squares(before, after, seed):
    source = activation("x", SHAPE, before)
    check_equal(one_op("ElementWiseMultiply", [source, source], activation("y", SHAPE, after)), seed)


@pytest.mark.parametrize("operation", [2, MULTIPLY])
def test_operations_of_binary(operation):
    inputs = [activation(name, SHAPE, ScaleOffset(0.02, -100)) for name in "xz"]
    target = activation("y", SHAPE, ScaleOffset(0.05, -128))
    check_equal(one_op("ElementWiseBinary", inputs, target, {"operation": u32(operation)}))


def silu(read):
    """``x * sigmoid(x)``; with ``read``, the gate is given out too."""
    graph = Graph("g")
    source = graph.add_input(activation("x", SHAPE, ScaleOffset(0.05, -128)))
    gate = activation("gate", SHAPE, ScaleOffset(1 / 64, 0))  # so coarse that its rounding would show
    target = activation("y", SHAPE, ScaleOffset(0.03, -10))
    graph.append(
        make_op(graph, "ElementWiseNeuron", [source], [gate], {"operation": u32(SIGMOID)}, name="sigmoid")
    )
    params = {"operation": u32(MULTIPLY)}
    graph.append(make_op(graph, "ElementWiseBinary", [source, gate], [target], params, name="product"))
    graph.add_output(target)
    if read:
        graph.add_output(gate)
    return graph


@pytest.mark.parametrize("read", [False, True])
def test_gates_are_not_rounded_before_the_product(read):
    check_equal(silu(read))
    steps = compile_section(silu(read)).instructions
    assert [step.op for step in steps] == (["sigmoid", "product"] if read else ["product"])


def test_gates_are_rounded_where_every_value_is():
    check_equal(silu(read=False), stated=True)
    kinds = [step.kind for step in compile_section(silu(read=False), stated=True).instructions]
    assert kinds == ["lookup", "lookup_pair"]


def test_what_has_no_table_is_refused():
    inputs = [activation(name, SHAPE, ScaleOffset(0.02, -100)) for name in "xz"]
    power = one_op(
        "ElementWiseBinary", inputs, activation("y", SHAPE, ScaleOffset(0.02)), {"operation": u32(16)}
    )
    with pytest.raises(ConstraintError, match="no integer form of operation Power"):
        compile_section(power)


def test_activations_broadcast_against_static_data():
    source = activation("x", (3,), ScaleOffset(0.02, -100))
    weight = static("w", np.arange(105, dtype=np.uint8).reshape(SHAPE), UFIXED8, ScaleOffset(0.03, -20))
    check_equal(one_op("ElementWiseMultiply", [weight, source], activation("y", SHAPE, ScaleOffset(0.03))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [(16, 16, 16), (8, 16, 16), (16, 8, 8)])
@given(st.data(), seeds)
@few
def test_wide_pairs(kind, bits, data, seed):
    inputs = [
        activation(name, shape, data.draw(encodings(count)), count)
        for name, shape, count in zip("xz", [SHAPE, (1, 5, 1, 3)], bits, strict=False)
    ]
    check_equal(one_op(kind, inputs, activation("y", SHAPE, data.draw(encodings(bits[2])), bits[2])), seed)


def test_divisions_by_zero():
    encodings_of = ScaleOffset(0.001, -32768), ScaleOffset(0.001, -3)
    inputs = [activation(name, (1, 4000), held, 16) for name, held in zip("xz", encodings_of, strict=True)]
    graph = one_op("ElementWiseDivide", inputs, activation("y", (1, 4000), ScaleOffset(0.01, -30000), 16))
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.integers(32766, 32771, (1, 4000)).astype(np.uint16),
        "z": rng.integers(0, 7, (1, 4000)).astype(np.uint16),
    }
    ((want, have),) = results(graph, feeds)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("kind", [*KINDS, "ElementWiseAdd", "ElementWiseSubtract"])
@pytest.mark.parametrize("turned", [False, True])
def test_static_data_of_many_values(kind, turned):
    values = np.arange(20, 60020, 20, dtype=np.uint16)
    inputs = [
        activation("x", (2, 3000), ScaleOffset(0.0002, -9000), 16),
        static("w", values, UFIXED16, ScaleOffset(0.0003, -20000)),
    ]
    graph = one_op(
        kind, inputs[::-1] if turned else inputs, activation("y", (2, 3000), ScaleOffset(0.0005, -30000), 16)
    )
    check_equal(graph)


def test_static_data_of_other_types_is_refused():
    weight = static("w", np.arange(3000, dtype=np.int16), SFIXED16, ScaleOffset(0.0003))
    source = activation("x", (3000,), ScaleOffset(0.0002, -9000), 16)
    graph = one_op("ElementWiseMultiply", [source, weight], activation("y", (3000,), ScaleOffset(0.0005), 16))
    with pytest.raises(ConstraintError, match="static operand of sfixed16"):
        compile_section(graph)


def test_static_data_with_a_scale_per_channel_is_refused():
    scales = AxisScaleOffset(0, (0.1, 0.2, 0.3))
    weight = static("w", np.array([1, 2, 3], np.uint8), UFIXED8, scales)
    source = activation("x", SHAPE, ScaleOffset(0.02, -100))
    graph = one_op("ElementWiseMultiply", [source, weight], activation("y", SHAPE, ScaleOffset(0.02)))
    with pytest.raises(ConstraintError, match="no single scale"):
        compile_section(graph)
