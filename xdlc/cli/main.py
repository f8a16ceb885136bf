"""``xdlc``: the tools as sub-commands, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from xdlc import __version__
from xdlc.cli.text import WIDTH
from xdlc.cli.tool import help_on_a_full_disk
from xdlc.errors import nearest_names

_MODULES = {
    "onnx-to-dlc": "onnx_to_dlc",
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
_ALIASES = {"convert": "onnx-to-dlc"}


class LazyGroup(click.Group):
    """A group whose commands are imported one by one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with help_on_a_full_disk(ctx):
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(_ALIASES.get(cmd_name, cmd_name))
        return None if module is None else import_module(f"xdlc.cli.{module}").main

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = [*_MODULES, *_ALIASES]
        if args and not args[0].startswith("-") and args[0] not in known:
            hint = nearest_names(args[0], known) or f"commands: {', '.join(known)}"
            ctx.fail(f"No such command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.command(
    "xdlc",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Convert, quantize, prepare, run and look into DLC model containers.

    Every command is also a tool of its own: xconv-onnx-to-dlc (here also `convert`), xdlc-quant,
    xdlc-quantize, xdlc-graph-prepare, xdlc-info, xdlc-net-run, xdlc-to-onnx, xdlc-platform-check,
    xdlc-udo-package-generator, xdlc-udo-config.
    """
