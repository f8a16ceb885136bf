"""Output of the tools: the JSON object, colors, width, closed pipes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from tests.support.commands import invoke
from tests.support.htp_models import cnn
from xdlc.cli import op_table
from xdlc.cli.main import main
from xdlc.cli.text import columns, painted, table, width
from xdlc.cli.tool import notice, output, result, show, tool, warn, written
from xdlc.cli.tools import info
from xdlc.errors import ConstraintError, ProblemList, StorageError, UsageError, problem_table
from xdlc.ir import Graph, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.input_list import read_input_list

LONG = "/encoder/layers.0/" + "self_attention_" * 3 + "MatMul"


def run(*words: str, **settings: Any) -> Any:
    return CliRunner().invoke(main, [*words], **settings)


@tool("x")
@click.option("--fail", is_flag=True)
@click.option("--structured", is_flag=True)
def command(fail: bool, structured: bool) -> None:
    show("one\ntwo")
    output("three")
    notice("note")
    warn("careful")
    written(Path("net.dlc"))
    if structured:
        result(dB=30)
    if fail:
        problems = [ConstraintError("no", where="m", fix="do", node="n", op="Add", code="XD101")]
        raise ProblemList([*problems, UsageError("bad")])


def test_json_has_the_result_the_warnings_and_the_files() -> None:
    done = CliRunner().invoke(command, ["--json"])
    assert json.loads(done.stdout) == {
        "schema": 1,
        "tool": "x",
        "lines": ["one\ntwo", "three"],
        "notices": ["note"],
        "warnings": ["careful"],
        "written": ["net.dlc"],
        "sizes": {},
        "problems": [],
    }
    assert "careful" in done.stderr
    structured = json.loads(CliRunner().invoke(command, ["--json", "--structured"]).stdout)
    assert structured["dB"] == 30
    assert "lines" not in structured


class Rows:
    """Items that can be read more than once, like the ops of ``xdlc info``."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def test_json_of_iterables_is_that_of_lists() -> None:
    rows: list[Any] = [{"a": [1, {"b": '"\n[]'}], "path": Path("x")}, {}, 3]

    @tool("y")
    @click.option("--lists", is_flag=True)
    def made(lists: bool) -> None:
        form: Any = (lambda *items: [*items]) if lists else Rows
        result(graphs=[{"ops": form(*rows), "none": form()}], rows=form(*rows), last=form())

    streamed, whole = (CliRunner().invoke(made, ["--json", *more]).stdout for more in ([], ["--lists"]))
    assert json.loads(streamed) == json.loads(whole)
    assert '      "ops": [\n        {"a": [1' in streamed


def test_json_has_the_problems() -> None:
    done = invoke(command, "--json", "--fail", code=5)
    first, second = json.loads(done.stdout)["problems"]
    assert first == {
        "code": "XD101",
        "problem": "no",
        "where": "m",
        "fix": "do",
        "node": "n",
        "op": "Add",
        "line": 0,
    }
    assert second["code"] == "XD200"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["info", "--json", "missing.dlc"], "XD801"),
        (["info", "--json", "--nothing"], "XD201"),
        (["quantize", "--json"], "XD202"),
        (["cost", "-i", "missing.dlc", "--json"], "XD801"),
    ],
)
def test_errors_are_json_too(words: list[str], code: str) -> None:
    done = run(*words)
    assert json.loads(done.stdout)["problems"][0]["code"] == code
    assert f"error[{code}]" in done.stderr


def test_each_tool_has_json() -> None:
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for member in command.commands.values() if isinstance(command, click.Group) else [command]:
            assert any("--json" in param.opts for param in member.params), name


def test_json_of_tools() -> None:
    passes = json.loads(run("opt", "--list", "--json").stdout)
    assert len(passes["lines"]) > 10
    assert json.loads(run("explain", "XD104", "--json=true").stdout)["explanations"]
    assert run("udo-config", "schema", "--json", "false").stdout.startswith("<")
    assert run("opt", "--help", "--json").stdout == run("opt", "--help").stdout
    content = json.loads(run("explain", "--json", "XD104", "5005").stdout)
    assert [entry["subject"][:5] for entry in content["explanations"]] == ["XD104", "5005 "]


def test_a_run_warns_of_samples_in_another_scale(tmp_path: Path) -> None:
    model = cnn(quantized=True)
    model.save(tmp_path / "net.dlc")
    for scale, count in ((1, 0), (1000, 1)):
        array = np.random.default_rng(0).random(model.main.inputs[0].shape, np.float32)
        np.save(tmp_path / "0.npy", scale * array)
        (tmp_path / "list.txt").write_text(f"{tmp_path}/0.npy\n")
        words = ("run", f"{tmp_path}/net.dlc", "-l", f"{tmp_path}/list.txt", "-o", f"{tmp_path}/out")
        assert len(json.loads(run(*words, "--json").stdout)["warnings"]) == count


def test_json_has_the_facts_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = cnn(quantized=False)
    model.save("net.dlc")
    Path("samples").mkdir()
    shape = model.main.inputs[0].shape
    for number in range(3):
        np.save(f"samples/{number}.npy", np.random.default_rng(number).random(shape, np.float32))
    facts = json.loads(run("quantize", "net.dlc", "-l", "samples", "--json").stdout)
    (graph,) = facts["graphs"]
    assert graph["totals"]["ops"] == len(model.main.ops)
    assert facts["outputs"][0]["name"] == graph["outputs"][0]["name"]
    assert facts["sizes"] == {path: Path(path).stat().st_size for path in facts["written"]}
    (done,) = json.loads(run("run", "net.dlc", "-l", "samples", "--json").stdout)["runs"]
    assert (done["runtime"], done["results"]) == ("cpu", 3)
    cost = json.loads(run("cost", "net.dlc", "--json").stdout)
    assert (cost["schema"], cost["warnings"]) == (1, [])


def test_words_before_messages_have_colors_when_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    red = "\x1b[31merror[XD204]\x1b[0m"
    words = ("nosuch",)
    assert "\x1b" not in run(*words).stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert red in run(*words).stderr
    assert "\x1b" not in CliRunner().invoke(command, ["--color", "never"]).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*words).stderr
    assert "\x1b[33mwarning\x1b[0m: careful" in CliRunner().invoke(command, ["--color", "always"]).stderr
    assert painted("  fix: do") == "  \x1b[32mfix\x1b[0m: do"
    assert painted("a prefix: do") == "a prefix: do"


@pytest.mark.parametrize(("stated", "used"), [("60", 80), ("132", 132), ("999", 160)])
def test_pages_are_as_wide_as_the_terminal(stated: str, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", stated)
    assert width() == used
    assert max(map(len, columns([("a", "word " * 100)]))) in range(used - 8, used + 1)
    lines = list(table(("node", "op", "why"), [("n", "Add", "word " * 100)], (24, 17)))
    assert max(map(len, lines)) in range(used - 8, used + 1)


def test_names_stay_whole_in_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = list(table(("node", "ops", "why"), [(LONG, LONG, "because of it"), ("a", "b", "c")], (24, 17)))
    assert [line.strip() for line in lines[2:4]] == [LONG, LONG]
    assert lines[4].strip() == "because of it"
    assert lines[5].split() == ["a", "b", "c"]


@pytest.mark.parametrize("words", [["opt", "--list"], ["info", "--help"], ["opt", "--help"]])
def test_a_closed_pipe_ends_a_tool_quietly(words: list[str]) -> None:
    command = [sys.executable, "-m", "xdlc", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() in (0, 141)


def test_help_and_completion() -> None:
    assert run("help", "opt").stdout == run("opt", "--help").stdout
    assert "Commands" in run("help").stdout
    script = run("completion", "zsh").stdout
    assert "_XDLC_COMPLETE" in script
    assert "_XDLC_INFO_COMPLETE" in script
    assert "\\t" not in script


def test_exit_codes_are_in_each_help() -> None:
    codes = problem_table()["exit_codes"].items()
    line = ", ".join(f"{code} {text.partition(':')[0]}" for code, text in codes)
    for name in ("opt", "info", "quantize"):
        assert f"Exit codes: {line}." in " ".join(run(name, "--help").stdout.split())


def test_the_table_of_ops_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = ("x (float32 1x8x8x4 INPUT)", "y (float32 1x8x8x8)", "1x8x8x8")
    row = ("0", "conv", "Conv2d", *ports, "D G C", "a: 1 " * 40)
    totals = {"parameters": 1, "macs": 1}
    wide = list(op_table.lines([row], totals))
    assert max(map(len, wide)) > 200
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    narrow = list(op_table.lines([row], totals))
    assert max(map(len, narrow)) <= 120
    assert sum(line.count("a:") for line in narrow) == 40


def test_missing_samples_are_one_line_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "raw").mkdir(parents=True)
    listing = tmp_path / "data" / "list.txt"
    listing.write_text("".join(f"data/raw/{number}.raw\n" for number in range(16)))
    (tmp_path / "data" / "raw" / "0.raw").touch()
    graph = Graph("g")
    graph.add_input(Tensor("x", (2,), FLOAT32))
    monkeypatch.chdir(tmp_path / "data")
    with pytest.raises(StorageError, match="15 other") as caught:
        read_input_list(Path("list.txt"), graph)
    assert caught.value.code == "XD803"
    assert str(tmp_path) in str(caught.value.fix).split()[-5]
    assert str(tmp_path / "data") not in str(caught.value.fix)


def test_a_dlc_is_not_converted_again(tmp_path: Path) -> None:
    cnn(quantized=False).save(tmp_path / "net.dlc")
    done = run("convert", "-i", str(tmp_path / "net.dlc"))
    assert (done.exit_code, "error[XD209]" in done.stderr) == (2, True)


def test_info_begins_with_what_runs_on_htp_and_what_is_next(tmp_path: Path) -> None:
    path = tmp_path / "net.dlc"
    for quantized, step in ((False, "quantize"), (True, "prepare")):
        cnn(quantized=quantized).save(path)
        lines = run("info", str(path)).stdout.splitlines()
        assert lines[0].startswith("5 of 5 ops on HTP")
        assert lines[1].startswith(f"next: xdlc {step} {path}")
        assert "  ops" not in lines
        assert "  ops" in run("info", str(path), "--ops").stdout.splitlines()
    model = cnn(quantized=False)
    model.main.inputs[0].dynamic_axes = (0,)
    model.save(tmp_path / "open.dlc")
    assert "--input-dim" in run("info", str(tmp_path / "open.dlc")).stdout.splitlines()[1]
    assert run("snpe-dlc-info", "-i", str(path)).stdout.startswith("file ")
    former = CliRunner().invoke(info.main, [str(path)], prog_name="xdlc-info").stdout
    assert former.startswith("file ")
    assert "  ops" in former.splitlines()
