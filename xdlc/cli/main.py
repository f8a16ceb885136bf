"""``xdlc``: the tools as sub-commands, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from xdlc import __version__
from xdlc.cli.text import WIDTH
from xdlc.cli.tool import ToolGroup

_MODULES = {
    "convert": "onnx_to_dlc",
    "quant": "quant",
    "quantize": "quantize",
    "graph-prepare": "graph_prepare",
    "info": "info",
    "net-run": "net_run",
    "to-onnx": "to_onnx",
    "platform-check": "platform_check",
    "udo-package-generator": "udo_package_generator",
    "udo-config": "udo_config",
}
_ALIASES = {"onnx-to-dlc": "convert"}


class LazyGroup(ToolGroup):
    """A group whose commands are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(_ALIASES.get(cmd_name, cmd_name))
        return None if module is None else import_module(f"xdlc.cli.{module}").main

    def meaning(self, name: str) -> str | None:
        from xdlc.cli.spellings import COMMANDS

        return COMMANDS.get(name.removeprefix("xdlc-").removeprefix("snpe-").removeprefix("qairt-"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, (self.get_command(ctx, name) or self).get_short_help_str(200)) for name in _MODULES]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.command(
    "xdlc",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Convert, quantize, prepare, run and look into DLC model containers.

    Every command is also a tool of its own, called xdlc-COMMAND; that of `convert` is xconv-onnx-to-dlc.
    """
