"""``xdlc``: the tools as sub-commands, each loaded when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from xdlc.cli import vendor_flags
from xdlc.cli.tool import ToolGroup, group, output, tool
from xdlc.errors import UsageError, nearest_names
from xdlc.registry import module_names

_TOOLS = "xdlc.cli.tools"
_SHORT = {"graph-prepare": "prepare", "net-run": "run"}
"""Commands by the names of their tools, where these are others."""
_OTHER = {short: name for name, short in _SHORT.items()} | {"quant": "quantize"}
"""Tools by other names of their commands."""


class LazyGroup(ToolGroup):
    """A group of the ``main`` commands in ``xdlc.cli.tools``, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [name.replace("_", "-") for name in module_names(_TOOLS)]
        return sorted([*(_SHORT.get(name, name) for name in names), *_OWN])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        tool = vendor_flags.vendor_tools().get(cmd_name) if cmd_name.startswith(vendor_flags.NAMES) else None
        cmd_name = cmd_name if tool is None else tool.removeprefix("xdlc-").removeprefix("xconv-")
        cmd_name = _OTHER.get(cmd_name, cmd_name)
        if _SHORT.get(cmd_name, cmd_name) not in self.list_commands(ctx):
            return None
        if cmd_name in _OWN:
            return _OWN[cmd_name]
        command: click.Command = import_module(f"{_TOOLS}.{cmd_name.replace('-', '_')}").main
        return command

    def meaning(self, name: str) -> UsageError | str | None:
        if lacking := vendor_flags.missing(name):
            return lacking
        known = vendor_flags.sections()["commands"]
        found: str | None = known.get(name.removeprefix("xdlc-").removeprefix("snpe-").removeprefix("qairt-"))
        is_vendors = found is None and name.startswith(vendor_flags.NAMES)
        return nearest_names(name, vendor_flags.vendor_tools(), cutoff=0.8) if is_vendors else found


@group("xdlc", cls=LazyGroup)
def main() -> None:
    """Convert, quantize, prepare, run and inspect DLC model containers.

    You can also run each command as the tool xdlc-COMMAND. Converters for one framework are tools named
    xconv-FRAMEWORK-to-dlc.
    """


@tool("xdlc help")
@click.argument("names", metavar="[TOOL]", nargs=-1)
def show_help(names: tuple[str, ...]) -> None:
    """Show the help of xdlc, or of one tool."""
    main.main([*names, "--help"], "xdlc")


@tool("xdlc completion")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, flags and values in a shell.

    Load the script in the start file of your shell, like ~/.bashrc: eval "$(xdlc completion bash)".
    """
    from importlib.metadata import entry_points

    from click.shell_completion import get_completion_class

    form: Any = get_completion_class(shell)
    for script in entry_points(group="console_scripts"):
        if script.value.startswith("xdlc.cli."):
            variable = f"_{script.name.upper().replace('-', '_')}_COMPLETE"
            output(form(main, {}, script.name, variable).source())


_OWN = {"help": show_help, "completion": completion}
"""Commands that are no tools of their own."""
