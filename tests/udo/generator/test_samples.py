"""Operands that the tests of a package start with."""

from __future__ import annotations

import pytest

from tests.udo.generator.configs import op, operand, package
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.udo.generator.build_context import package_view
from xdlc.udo.generator.samples import Case, cases, input_value, param_value


@pytest.mark.parametrize(("stated", "ranks"), [("1D", [1, 3, 1]), ("ND", [2, 3, 2])])
def test_a_place_of_any_rank_gets_the_one_that_other_activations_state(stated: str, ranks: list[int]) -> None:
    static = "<IsStaticTensor>true</IsStaticTensor>"
    text = package(
        "Math",
        op(
            "Flat",
            operand("Input", "x"),
            operand("Input", "weight", rank="3D", more=static),
            operand("Output", "y", rank=stated),
        ),
    )
    (flat,) = package_view(parse_collection(text.encode(), "test.xml")).ops
    case = Case(flat, "everything")
    assert [len(sample.dims) for sample in (*case.inputs, *case.outputs)] == ranks


def test_an_optional_input_states_no_rank_for_others_and_equal_cases_are_one() -> None:
    operands = [
        operand("Input", "x"),
        operand("Input", "gain", rank="1D", optional=True),
        operand("Output", "y"),
    ]
    text = package("Math", op("Scale", *operands), op("Plain", operands[0], operands[2]))
    view = package_view(parse_collection(text.encode(), "test.xml")).core("CPU")
    assert view is not None
    assert [(case.op.type, [len(sample.dims) for sample in case.inputs]) for case in cases(view)] == [
        ("Scale", [2, 1]),
        ("Scale", [2]),
        ("Plain", [2]),
    ]


def test_cases_have_all_operands_the_least_and_a_gap() -> None:
    text = package(
        "Math",
        op(
            "Mix",
            operand("Input", "x", "INT_8,FLOAT_32,SFIXED_POINT_8", rank="2D", text="[a, b]"),
            operand("Input", "low", optional=True),
            operand("Input", "rest", optional=True, more="<Repeated>true</Repeated>"),
            operand("Output", "y", rank="2D", text="[a, b]"),
            operand(
                "Parameter", "mode", "UINT_32", "SCALAR", default="b", optional=True, values=("a", "b", "c")
            ),
            operand("Parameter", "flag", "BOOL_8", "SCALAR", optional=True, default="true"),
        ),
    )
    core = package_view(parse_collection(text.encode(), "test.xml")).core("CPU")
    assert core is not None
    found = {case.what: [input_value(one) for one in case.inputs] for case in cases(core)}
    assert found == {
        "everything": ["(2, 4)"] * 4,
        "the least": ["(2, 4)"],
        "a gap": ["(2, 4)", "None", "(2, 4)", "(2, 4)"],
    }
    params = {case.what: [param_value(one) for one in case.params] for case in cases(core)}
    assert params == {"everything": ["'b'", "True"], "the least": [], "a gap": ["'b'", "True"]}
