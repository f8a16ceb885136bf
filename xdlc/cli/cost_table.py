"""Tables of the cost of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdlc.cli import text
from xdlc.cli.tool import notice, show

if TYPE_CHECKING:
    from xdlc.cost.device import DeviceCost
    from xdlc.cost.report import CostReport

WIDEST = 28


def show_cost(result: CostReport) -> None:
    """Print totals of each graph and device, the dearest ops of the first, and notes."""
    _show_static(result)
    _show_totals(result)
    for cost in result.devices[:1]:
        _show_ops(cost)
    for cost, time in zip(result.devices, result.times, strict=True):
        if isinstance(time, str):
            notice(f"xdlc estimates no time for {cost.soc}: {time}")
        for note in cost.notes:
            notice(f"{cost.soc}, {cost.vtcm_mb} MB of VTCM: {note}")


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
    for cost in result.static:
        if cost.open_inputs:
            names = ", ".join(map(text.clean, cost.open_inputs[:WIDEST]))
            notice(f"xdlc counts open dimensions with their smallest sizes: inputs {names}")


def _show_totals(result: CostReport) -> None:
    rows = []
    for cost, time in zip(result.devices, result.times, strict=True):
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
                "-" if isinstance(time, str) else f"{time.value:.2f} ({time.low:.2f} to {time.high:.2f})",
            )
        )
    titles = ("graph", "SoC", "VTCM", "HMX", "HVX", "DMA", "scalar", "DRAM read", "written", "VTCM traffic")
    if rows:
        _show_table((*titles, "spilled", "VTCM used", "ms"), rows)


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


def show_changes(before: CostReport, after: CostReport) -> None:
    """Print what differs between two reports, op by op."""
    from xdlc.cost.report import changes, pairs

    for first, second in pairs(before, after):
        if first is None or second is None:
            missing = first or second
            assert missing is not None
            notice(f"graph {text.clean(missing.graph)} is in only one of the two DLCs")
            continue
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
