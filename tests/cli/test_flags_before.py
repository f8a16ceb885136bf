"""Every flag of the tools from before help showed dashes: it still means the same."""

from pathlib import Path
from typing import Any

import click
import pytest

from xdlc.cli.main import main
from xdlc.cli.params import SourceOption, dashed
from xdlc.cli.tool import Tool
from xdlc.cli.vendor_flags import VOID, entries

LIST = (Path(__file__).parent / "flags_before.txt").read_text()
CONVERTERS = (
    "xconv-caffe-to-dlc, xconv-caffe2-to-dlc, xconv-onnx-to-dlc, xconv-pytorch-to-dlc, "
    "xconv-tensorflow-to-dlc, xconv-tflite-to-dlc, xdlc-convert"
)
COMMON = ("--verbose", "--quiet", "--debug", "--no_crc", "--vendor_lib .")


def lines() -> dict[str, list[tuple[str, str]]]:
    """Return words and what they became, by tool."""
    by_tool: dict[str, list[tuple[str, str]]] = {}
    tools: list[str] = []
    for line in LIST.splitlines()[1:]:
        if line.startswith("  "):
            words, _, value = line.strip().partition(" | ")
            for tool in tools:
                by_tool.setdefault(tool, []).append((words, value))
        else:
            tools = line.rstrip(":").replace("converters", CONVERTERS).split(", ")
    return by_tool


BY_TOOL = lines()


def command(tool: str) -> Tool:
    name, _, inner = tool.partition(" ")
    command = main.get_command(click.Context(main), name.removeprefix("xdlc-").removeprefix("xconv-"))
    if isinstance(command, click.Group):
        command = command.commands[inner]
    assert isinstance(command, Tool)
    return command


def text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(key)}: {text(item)}" for key, item in value.items()) + "}"
    return str(value)


def required(param: click.Parameter) -> list[str]:
    """Return words for a parameter that a call must have."""
    if isinstance(param, click.Argument | SourceOption):
        return ["v0"]
    return [param.opts[-1], *(["v0"] * param.nargs)]


@pytest.mark.parametrize("spelled", [str, dashed])
@pytest.mark.parametrize("tool", BY_TOOL)
def test_flags_of_before_mean_the_same(tool: str, spelled: Any) -> None:
    tool_command = command(tool)
    options = [param for param in tool_command.params if isinstance(param, click.Option)]
    options_by_word = {
        word: param for param in options for word in (*param.opts, *param.secondary_opts)
    } | tool_command.aliases
    for words, value in BY_TOOL[tool]:
        flag, *values = words.split(" ")
        option = options_by_word.get(dashed(flag))
        assert option is not None or entries(tool)[dashed(flag)].kind == VOID
        rest = [
            word
            for param in tool_command.params
            if param.required and param is not option
            for word in required(param)
        ]
        context = tool_command.make_context(tool, [*rest, spelled(flag), *values])
        if option is not None and option.expose_value:
            assert text(context.params[str(option.name)]) == value, words


def test_every_tool_has_the_common_flags() -> None:
    for tool in BY_TOOL:
        options_by_word = {word for param in command(tool).params for word in param.opts}
        assert options_by_word >= {dashed(flag.split()[0]) for flag in COMMON}


def test_the_list_is_whole() -> None:
    assert len(BY_TOOL) == 32
    assert sum(map(len, BY_TOOL.values())) > 800
