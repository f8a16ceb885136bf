"""``xdlc-cost``: what a model moves and computes, by op and SoC."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import click

from xdlc.cli import bars, params
from xdlc.cli.cost_table import show_changes, show_cost
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import begin_json, result, tool, written
from xdlc.options import Step
from xdlc.options.running import WorkerOptions

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def _bytes(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Parse a number of bytes like ``4MB``."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) *([KMG]?B?)", value.strip().upper())
    if match is None or match[2] not in _UNITS:
        raise params.BadValue(
            f"{value!r} is not a number of bytes", "write a number with B, KB, MB or GB, like 4MB"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def _sizes(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...]:
    words = params.names(_ctx, _param, value)
    if not all(word.isascii() and word.isdecimal() and 0 < int(word) < 1 << 10 for word in words):
        raise params.BadValue(f"{value!r} is not a list of sizes in MB", "write numbers from 1, like 2,4,8")
    return tuple(map(int, words))


@tool(
    "xdlc-cost",
    epilog="The exit code is 5 if a graph moves more bytes than --max-dram allows. xdlc counts the bytes in "
    "the plan that the vendor's compiler makes for a SoC. Every run counts the same bytes.",
)
@params.DLC
@click.option(
    "--soc",
    "socs",
    callback=params.names,
    metavar="SOC,SOC..",
    help="Plan DRAM traffic for these SoCs.  [default: no SoC; xdlc shows only arithmetic and memory]",
)
@click.option(
    "--vtcm",
    callback=_sizes,
    metavar="MB,MB..",
    help="Plan for each of these sizes of vector memory (VTCM) in MB.  [default: the whole VTCM of the SoC]",
)
@click.option(
    "--against",
    type=params.INPUT_FILE,
    metavar="OTHER.dlc",
    help="Compare with this DLC, and show the change of each figure.",
)
@click.option(
    "--max-dram",
    callback=_bytes,
    metavar="SIZE",
    help="Exit with code 5 if a graph moves more bytes to and from DRAM than this size, like 4MB.",
)
@click.option(
    "--json",
    "json_path",
    type=params.OUTPUT_FILE,
    is_flag=False,
    flag_value="-",
    help="Write the report as JSON.  [default without a value: to standard output]",
)
@click.option(
    "--csv",
    "csv_path",
    type=params.OUTPUT_FILE,
    help="Write the report to this file as CSV, with one line for each op.",
)
@click.option(
    "--html", "html_path", type=params.OUTPUT_FILE, help="Write the report to this file as an HTML page."
)
@params.svg("the bytes that each op moves from and to DRAM", "--soc")
@params.flags_of(WorkerOptions, without=("executor",))
def main(
    source: Path,
    socs: tuple[str, ...],
    vtcm: tuple[int, ...],
    against: Path | None,
    max_dram: int | None,
    json_path: Path | None,
    csv_path: Path | None,
    html_path: Path | None,
    svg: Path | None,
    **options: Any,
) -> None:
    """Show the memory traffic and arithmetic of a model, without a device.

    xdlc prints the bytes that move through DRAM and VTCM (vector memory), and the bytes that spill. xdlc also
    counts the kernels of the matrix unit (HMX), the vector unit (HVX) and DMA.
    """
    from xdlc import api
    from xdlc.errors import UsageError, raise_all
    from xdlc.ir.files import replace_text

    if not socs and (vtcm or any(flag is not None for flag in (against, max_dram, csv_path, svg))):
        problem = "--vtcm, --against, --max-dram, --csv and --svg need a SoC"
        raise UsageError(problem, fix="name a SoC: --soc sm8650")
    if str(json_path) == "-":
        begin_json(click.get_current_context())
        json_path = None
    for path in (json_path, csv_path, html_path, svg):
        if path is not None:
            check_target(path)
    sources = (source,) if against is None else (source, against)
    with bars.steps("compiling") as step:
        report, *earlier = [
            api.cost(path, socs, vtcm=vtcm, step=partial(_step, step, number, len(sources)), **options)
            for number, path in enumerate(sources)
        ]
    result(**report.as_dict())
    show_cost(report)
    for before in earlier:
        show_changes(before, report)
    page = partial(report.as_html, source.name, earlier[0] if earlier else None)
    files = (json_path, report.as_json), (csv_path, report.as_csv), (html_path, page), (svg, report.as_svg)
    for path, content in files:
        if path is not None:
            replace_text(path, content())
            written(path)
    raise_all([*report.refused, *(report.problems(max_dram) if max_dram is not None else ())])


def _step(step: Step, number: int, sources: int, title: str, done: int, total: int) -> None:
    """Count the plans of one of several models among those of all."""
    step(title, number * total + done, sources * total)
