"""Traits of op types: the table, and how an op finds its entry."""

import math

import pytest

from xdlc.ir import Graph, Tensor, f32, make_op, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs import elementwise_enums
from xdlc.opdefs.loader import all_types, find
from xdlc.opdefs.traits import _tables, decoded, operation_name, result_range, traits, value_sources


def op_of(type, package=None, **params):
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (1, 4), FLOAT32))
    kwargs = {} if package is None else {"package": package}
    op = make_op(graph, type, [x, x], [Tensor("y", (1, 4), FLOAT32)], params, name="op", **kwargs)
    graph.append(op)
    return op


def test_every_entry_is_an_op_type_or_an_operation():
    operations = {f"ElementWise{name}" for name in (*elementwise_enums.BINARY, *elementwise_enums.UNARY)}
    operations |= set(elementwise_enums.NEURON)
    assert set(_tables()["qti.aisw"]) <= set(all_types()) | operations


@pytest.mark.parametrize("family", ["Binary", "Unary", "Neuron"])
def test_numbers_of_operations_are_those_of_the_definition(family):
    param = find(f"ElementWise{family}").params["operation"]
    names = [name.replace("_", "").lower() for name in param.enumeration]
    expected = [
        name.lower().replace("squareroot", "sqrt") for name in getattr(elementwise_enums, family.upper())
    ]
    assert names == expected
    constants = [getattr(elementwise_enums, name) for name in param.enumeration]
    assert constants == list(range(len(names)))


@pytest.mark.parametrize(
    ("type", "number", "name"),
    [
        ("ElementWiseBinary", 1, "ElementWiseAnd"),
        ("ElementWiseUnary", 15, "ElementWiseSquareRoot"),
        ("ElementWiseNeuron", 7, "ElementWiseSoftplus"),
        ("ElementWiseNeuron", 99, "ElementWiseNeuron"),
        ("Conv2d", 0, "Conv2d"),
    ],
)
def test_an_op_of_many_operations_has_the_name_of_its_operation(type, number, name):
    assert operation_name(op_of(type, operation=u32(number))) == name


def test_ops_of_many_operations_have_the_traits_of_their_operation():
    assert traits(op_of("ElementWiseNeuron", operation=u32(4))) == traits(op_of("Relu"))
    assert traits(op_of("ElementWiseBinary", operation=u32(0))).adds


def test_a_udo_has_no_traits_of_the_native_op_of_its_name():
    assert traits(op_of("Conv2d", package="mine")) == traits(op_of("Nothing"))


def test_inputs_whose_values_reach_the_result():
    assert value_sources(op_of("Concat")) == (0, 1)
    assert value_sources(op_of("Transpose")) == (0,)
    assert value_sources(op_of("Conv2d")) == ()
    assert value_sources(op_of("ScatterElements")) == (0,)  # it has two inputs here
    assert value_sources(op_of("ScatterElements", reduction=u32(1))) == ()


def test_result_range_of_a_clamp_is_that_of_its_parameters():
    assert result_range(op_of("ReluMinMax", min_value=f32(-2.0), max_value=f32(3.0))) == (-2.0, 3.0)
    assert result_range(op_of("ElementWiseNeuron", operation=u32(4))) == (0.0, math.inf)
    assert result_range(op_of("Conv2d")) is None


@pytest.mark.parametrize(
    "entry",
    [{"vieww": True}, {"view": 1}, {"weight": True}, {"gathers": "some"}, {"gathers": [1.0]}, {"macs": 3}],
)
def test_an_entry_of_another_form_is_an_error(entry):
    with pytest.raises(ValueError, match="Foo"):
        decoded("Foo", entry)
