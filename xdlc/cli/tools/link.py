"""``xdlc-link``: graphs of several DLCs in one."""

from __future__ import annotations

from pathlib import Path

import click

from xdlc.cli import bars, params
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import notice, show, tool, written


def _named(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[Path, str]:
    """Parse values like ``NAME=FILE``."""
    named: dict[Path, str] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not (name and equals and file):
            raise params.BadValue(f"{value!r} is not NAME=FILE", "write NAME=FILE, like prompt=a.dlc")
        path = params.INPUT_FILE.convert(file, _param, _ctx)
        if path in named:
            raise params.BadValue(f"{file!r} is named twice", "pass --graph once for each file")
        named[path] = name
    return named


@tool(
    "xdlc-link",
    epilog="The first graph is the main graph. The result has no caches. If you prepare the result, each "
    "cache holds all graphs.",
)
@click.argument("sources", metavar="DLC...", nargs=-1, type=params.INPUT_FILE)
@click.option(
    "--graph",
    "named",
    multiple=True,
    callback=_named,
    metavar="NAME=FILE",
    help="Add the graph of this DLC under this name. Repeatable.  [default: the graph's own name; xdlc adds "
    "shapes or the file's name to equal names]",
)
@params.output("Write the result to this file.", "--output-dlc", required=True)
def main(sources: tuple[Path, ...], named: dict[Path, str], target: Path) -> None:
    """Put the graphs of several DLCs into one DLC.

    xdlc stores equal weights once. Inputs and outputs keep their names.
    """
    from xdlc import api

    check_target(target)
    paths = list(dict.fromkeys((*sources, *named)))
    with bars.steps("linking"):
        linked = api.link(paths, [named.get(path) for path in paths], notify=notice)
    with bars.steps("writing"):
        api.save(linked, target)
    for graph in linked.graphs.values():
        ports = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in graph.inputs)
        show(f"graph {graph.name}: {len(graph)} ops, inputs {ports}")
    written(target)
