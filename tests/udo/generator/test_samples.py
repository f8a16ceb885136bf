"""Operands that the tests of a package start with."""

from __future__ import annotations

import pytest

from tests.udo.generator.configs import op, operand, package
from xdlc.opdefs import parse_collection
from xdlc.udo.generator.build_context import package_view
from xdlc.udo.generator.samples import Case, cases, changed_params, every_case, input_value, param_value
from xdlc.udo.generator.variations import EVEN, EVERYTHING, ODD, Sizes


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
    case = Case(flat, EVERYTHING, 0)
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


def test_tests_vary_what_operands_can_be() -> None:
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
    assert [case.what for case in cases(core)] == ["everything", "the least", "a gap"]
    found = {case.what: [input_value(one) for one in case.inputs] for case in every_case(core)}
    assert found == {
        "everything": ["(2, 4)"] * 4,
        "the least": ["(2, 4)"],
        "a gap": ["(2, 4)", "None", "(2, 4)", "(2, 4)"],
        "without rest": ["(2, 4)"] * 2,
        "one repeated": ["(2, 4)"] * 3,
        "three repeated": ["(2, 4)"] * 5,
        "mode a": ["(2, 4)"] * 4,
        "mode c": ["(2, 4)"] * 4,
        "flag false": ["(2, 4)"] * 4,
        "as float32": ["Random((2, 4), 'float32')", *["(2, 4)"] * 3],
        "odd extents": ["(3, 7)"] * 4,
        "extents of 1": ["(1, 1)"] * 4,
    }
    changed = {case.what: [param_value(one) for one in changed_params(case)] for case in every_case(core)}
    assert {what: values for what, values in changed.items() if values} == {
        "mode a": ["'a'"],
        "mode c": ["'c'"],
        "flag false": ["False"],
    }


@pytest.mark.parametrize("sizes", [EVEN, ODD])
def test_tensors_of_any_rank_have_as_many_channels(sizes: Sizes) -> None:
    assert len({shape[-1] for shape in sizes.shapes if shape}) == 1
