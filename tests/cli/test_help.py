"""Help of the tools: headings, examples, pages, and completion of words."""

import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import xdlc
from xdlc.cli import help as help_texts
from xdlc.cli.main import main
from xdlc.cli.tools import explain, link, net_run, quantize
from xdlc.registry import module_names
from xdlc.version import DOCUMENTATION

TABLE = tomllib.loads((Path(xdlc.__file__).parent / "cli" / "help.toml").read_text())
DOCS = Path(xdlc.__file__).parents[1] / "docs"
TITLES = {flag for flags in TABLE["headings"].values() for flag in flags.split()}


def commands() -> Iterator[click.Command]:
    yield main
    for module in module_names("xdlc.cli.tools"):
        tool = import_module(f"xdlc.cli.tools.{module}").main
        yield tool
        yield from tool.commands.values() if isinstance(tool, click.Group) else ()


def shown(command: click.Command) -> dict[str, click.Option]:
    params = command.get_params(click.Context(command))
    return {param.opts[-1]: param for param in params if isinstance(param, click.Option) and not param.hidden}


@pytest.mark.parametrize("command", [*commands()], ids=lambda command: str(command.name))
def test_each_tool_has_a_page_and_examples_that_are_read(command: click.Command) -> None:
    entry = TABLE["tools"][command.name]
    assert (DOCS / f"{entry['page']}.md").is_file(), entry["page"]
    assert len(entry["examples"]) in (2, 3)
    for example in entry["examples"]:
        name, *words = shlex.split(example)
        name, words = (words[0], words[1:]) if name == "xdlc" else (name.removeprefix("xconv-"), words)
        called: Any = main.get_command(click.Context(main), name)
        while isinstance(called, click.Group):
            called, words = called.commands[words[0]], words[1:]
        assert called in (command, *getattr(command, "commands", {}).values()) or command is main
        if "--list" not in words:
            called.make_context(name, words)


@pytest.mark.parametrize("command", [*commands()], ids=lambda command: str(command.name))
def test_every_flag_is_under_a_heading(command: click.Command) -> None:
    common = help_texts._entry(command).get("common", "").split()
    assert set(common) <= set(shown(command)) or "like" in TABLE["tools"][command.name]
    assert not common or set(shown(command)) <= TITLES | set(common)


def test_help_shows_common_flags_and_the_number_of_the_rest() -> None:
    short = CliRunner().invoke(quantize.main, ["--help"]).stdout
    whole = CliRunner().invoke(quantize.main, ["--help-all"]).stdout
    flags = shown(quantize.main)
    assert all(f"{flag} " in whole or f"{flag}\n" in whole for flag in flags)
    common = TABLE["tools"]["xdlc-quantize"]["common"].split()
    assert f"{len(flags) - len(common)} more flags: --help-all" in short
    assert "Bit widths:" in whole
    assert "Bit widths:" not in short
    assert f"{DOCUMENTATION}/guides/accuracy.html" in short


@pytest.mark.parametrize(
    ("command", "words", "incomplete", "value"),
    [
        (quantize.main, ["--soc"], "sm865", "sm8650"),
        (quantize.main, ["--prepare"], "sm8550,sm865", "sm8550,sm8650"),
        (net_run.main, ["net.dlc", "--run"], "", None),
        (net_run.main, [], "net", "net"),
        (link.main, [], "net", "net"),
        (quantize.main, [], "--pre", "--prepare"),
        (explain.main, [], "--ver", "--verbose"),
    ],
)
def test_completion(command: click.Command, words: list[str], incomplete: str, value: str | None) -> None:
    items = ShellComplete(command, {}, "x", "_X").get_completions(words, incomplete)
    assert value is None or value in [item.value for item in items]
