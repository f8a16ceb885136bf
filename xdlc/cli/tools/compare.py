"""``xdlc-compare``: models side by side, by what their outputs are used for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from xdlc.cli import bars, params, text
from xdlc.cli.tool import result, show, tool
from xdlc.compare.figures import percent


@tool(
    "xdlc-compare",
    epilog="The first model is the reference. A source model runs in its framework; a DLC runs on this "
    "machine. With --soc, a quantized DLC also runs on the emulation of the SoC.",
)
@params.source("MODEL", "Compare this model. Repeatable.", name="models", type=params.MODEL, multiple=True)
@params.listing("Compare on the samples of this list, one on each line, or of this folder.", required=True)
@click.option(
    "--metric",
    metavar="FILE.py:FUNCTION",
    help="Score each model with your function: FUNCTION(run) returns a number. run(inputs) runs the "
    "model; inputs and outputs are dicts by name. xdlc executes FILE.py.",
)
@click.option("--soc", metavar="SOC", help="Also run quantized DLCs on the emulation of this SoC.")
def main(models: tuple[Path, ...], input_list: Path, metric: str | None, soc: str | None) -> None:
    """Compare a source model and its DLCs, also on an emulated SoC."""
    from xdlc import api

    with bars.steps("running") as step:
        rows = api.compare(models, input_list, metric=metric, soc=soc, step=step)
    result(models=[asdict(row) for row in rows])
    cells = [
        (
            text.clean(row.title),
            "" if row.db is None else f"{row.db:.1f} dB",
            ""
            if row.equal is None
            else ", ".join([f"{percent(row.equal)} of {row.rows}", *row.words.split(", ")[1:]]),
            "" if row.largest is None else f"{row.largest:.3g} in {text.clean(row.largest_in)!r}",
            text.size(row.bytes),
            "" if row.score is None else f"{row.score:.4g}",
        )
        for row in rows
    ]
    show(text.clean(f"{rows[0].samples} samples of {input_list}, compared with {rows[0].title}"))
    titles = ("model", "SQNR", "top-1 equal", "largest error", "file", "metric")
    count, widths = len(titles) if metric else -1, [36, 9, 24, 24, 9]
    for line in text.table(titles[:count], [row[:count] for row in cells], widths[:count]):
        show(line)
