"""Patterns of ops."""

import numpy as np
import pytest

from xdlc.ir import Graph, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import ADD, MULTIPLY, POWER, RELU, SUBTRACT
from xdlc.passes._match import alone, binary, made, match, matches, neuron, square


@pytest.fixture
def graph():
    graph = Graph("g")
    for name in "xy":
        graph.add_input(Tensor(name, (2,), FLOAT32))
    graph.add_tensor(static("two", np.float32([2])))
    return graph


def emit(graph, type, *inputs, operation=0):
    result = Tensor(graph.unique_name("t"), (2,), FLOAT32)
    tensors = [graph.tensors[one] if isinstance(one, str) else one for one in inputs]
    graph.append(make_op(graph, type, tensors, [result], {"operation": u32(operation)}))
    return result


def found(graph, pattern, tensor):
    return [{key: held.name for key, held in names.items()} for names in matches(graph, pattern, tensor)]


@pytest.mark.parametrize(
    ("operation", "ways"),
    [(ADD, [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}]), (SUBTRACT, [{"a": "x", "b": "y"}]), (MULTIPLY, [])],
)
def test_operands_of_commutative_operations_change_places(graph, operation, ways):
    op = emit(graph, "ElementWiseBinary", "x", "y", operation=operation if ways else POWER)
    assert found(graph, binary(operation, "a", "b"), op) == ways


def test_a_name_is_one_tensor(graph):
    relu = emit(graph, "ElementWiseNeuron", "x", operation=RELU)
    for other, ways in (("x", [{"gate": "t", "a": "x"}]), ("y", [])):
        product = emit(graph, "ElementWiseBinary", other, relu, operation=MULTIPLY)
        assert found(graph, binary(MULTIPLY, neuron(RELU, "a", name="gate"), "a"), product) == ways
    assert match(graph, neuron(RELU, "a"), relu, a=graph.tensors["y"]) is None


@pytest.mark.parametrize(("operation", "second"), [(MULTIPLY, "x"), (POWER, "two")])
def test_alternatives_and_constants(graph, operation, second):
    op = emit(graph, "ElementWiseBinary", "x", second, operation=operation)
    assert found(graph, square("a"), op)[0] == {"a": "x"}
    assert match(graph, square("a"), emit(graph, "ElementWiseBinary", "x", "y", operation=operation)) is None


def test_a_single_reader_and_a_condition(graph):
    view = emit(graph, "Reshape", "x")
    readers = [emit(graph, "Reshape", view)]
    assert match(graph, made("Reshape", alone("Reshape", "a")), readers[0])
    assert match(graph, made("Reshape", "a", where=lambda op: False), view) is None
    readers.append(emit(graph, "Reshape", view))
    assert match(graph, made("Reshape", alone("Reshape", "a")), readers[0]) is None
