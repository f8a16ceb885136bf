"""Shapes that texts of a configuration tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.udo.generator.configs import op, operand, package
from xdlc.opdefs import read_collection
from xdlc.udo.generator.viewing import package_view


def rule(tmp_path: Path, *operands: str) -> tuple[str, ...] | None:
    config = tmp_path / "c.xml"
    config.write_text(package("P", op("A", *operands)))
    return package_view(read_collection(config)).ops[0].shapes


def extents(tmp_path: Path, text: str, *, source: str = "[n, h, w, c]", more: str = "") -> list[str] | None:
    found = rule(
        tmp_path,
        operand("Input", "x", text=source),
        operand("Output", "y", text=text),
        *([more] if more else []),
    )
    if found is None:
        return None
    calls = [line.strip() for line in found if "add_extent" in line]
    return [call.removeprefix("udo::add_extent(outputs[index], ").removesuffix(");") for call in calls]


def test_extents_are_those_of_inputs_of_the_same_name(tmp_path: Path) -> None:
    assert extents(tmp_path, "[n, c]") == ["udo::extent_of(in_0, 0)", "udo::extent_of(in_0, 3)"]


def test_sums_products_and_brackets(tmp_path: Path) -> None:
    (found,) = extents(tmp_path, "[(h - 3) / 2 + 1]") or []
    expected = "((udo::extent_of(in_0, 1) - udo::Extent(3)) / udo::Extent(2)) + udo::Extent(1)"
    assert found == f"({expected})"


def test_integer_parameters_that_are_always_there(tmp_path: Path) -> None:
    given = operand("Parameter", "k", "INT_32", "SCALAR")
    assert extents(tmp_path, "[k]", more=given) == ['udo::Extent(op.integer("k"))']
    given = operand("Parameter", "k", "INT_32", "SCALAR", optional=True, default="-2")
    assert extents(tmp_path, "[k]", more=given) == ['udo::Extent(op.integer("k", -2))']
    assert extents(tmp_path, "[k]", more=operand("Parameter", "k", "INT_32", "SCALAR", optional=True)) is None
    assert extents(tmp_path, "[k]", more=operand("Parameter", "k", "FLOAT_32", "SCALAR")) is None


def test_any_number_of_leading_axes(tmp_path: Path) -> None:
    found = extents(tmp_path, "[.., 4]", source="[.., c]") or []
    assert found[0].startswith("for (std::uint32_t axis = 0; axis < in_0.rank - 1; ++axis)")
    assert found[1] == "udo::Extent(4)"
    assert extents(tmp_path, "[..]", source="[n, c]") is None


@pytest.mark.parametrize(
    "text",
    ["", "as x", "[]", "[n, q]", "[n +]", "[(n]", "[n)]", "[n % 2]", "[n; x()]", "[1.5]", "[99999999999]"],
)
def test_texts_that_tell_no_shape(tmp_path: Path, text: str) -> None:
    assert extents(tmp_path, text) is None


def test_an_optional_input_tells_nothing(tmp_path: Path) -> None:
    optional = operand("Input", "b", text="[k]", optional=True)
    assert rule(tmp_path, operand("Input", "x"), optional, operand("Output", "y", text="[k]")) is None
