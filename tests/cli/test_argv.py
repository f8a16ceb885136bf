import re
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support.commands import invoke
from xdlc.cli import params
from xdlc.cli.tool import Tool, tool
from xdlc.cli.tools import graph_prepare, onnx_to_dlc, tflite_to_dlc
from xdlc.registry import module_names


def small() -> tuple[Tool, dict[str, object]]:
    seen: dict[str, object] = {}

    @tool("x")
    @click.option("-o", "--output", "--output_path", "target", type=params.OUTPUT_FILE)
    @click.option("-b", "--brief", is_flag=True)
    @click.option("-t", "--trace", is_flag=True)
    @click.option("--bits", type=click.Choice(["8", "16"]))
    @click.option("--kind", type=click.Choice(["min-max", "mse"]), metavar="NAME")
    @click.option("--steps", metavar="LOW,HIGH")
    @click.option("--mode", is_flag=False, flag_value="info")
    @click.option("--needed", metavar="N", type=int, default=0)
    @click.option("-udo", "--udo_config_paths", "udo", cls=params.PathsOption)
    def command(**options: object) -> None:
        seen.update(options)

    return command, seen


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-oss"], "no option '-oss'\n  fix: write -o ss, with a space"),
        (["-o=a.dlc"], "no option '-o=a.dlc'\n  fix: write -o a.dlc, with a space"),
        (["-bt"], "no option '-bt'\n  fix: write -b -t"),
        (["-sn", "a"], "no option '-sn'\n  fix: see --help for the options"),
        (["--strict"], "no option '--strict'\n  fix: see --help for the options"),
        (["--outputpath", "a"], "no option '--outputpath'\n  fix: nearest: --output-path, --output"),
        (["-o"], "-o: a value is missing\n  fix: write -o FILE"),
        (["--kind", "minmax"], "--kind: 'minmax' is not one of 'min-max', 'mse'\n  fix: nearest: min-max"),
        (["--kind", "other"], "--kind: 'other' is not one of 'min-max', 'mse'\n  fix: write --kind min"),
        (["--bits", "9"], "--bits: '9' is not one of '8', '16'\n  fix: write --bits 8|16"),
        (["--brief=2"], "--brief: accepts no value\n  fix: write --brief alone"),
        (["--bits", "8", "9"], "'9' is an extra value for --bits\n  fix: write --bits 8|16"),
        (["a.dlc"], "unexpected argument 'a.dlc'\n  fix: see --help for the options"),
        (["--debug", "3"], "--debug accepts no value, found '3'\n  fix: write --debug alone"),
        (["-oss", "--wrong", "3"], "2 problem(s)\n- no option '-oss'\n  fix: write -o ss, with a space\n- "),
        (["--needed", "x"], "--needed: 'x' is not a valid integer\n  fix: write --needed N"),
    ],
)
def test_wrong_calls_are_errors_with_a_fix(words: list[str], said: str, tmp_path: Path) -> None:
    command, seen = small()
    result = invoke(command, *words, code=2)
    assert re.sub(r"\[XD2\d\d\]", "", result.stderr).startswith(f"x: error: {said}"), result.stderr
    assert result.stdout == ""
    assert not seen


def test_values_may_begin_with_a_dash() -> None:
    command, seen = small()
    words = ["--steps", "-0x80,0x7F", "-o", "-x.dlc", "--mode", "-b", "-udo", "a", "b", "--bits", "8"]
    assert CliRunner().invoke(command, words).exit_code == 0
    assert (seen["steps"], str(seen["target"]), seen["mode"], seen["brief"]) == (
        "-0x80,0x7F",
        "-x.dlc",
        "info",
        True,
    )
    assert (seen["udo"], seen["bits"]) == (("a", "b"), "8")


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("a.dlc", "a.dlc"),
        ("--soc sm8550 sm8650 a.dlc", "a.dlc"),
        ("--verify a.dlc --soc sm8650", "a.dlc"),
        ("--check a.dlc", "a.dlc"),
        ("--preserve-io layout a.dlc", "a.dlc"),
        ("--input_dlc a.dlc --verify b.dlc", "a.dlc"),
        ("-o b.dlc c", "c"),
        ("--input=a.dlc", "a.dlc"),
    ],
)
def test_a_word_without_a_flag_is_the_file_to_read(words: str, source: str) -> None:
    context = graph_prepare.main.make_context("x", words.split())
    assert str(context.params["source"]) == source


def test_the_last_word_after_files_of_an_option_is_the_file_to_read() -> None:
    words = ["--udo-config-paths", "a.json", "b.json", "net.onnx", "--quiet"]
    context = onnx_to_dlc.main.make_context("x", words)
    assert str(context.params["path"]) == "net.onnx"
    assert context.params["udo_config_paths"] == ("a.json", "b.json")


@pytest.mark.parametrize(
    "words", ["a.dlc b.dlc", "a.dlc -i b.dlc", "-o c.dlc a.dlc b.dlc", "a.dlc --input=b.dlc"]
)
def test_two_files_are_an_error_that_names_both(words: str) -> None:
    result = invoke(graph_prepare.main, *words.split(), code=2)
    assert "a.dlc" in result.stderr.splitlines()[0]
    assert "b.dlc" in result.stderr.splitlines()[0]


def test_a_missing_file_is_named_by_its_place() -> None:
    result = invoke(graph_prepare.main, code=2)
    assert "DLC is missing\n  fix: write " in result.stderr


def commands() -> list[click.Command]:
    mains = [import_module(f"xdlc.cli.tools.{name}").main for name in module_names("xdlc.cli.tools")]
    return [
        command
        for main in mains
        for command in (main.commands.values() if isinstance(main, click.Group) else [main])
    ]


@pytest.mark.parametrize("command", commands(), ids=lambda command: str(command.name))
def test_help_shows_dashes_and_each_letter_has_one_meaning(command: click.Command) -> None:
    for param in command.get_params(click.Context(command)):
        for word in (*param.opts, *param.secondary_opts) if isinstance(param, click.Option) else ():
            assert "_" not in word
            assert word.startswith("--") or params.LETTERS[word] in param.opts


def test_a_shape_after_an_equals_sign_is_an_error() -> None:
    result = invoke(onnx_to_dlc.main, "-i", "net.onnx", "--input_dim=x:1,3", code=2)
    assert "fix: write --input_dim NAME D1,D2,.." in result.stderr


def test_tools_of_one_framework_have_the_hints_of_convert() -> None:
    result = CliRunner().invoke(tflite_to_dlc.main, ["--output_dlc"])
    assert result.stderr.endswith("  fix: write --output\n")
