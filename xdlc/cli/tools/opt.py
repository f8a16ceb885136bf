"""``xdlc-opt``: graph passes by name on a DLC."""

from __future__ import annotations

from pathlib import Path

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.tool import print_json, show, tool, written


def _list(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from xdlc import passes

        for name in passes.STAGES:
            for entry in passes.stage(name):
                show(f"{entry.name} ({name})")
        print_json(ctx)
        ctx.exit()


@tool("xdlc-opt")
@params.DLC
@params.output("Write the result to this file.  [default: <input>_optimized.dlc]", "--output-dlc")
@click.option(
    "--pass",
    "passes",
    metavar="NAME",
    multiple=True,
    required=True,
    help="Apply this pass. Repeatable: xdlc repeats all named passes until the graph stays the same.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list,
    help="List the passes, and stop.",
)
def main(source: Path, target: Path | None, passes: tuple[str, ...]) -> None:
    """Apply graph passes to a DLC.

    A pass rewrites a graph without changing its results. This tool runs only the passes that you name.
    xdlc convert and xdlc prepare run passes by themselves.
    """
    from xdlc import api

    target = check_target(target or derived_path(source, "_optimized.dlc"))
    with bars.steps("optimizing"):
        made = api.optimize(source, passes)
    with bars.steps("writing"):
        api.save(made, target)
    written(target)
