"""The readable form of what ``xdlc.check`` found, and its JSON form."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xdlc.cli import text
from xdlc.cli.problems import problem_table

if TYPE_CHECKING:
    from xdlc.converter.report import Report

_BY = {"xdlc": "the converter", "vendor": "the vendor's library", "tables": "xdlc's own tables"}


def lines(report: Report, *, every_node: bool) -> Iterator[str]:
    """Yield the lines of a report: problems, nodes if wanted, counts.

    Args:
        report: What ``xdlc.check`` returned.
        every_node: Show what became of each node, and name all nodes of a problem.
    """
    yield from _problems(report, every_node)
    if every_node and report.nodes:
        yield ""
        yield f"nodes: {len(report.nodes)}"
        rows = [
            (
                text.clean(node.node),
                text.clean(node.op),
                "\n".join(map(text.clean, node.ops)) or f"({text.clean(node.reason)})",
            )
            for node in report.nodes
        ]
        yield from text.table(("node", "operator", "ops"), rows, (36, 20))
    yield ""
    yield from text.columns(list(_counts(report)), indent="")
    for notice in report.notices:
        yield f"notice: {text.clean(notice)}"
    yield ""
    yield "nothing written: dry run"


def _problems(report: Report, every_node: bool) -> Iterator[str]:
    name = text.clean(report.source)
    if report.target is not None and report.judge is not None:
        yield f"target {report.target}, judged by {report.judge}"
    if not report.problems:
        yield f"{name}: no problems"
        return
    yield f"{name}: {len(report.problems)} problem(s)"
    judged = report.target is not None
    rows = [(each.node, each.op, each.by if judged else "", each.why, each.fix) for each in report.problems]
    yield from problem_table(rows, every_node=every_node)
    if judged:
        used = dict.fromkeys(each.by for each in report.problems)
        yield f"  by: {', '.join(f'{by} = {_BY[by]}' for by in used)}"


def _counts(report: Report) -> Iterator[tuple[str, str]]:
    yield "nodes", str(len(report.nodes))
    without = Counter(text.clean(node.reason) for node in report.nodes if not node.ops)
    for reason, number in without.items():
        yield "", f"{number} without an op: {reason}"
    yield "QNN ops", _listed(report.qnn_ops)
    yield "host-only ops", _listed(report.host_only)
    if report.user_defined:
        yield "user-defined ops", _listed(report.user_defined)
    yield "inserted ops", str(sum(report.inserted.values()))
    for reason, number in report.inserted.items():
        yield "", f"{number} {text.clean(reason)}"


def _listed(numbers: Mapping[str, int]) -> str:
    types = ", ".join(f"{text.clean(name)} {number}" for name, number in numbers.items())
    return f"{sum(numbers.values())}: {types}" if numbers else "none"


def as_json(report: Report) -> str:
    """Return a report as one JSON object."""
    return json.dumps(dataclasses.asdict(report), indent=2) + "\n"
