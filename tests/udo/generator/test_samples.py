"""Operands that the tests of a package start with."""

from __future__ import annotations

import pytest

from tests.udo.generator.configs import op, operand, package
from xdlc.opdefs import parse_collection
from xdlc.udo.generator.samples import Case
from xdlc.udo.generator.viewing import package_view


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
    case = Case(flat, "everything", 0)
    assert [len(sample.dims) for sample in (*case.inputs, *case.outputs)] == ranks
