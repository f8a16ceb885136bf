"""``xdlc-cost``: what a model moves and computes, by op and SoC."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdlc.cli import bars, params, text
from xdlc.cli.output_path import check_target
from xdlc.cli.tool import notice, show, tool

if TYPE_CHECKING:
    from xdlc.cost.device import DeviceCost
    from xdlc.cost.report import CostReport

WIDEST = 28
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def _bytes(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Parse a number of bytes like ``4MB``.

    Raises:
        BadValue: If it is not one.
    """
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) *([KMG]?B?)", value.strip().upper())
    if match is None or match[2] not in _UNITS:
        raise params.BadValue(f"{value!r} is no number of bytes", "write a number and B, KB, MB or GB: 4MB")
    return int(float(match[1]) * _UNITS[match[2]])


def _sizes(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...]:
    words = params.names(_ctx, _param, value)
    if not all(word.isascii() and word.isdecimal() and 0 < int(word) < 1 << 10 for word in words):
        raise params.BadValue(f"{value!r} has other than sizes in MB", "write whole numbers: 2,4,8")
    return tuple(map(int, words))


@tool(
    "xdlc-cost",
    epilog="Exit code 5: a graph moves more than --max_dram. Bytes are those of the plan that the vendor's "
    "compiler makes for a SoC; they are the same in every run.",
)
@click.option("-i", "--input_dlc", "source", type=params.INPUT_FILE, required=True, help="The DLC.")
@click.option(
    "--soc",
    "socs",
    callback=params.names,
    metavar="SOC,SOC..",
    help="SoCs to plan for.  [default: none; arithmetic and memory only]",
)
@click.option(
    "--vtcm",
    callback=_sizes,
    metavar="MB,MB..",
    help="Sizes of VTCM to plan for, one after the other.  [default: all that the SoC has]",
)
@click.option(
    "--against", type=params.INPUT_FILE, metavar="OTHER.dlc", help="Show what changes from this DLC on."
)
@click.option(
    "--max_dram", callback=_bytes, metavar="SIZE", help="Most DRAM traffic of a graph, like 4MB, else exit 5."
)
@click.option("--json", "json_path", type=params.OUTPUT_FILE, help="File of the report as JSON.")
@click.option("--csv", "csv_path", type=params.OUTPUT_FILE, help="File of the report as CSV, a line an op.")
def main(
    source: Path,
    socs: tuple[str, ...],
    vtcm: tuple[int, ...],
    against: Path | None,
    max_dram: int | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Show what a model moves and computes, by op and SoC, without a device.

    Bytes of DRAM and VTCM, kernels on HMX (matrix unit), HVX (vector unit) and DMA, and spills come from the
    vendor's compiler, which plans the network for each SoC.
    """
    from xdlc import api
    from xdlc.errors import UsageError, raise_all
    from xdlc.ir.files import replace_text

    if not socs and (vtcm or against is not None or max_dram is not None or csv_path is not None):
        raise UsageError(
            "--vtcm, --against, --max_dram and --csv are about devices", fix="name a SoC: --soc sm8650"
        )
    for path in (json_path, csv_path):
        if path is not None:
            check_target(path)
    with bars.steps("compiling") as step:
        result = api.cost(source, socs, vtcm=vtcm, step=step)
        earlier = None if against is None else api.cost(against, socs, vtcm=vtcm, step=step)
    _show_static(result)
    _show_totals(result)
    for cost in result.devices[:1]:
        _show_ops(cost)
    for cost in result.devices:
        for note in cost.notes:
            notice(f"{cost.soc}, {cost.vtcm_mb} MB of VTCM: {note}")
    if earlier is not None:
        _show_changes(earlier, result)
    for path, report in ((json_path, result.as_json), (csv_path, result.as_csv)):
        if path is not None:
            replace_text(path, report())
            show(f"written: {path}")
    raise_all(result.problems(max_dram) if max_dram is not None else ())


def _show_static(result: CostReport) -> None:
    rows = [
        (
            text.clean(cost.graph),
            text.count(cost.macs),
            text.count(cost.parameters),
            text.size(cost.weights),
            text.size(cost.ports),
            text.size(cost.peak),
            f"{cost.intensity:.1f}",
        )
        for cost in result.static
    ]
    titles = ("graph", "MACs", "parameters", "weights", "in + out", "activations", "MACs/byte")
    _show_table(titles, rows)


def _show_totals(result: CostReport) -> None:
    rows = []
    for cost in result.devices:
        traffic, kernels = cost.traffic, cost.kernels
        rows.append(
            (
                text.clean(cost.graph),
                cost.soc,
                f"{cost.vtcm_mb} MB",
                *(f"{kernels[engine]:,}" for engine in ("HMX", "HVX", "DMA", "scalar")),
                text.size(traffic.dram_read),
                text.size(traffic.dram_write),
                text.size(traffic.vtcm),
                text.size(cost.spilled),
                text.size(cost.vtcm_peak),
            )
        )
    titles = ("graph", "SoC", "VTCM", "HMX", "HVX", "DMA", "scalar", "DRAM read", "written", "VTCM traffic")
    if rows:
        _show_table((*titles, "spilled", "VTCM used"), rows)


def _show_ops(cost: DeviceCost) -> None:
    dearest = cost.dearest()
    show(f"the {len(dearest)} dearest ops of {text.clean(cost.graph)} on {cost.soc}:")
    rows = [
        (
            text.short(text.clean(op.op)),
            op.type,
            f"{100 * cost.share(op):.1f} %",
            text.size(op.traffic.dram),
            text.size(op.traffic.vtcm),
            op.reason,
        )
        for op in dearest
    ]
    _show_table(("op", "type", "share", "DRAM", "VTCM", "reason"), rows)


def _show_changes(before: CostReport, after: CostReport) -> None:
    from xdlc.cost.report import changes

    for first, second in zip(before.devices, after.devices, strict=False):
        rows = [
            (text.short(text.clean(change.op)), f"{change.dram:+,}", f"{change.vtcm:+,}")
            for change in list(changes(first.ops, second.ops))[:20]
        ]
        total = second.traffic.dram - first.traffic.dram, second.traffic.vtcm - first.traffic.vtcm
        show(f"changes of {text.clean(second.graph)} on {second.soc}, in bytes:")
        _show_table(("op", "DRAM", "VTCM"), [*rows, ("all ops", *(f"{size:+,}" for size in total))])


def _show_table(titles: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    for line in text.table(titles, rows, [WIDEST] * (len(titles) - 1)):
        show(line)
