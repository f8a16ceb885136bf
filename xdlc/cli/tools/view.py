"""``xdlc-view``: a page with the graph of a model, or of two side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params
from xdlc.cli.convert_options import IN_MEMORY
from xdlc.cli.output_path import check_target, derived_path
from xdlc.cli.params import stated
from xdlc.cli.tool import notice, result, tool, written
from xdlc.errors import UsageError


@tool(
    "xdlc-view",
    epilog="A second FILE stands on the right. Two DLCs: the page marks the differences. A source model and "
    "its DLC: the page links each node with its ops. The page is one file and loads nothing.",
)
@params.source(
    "FILE",
    "Show this DLC, context binary or source model. Write the flag or the file twice for two models.",
    "--input-dlc",
    name="sources",
    type=params.MODEL,
    multiple=True,
)
@params.output("Write the page to this file.  [default: the first file's name.html]")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--report",
    "reports",
    cls=params.PathsOption,
    help="Show the figures of this JSON report of quantize, cost or debug on the ops. Repeatable.",
)
@click.option("--soc", metavar="SOC", help="Show the verdict of this SoC's HTP on each op, like sm8650.")
@click.option(
    "--cost",
    "with_cost",
    is_flag=True,
    help="With --soc: also show the bytes that each op moves on the SoC, and its share of the time.",
)
@click.option(
    "--node-data",
    type=params.OUTPUT_FILE,
    metavar="FOLDER",
    help="Also write the overlays of the last file to this folder, as JSON files for Model Explorer.",
)
@IN_MEMORY
def main(
    sources: tuple[Path, ...],
    target: Path | None,
    opens: bool,
    reports: tuple[str, ...],
    soc: str | None,
    with_cost: bool,
    node_data: Path | None,
    **options: Any,
) -> None:
    """Write a page that shows the graph of a model, or of two models.

    xdlc converts a source model in memory. The page shows weights, encodings, source nodes, sizes and
    problems of each op.
    """
    from xdlc import api

    if len(sources) > 2:
        raise UsageError(f"you passed {len(sources)} files", fix="pass one file or two")
    target = check_target(target or derived_path(sources[0], ".html"))
    first, *rest = sources
    with bars.steps("reading") as step:
        api.view(
            first,
            target,
            against=rest[0] if rest else None,
            reports=reports,
            soc=soc,
            with_cost=with_cost,
            node_data=node_data,
            notify=notice,
            step=step,
            **stated(options),
        )
    result(page=str(target))
    written(target)
    if opens:
        click.launch(target.resolve().as_uri())
