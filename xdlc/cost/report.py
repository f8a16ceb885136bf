"""Report of the cost of a model: JSON and CSV, differences, budgets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from xdlc.content.static_cost import StaticCost
from xdlc.cost.device import DeviceCost, OpCost
from xdlc.cost.schematic import ENGINES, SCALAR, Traffic
from xdlc.cost.times import Milliseconds
from xdlc.errors import ConstraintError, XdlcError
from xdlc.ir.files import csv_text

SCHEMA = 1
COLUMNS = (
    "graph",
    "soc",
    "vtcm_mb",
    "op",
    "type",
    "nodes",
    "fused",
    *ENGINES.values(),
    SCALAR,
    "dram_read",
    "dram_write",
    "vtcm_read",
    "vtcm_write",
    "spilled",
    "filled",
    "macs",
    "weights",
    "share",
    "reason",
)


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost of a model.

    Attributes:
        static: What no device decides, for each graph.
        devices: Cost of each graph on each device, and with each size of VTCM.
        times: Estimated time of each of these, or why there is no estimate.
        refused: Errors of the plans that the compiler does not make, where it makes others.
    """

    static: tuple[StaticCost, ...]
    devices: tuple[DeviceCost, ...]
    times: tuple[Milliseconds | str, ...]
    refused: tuple[XdlcError, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the report as values of JSON, ``schema`` first."""
        devices = [
            {
                "graph": cost.graph,
                "soc": cost.soc,
                "vtcm_mb": cost.vtcm_mb,
                "build": cost.build,
                "totals": {
                    **asdict(cost.traffic),
                    "spilled": cost.spilled,
                    "kernels": dict(cost.kernels),
                    "vtcm_peak": cost.vtcm_peak,
                },
                "milliseconds": {"reason": time} if isinstance(time, str) else asdict(time),
                "notes": cost.notes,
                "ops": [_words(op) | {"share": cost.share(op)} for op in cost.ops],
            }
            for cost, time in zip(self.devices, self.times, strict=True)
        ]
        static = [asdict(cost) | {"intensity": cost.intensity} for cost in self.static]
        refused = [str(error) for error in self.refused]
        return {"schema": SCHEMA, "static": static, "devices": devices, "refused": refused}

    def as_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def as_html(self, name: str, before: CostReport | None = None) -> str:
        """Return an HTML page with the report.

        Args:
            before: Report whose differences the page has, too.
        """
        from xdlc.page import fill

        differences = [
            {
                "device": self.devices.index(second),
                "changes": [_change(change) for change in changes(first.ops, second.ops)],
            }
            for first, second in ([] if before is None else pairs(before, self))
            if first is not None and second is not None
        ]
        figures = {**self.as_dict(), "name": name, "differences": differences}
        return fill("xdlc.cost", figures, kind="Cost report", name=name, summary=self.summary())

    def as_svg(self) -> str:
        """Return a picture of the bytes that each op moves on each device."""
        from xdlc.page.pictures import costs

        return costs(self.as_dict())

    def summary(self) -> Iterator[str]:
        """Yield lines with the totals, the dearest ops and the reasons."""
        for cost in self.static:
            yield (
                f"{cost.graph}: {cost.macs:,} MACs, {cost.parameters:,} parameters, "
                f"{cost.weights:,} bytes of weights, up to {cost.peak:,} bytes of activations at a time"
            )
        for device, time in zip(self.devices, self.times, strict=True):
            traffic = device.traffic
            yield (
                f"{device.graph} on {device.soc}, {device.vtcm_mb} MB of VTCM: DRAM "
                f"{traffic.dram_read:,} bytes read, {traffic.dram_write:,} written, VTCM "
                f"{traffic.vtcm:,} bytes; {device.spilled:,} bytes spilled"
            )
            yield f"  xdlc estimates no time: {time}" if isinstance(time, str) else f"  {time}"
            yield from (f"  {note}" for note in device.notes)
            for op in device.dearest():
                yield f"  {device.share(op):.1%} {' '.join((op.op, op.type)).rstrip()}: {op.reason}"

    def as_csv(self) -> str:
        """Return a line for each op and device, after a line of column names."""
        return csv_text([COLUMNS, *(_row(cost, op) for cost in self.devices for op in cost.ops)])

    def problems(self, max_dram: int) -> list[XdlcError]:
        """Return an error for each graph and device with more DRAM traffic."""
        return [
            ConstraintError(
                f"moves {cost.traffic.dram:,} bytes from and to DRAM, more than {max_dram:,}",
                where=f"graph {cost.graph!r}: {cost.soc}, {cost.vtcm_mb} MB of VTCM",
                fix=f"change op {cost.dearest()[0].op!r}: {cost.dearest()[0].reason}",
                code="XD108",
            )
            for cost in self.devices
            if cost.traffic.dram > max_dram
        ]


def _words(op: OpCost) -> dict[str, Any]:
    """Return the fields of an op's cost, with traffic and kernels by name."""
    return {
        **{field.name: getattr(op, field.name) for field in fields(op)},
        "traffic": asdict(op.traffic),
        "kernels": dict(op.kernels),
    }


def _row(cost: DeviceCost, op: OpCost) -> list[Any]:
    values: dict[str, Any] = {
        **_words(op),
        **asdict(op.traffic),
        **{engine: op.kernels.get(engine, 0) for engine in (*ENGINES.values(), SCALAR)},
        "graph": cost.graph,
        "soc": cost.soc,
        "vtcm_mb": cost.vtcm_mb,
        "nodes": " ".join(op.nodes),
        "fused": " ".join(op.fused),
        "share": f"{cost.share(op):.5f}",
    }
    return [values[column] for column in COLUMNS]


@dataclass(frozen=True, slots=True)
class Change:
    """Difference of an op's cost in two models.

    Attributes:
        before: Bytes that it moves in the first; None if it is not there.
        after: Bytes that it moves in the second; None if it is not there.
    """

    op: str
    before: Traffic | None
    after: Traffic | None

    @property
    def dram(self) -> int:
        """Bytes of DRAM traffic that come in addition."""
        return (self.after or Traffic()).dram - (self.before or Traffic()).dram

    @property
    def vtcm(self) -> int:
        """Bytes of VTCM traffic that come in addition."""
        return (self.after or Traffic()).vtcm - (self.before or Traffic()).vtcm


def pairs(before: CostReport, after: CostReport) -> Iterator[tuple[DeviceCost | None, DeviceCost | None]]:
    """Yield costs by graph and device in two reports, None where one lacks them.

    The graph of a model that has only one pairs with that of another such model, whatever their names.
    """
    is_single = len(before.static) == len(after.static) == 1
    first, second = (
        {("" if is_single else cost.graph, cost.soc, cost.vtcm_mb): cost for cost in report.devices}
        for report in (before, after)
    )
    for key in dict.fromkeys((*second, *first)):
        yield first.get(key), second.get(key)


def _change(change: Change) -> dict[str, Any]:
    """Return a change as values of JSON."""
    return {**asdict(change), "dram": change.dram, "vtcm": change.vtcm}


def changes(before: Sequence[OpCost], after: Sequence[OpCost]) -> Iterator[Change]:
    """Yield the ops whose traffic differs, the largest difference first."""
    first, second = ({op.op: op.traffic for op in ops} for ops in (before, after))
    names = dict.fromkeys((*first, *second))
    differing = [
        Change(name, first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    ]
    yield from sorted(differing, key=lambda change: (-abs(change.dram), -abs(change.vtcm)))
