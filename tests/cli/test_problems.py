import pytest
from click.testing import CliRunner

from xdlc.cli.problems import SHOWN_NODES, error_lines, problem_table
from xdlc.cli.text import WIDTH, columns
from xdlc.cli.tool import tool
from xdlc.errors import (
    ConstraintError,
    ModelError,
    ProblemList,
    UnsupportedOp,
    UsageError,
    XdlcError,
    raise_all,
)

LONG = "/encoder/layers.0/attention/self/" + "very_long_" * 9 + "GridSample_12"
FIX = "rewrite this part of the model, or cut the graph before it with --out_name"


def unsupported(node: str, why: str = "attribute mode='cubic' has no QNN operation") -> XdlcError:
    return UnsupportedOp(
        why, where=f"m.onnx: node {node!r} (GridSample, opset 16)", fix=FIX, node=node, op="Grid"
    )


def test_long_names_stay_whole() -> None:
    lines = list(error_lines(ProblemList([unsupported(LONG, "w" * 300), unsupported("b")], where="m.onnx")))
    assert lines[0] == "m.onnx: 2 problem(s)"
    assert [line.strip() for line in lines if len(line) > WIDTH] == [LONG, "w" * 300]  # whole, to be pasted
    assert lines[4].split()[:2] == ["Grid", "XD400:"]  # the row goes on


def test_equal_problems_share_a_row() -> None:
    names = [f"n{number}" for number in range(10)]
    cells = [(name, "Grid", "", "why", "fix") for name in names]
    few = "\n".join(problem_table(cells))
    assert few.count("why") == 2  # in the heading and once below
    assert "n5\n" in few
    assert f"and {10 - SHOWN_NODES} more" in few
    every = "\n".join(problem_table(cells, every_node=True))
    assert all(name in every for name in names)


def test_the_table_says_whose_verdict_it_is() -> None:
    lines = list(problem_table([("a", "Relu", "vendor", "why", "fix")]))
    assert lines[0].split() == ["node", "op", "by", "why", "fix"]
    assert lines[2].split() == ["a", "Relu", "vendor", "why", "fix"]


def test_names_from_files_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(problem_table([("a\x1b[2J", "R\n", "", "w\x07", "f")]))


def test_one_problem_and_problems_of_no_node_stay_text() -> None:
    for error in (unsupported("a"), ProblemList([ModelError("one"), UsageError("two")], where="m.onnx")):
        assert list(error_lines(error)) == [str(error)]


def test_tools_print_the_table() -> None:
    @tool("x")
    def command() -> None:
        raise ProblemList(
            [unsupported("a"), unsupported("b"), UsageError("no", where="m.onnx")], where="m.onnx"
        )

    result = CliRunner().invoke(command)
    assert result.exit_code == UnsupportedOp.exit_code
    assert result.stderr.startswith("x: error[XD400]: m.onnx: 3 problem(s)\n  node  op    why")
    assert "m.onnx: no" in result.stderr


def test_each_soc_has_its_own_table() -> None:
    def refused(soc: str, op: str) -> XdlcError:
        where = f"m.dlc: {soc}: graph 'g': op {op!r} (Softmax)"
        return ConstraintError("no", where=where, fix="do", node=op, op="Softmax")

    errors = [refused("sm8550", "a"), refused("sm8550", "b"), refused("sm8650", "a")]
    lines = list(error_lines(ProblemList(errors)))
    assert lines[0] == "3 problem(s)"
    assert [line for line in lines[1:] if not line.startswith(" ")] == [
        "m.dlc: sm8550: 2 problem(s)",
        "m.dlc: sm8650: 1 problem(s)",
    ]


def test_ops_of_one_graph_share_a_table() -> None:
    errors = [
        UnsupportedOp("no", where=f"graph 'g': op {op!r} (P::T)", fix="do", node=op, op="T") for op in "ab"
    ]
    assert [line.split() for line in error_lines(ProblemList(errors))][3:] == [
        ["a", "T", "XD400:", "no", "do"],
        ["b"],
    ]


def test_problems_that_read_alike_are_told_once() -> None:
    errors = [ModelError("is bad", where="a.so", node=node) for node in (None, None, "n", "n")]
    with pytest.raises(ProblemList) as caught:
        raise_all(errors)
    assert [problem.node for problem in caught.value.problems] == [None, "n"]


def test_problems_of_a_list_in_a_list_are_listed_one_by_one() -> None:
    inner = [ModelError("is bad", where="m.dlc: sm8650", node=name, op="Add") for name in ("a", "b")]
    error = ProblemList([ProblemList(inner, where="m.dlc: sm8650"), ModelError("is odd", where="m.dlc")])
    assert error.problem == "3 problem(s)"
    assert [problem.problem for problem in error.problems] == ["is bad", "is bad", "is odd"]
    assert str(error).count("problem(s)") == 1


def test_a_row_of_columns_goes_on_after_a_name_that_is_too_long() -> None:
    rows = [("Cast", LONG, "why"), ("Relu", "short", "because")]
    assert list(columns(rows, "  ")) == [f"  Cast  {LONG}", "               why", "  Relu  short  because"]
