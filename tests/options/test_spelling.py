"""Options in texts: names in Python, flags in tools; each one exists."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import xdlc
from xdlc.cli import tools
from xdlc.cli.argv import understood
from xdlc.cli.usage_errors import spelled
from xdlc.options import spell, spelling

ROOT = Path(xdlc.__file__).parent
COMMANDS = {
    module.name: importlib.import_module(f"xdlc.cli.tools.{module.name}").main
    for module in pkgutil.iter_modules(tools.__path__)
}
NOT_OF_OPTIONS = {"c_kernel.py", "advice.py"}
"""Modules that write command lines."""
OTHER_PROGRAMS = {"--upgrade", "--force-reinstall", "--version"}
STORED = {"--random"}
"""Flags in what a DLC stores, which is the same for all callers."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of ``spell`` in the source, with their places."""
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "spell(" in source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "spell":
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def options() -> dict[str, set[str]]:
    """Return the names of the options of verbs and tools; "" has all."""
    named = {
        verb: set(inspect.signature(getattr(xdlc, verb)).parameters)
        for verb in xdlc.__all__
        if inspect.isfunction(getattr(xdlc, verb))
    }
    named["Session"] = set(inspect.signature(xdlc.Session.__init__).parameters)
    groups = [command for command in COMMANDS.values() if isinstance(command, click.Group)]
    commands = [*COMMANDS.values(), *(each for group in groups for each in group.commands.values())]
    flags = {str(param.name) for command in commands for param in command.params}
    named[""] = flags.union(*named.values())
    return named


def test_a_text_names_no_option_that_does_not_exist() -> None:
    named, count = options(), 0
    for place, call in calls():
        name = call.args[0]
        if isinstance(name, ast.Constant):
            verb, _, option = name.value.rpartition(".")
            assert option in named[verb], place
            count += 1
    assert count > 100


@pytest.mark.parametrize(
    ("words", "name", "value", "text"),
    [
        ([], "act_bitwidth", None, "act_bitwidth"),
        ([], "act_bitwidth", 16, "act_bitwidth=16"),
        ([], "prepare.partition", True, "xdlc.prepare(..., partition=True)"),
        (["quantize"], "act_bitwidth", 16, "--act-bitwidth 16"),
        (["quantize"], "input_dims", None, "--input-dim"),
        (["quantize"], "use_lpbq", True, "--use-lpbq"),
        (["quantize"], "input_dims", {"x y": (1, 3), "z": (2,)}, "--input-dim 'x y' 1,3 --input-dim z 2"),
        (["convert", "-s", "x", "1,8"], "define_symbol", {"N": 1}, "--define-symbol N 1"),
        (["quantize"], "prepare.socs", ["sm8650", "a b"], "xdlc prepare net.dlc --soc sm8650,'a b'"),
        (["graph_prepare"], "socs", None, "--soc"),
        (["graph_prepare"], "quantize.target", "sm8650", "xdlc quantize net.dlc --soc sm8650"),
        (
            ["cost"],
            "convert.desired_input_layout",
            {"x": "NHWC"},
            "xdlc convert net.onnx --desired-input-layout x NHWC",
        ),
        (["convert"], "no_such_option", None, "--no-such-option"),
        (["quantize", "--bitwidth", "8"], "act_bitwidth", None, "--bitwidth"),
        (["quantize", "--bitwidth", "8"], "act_bitwidth", 8, "--bitwidth 8"),
        (["quantize", "--bitwidth", "8"], "act_bitwidth", 16, "--act-bitwidth 16"),
        (["convert", "-d", "x", "1,8"], "input_dims", None, "--input-dim"),
        (["caffe_to_dlc", "--caffe_bin", "w"], "weights", None, "--caffe_bin"),
        (["quantize", "--axis_quant=false"], "use_per_row_quantization", None, "--use-per-row-quantization"),
        (["snpe-net-run", "--use_dsp"], "runtime", "htp", "--use_dsp"),
        (["snpe-net-run", "--use_dsp"], "runtime", "cpu", "--runtime cpu"),
        (["snpe-net-run", "--use_dsp=false"], "runtime", None, "--runtime"),
        (["snpe-net-run", "--runtime_order", "dsp,cpu"], "runtime", "htp", "--runtime_order dsp,cpu"),
        (["snpe-net-run", "--runtime_order", "dsp,cpu"], "cpu_fallback", None, "--runtime_order dsp,cpu"),
        (
            ["convert", "--source_model_input_shape", "x", "1,8"],
            "input_dims",
            None,
            "--source_model_input_shape",
        ),
    ],
)
def test_an_option_reads_as_the_caller_writes_it(
    words: list[str], name: str, value: object, text: str
) -> None:
    if not words:
        assert spell(name, value) == text
        return
    context = click.Context(COMMANDS.get(words[0], COMMANDS["net_run"]), info_name=words[0])
    understood(words[1:], context)
    with spelling(lambda name, value: spelled(context, name, value)):
        assert spell(name, value) == text
    assert spell(name) == name.rpartition(".")[2] or "." in name


def test_texts_outside_of_the_tools_have_no_flags() -> None:
    tables = set(ROOT.glob("converter/*/__init__.py"))  # flags of importers
    for path in sorted({*ROOT.rglob("*.py")} - tables):
        if path.relative_to(ROOT).parts[0] in ("cli", "options") or path.name in NOT_OF_OPTIONS:
            continue
        source = path.read_text()
        if "--" not in source:
            continue
        tree = ast.parse(source)
        prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
                text = re.sub(r"`[^`]*`?", "", node.value)
                flags = set(re.findall(r"(?<![\w-])--(?:[a-z][\w-]*|$)", text)) - OTHER_PROGRAMS - STORED
                assert not flags, f"{path.relative_to(ROOT)}:{node.lineno}: {flags}"
