import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds
from xdlc.errors import ConstraintError
from xdlc.ir import Graph, ScaleOffset, make_op, static, u32
from xdlc.ir.dtype import UFIXED8
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


def test_what_has_no_table_is_refused():
    inputs = [activation(name, SHAPE, ScaleOffset(0.02, -100)) for name in "xz"]
    power = one_op(
        "ElementWiseBinary", inputs, activation("y", SHAPE, ScaleOffset(0.02)), {"operation": u32(16)}
    )
    with pytest.raises(ConstraintError, match="no integer form of operation Power"):
        compile_section(power)
    source = activation("x", (3,), ScaleOffset(0.02, -100))
    weight = static("w", np.zeros(SHAPE, np.uint8), UFIXED8, ScaleOffset(0.003, -20))
    with pytest.raises(ConstraintError, match="broadcasts its activation"):
        compile_section(
            one_op("ElementWiseMultiply", [source, weight], activation("y", SHAPE, ScaleOffset(0.02)))
        )
