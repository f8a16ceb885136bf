"""Codes of errors: the table, the sites that raise them, and their explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xdlc
from scripts import reference
from xdlc import errors
from xdlc.errors import ModelError, ProblemList, UsageError, XdlcError, nearest_names, problem_table

PROBLEMS = problem_table()["problems"]
SOURCES = Path(xdlc.__file__).parent.rglob("*.py")
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "code", "")]


def test_each_code_is_in_the_table_and_is_raised() -> None:
    raised = {code for path in SOURCES for code in re.findall(r'"(XD\d{3})"', path.read_text())}
    assert raised == set(PROBLEMS)


@pytest.mark.parametrize("kind", CLASSES)
def test_each_class_has_a_general_code_of_its_exit_code(kind: type[XdlcError]) -> None:
    digit = 1 if kind.exit_code == 5 else kind.exit_code
    assert kind.code == f"XD{digit}00"
    assert str(kind.exit_code) in problem_table()["exit_codes"]


def test_codes_begin_with_the_digit_of_the_class_that_raises_them() -> None:
    classes = {kind.__name__: kind.code[2] for kind in CLASSES}
    for path in Path(xdlc.__file__).parent.rglob("*.py"):
        for name, code in re.findall(r'(\w+)\((?:[^()]|\([^()]*\))*code="XD(\d)\d\d"', path.read_text()):
            assert classes.get(name, code) == code, (path, name, code)


@pytest.mark.parametrize("code", PROBLEMS)
def test_each_entry_is_whole_and_is_explained(code: str) -> None:
    entry = PROBLEMS[code]
    assert set(entry) == {"title", "why", "example", "fix", "page"}
    (explanation,) = xdlc.explain(code.lower())
    assert explanation.cause == entry["why"]
    assert (explanation.fix, explanation.example) == (entry["fix"], entry["example"])
    assert explanation.subject.startswith(code)
    assert re.fullmatch(r"https://\S+\.html", explanation.page)


def test_lines_of_xdlc_are_explained_by_their_code() -> None:
    (explanation,) = xdlc.explain("xdlc prepare: error[XD104]: net.dlc: sm7325: 3 op(s) compute in FP16")
    assert explanation.subject.startswith("XD104 ")
    with pytest.raises(UsageError, match="XD999") as caught:
        xdlc.explain("XD999")
    assert "XD104" in caught.value.fix


def test_a_list_has_the_code_of_its_first_problem() -> None:
    error = ProblemList([ModelError("a", code="XD301"), UsageError("b")])
    assert (error.code, error.exit_code) == ("XD301", 3)
    assert (ModelError("a").code, XdlcError("a").code) == ("XD300", "")


def test_no_name_is_guessed_where_none_is_near() -> None:
    assert nearest_names("gpu", ["cpu", "htp", "aip"]) == ""
    assert nearest_names("sm8560", ["sm8550", "qcs6490"]) == "nearest: sm8550"


@pytest.mark.parametrize("table", ["problems.toml", "runtime/vendor_errors.toml"])
def test_fixes_of_tables_call_tools_and_flags_that_exist(table: str) -> None:
    lines = (Path(xdlc.__file__).parent / table).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("example = "))
    assert not re.findall(r"\b(?:xdlc|xconv)-[a-z-]+|--[a-z]+_[a-z_]+", text)
    tools = reference.tools()
    for call in re.findall(r"`xdlc ([a-z][^`]+)`", text):
        name, *words = call.split()
        flags = {flag for option in tools[name].params for flag in option.opts}
        assert {word for word in words if word.startswith("-")} <= flags, call
