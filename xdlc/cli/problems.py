"""Tables of the problems of a model, and the result of a dry run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xdlc.cli import text
from xdlc.errors import MOST_SHOWN, XdlcError, each_problem

if TYPE_CHECKING:
    from xdlc.converter.checking import Report

SHOWN_NODES = 6
_WIDTHS = {"node": 24, "op": 17, "why": 33}
_WIDTHS_BY = {"node": 22, "op": 17, "by": 6, "why": 28}

Cells = tuple[str, str, str, str, str]
"""Node, op, origin of the verdict, why, fix."""


def problem_table(problems: Sequence[Cells], *, every_node: bool = False) -> Iterator[str]:
    """Yield a table of problems; nodes that have the same one share a row.

    Args:
        every_node: Name all nodes of a row instead of the first few.
    """
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node, *others in problems:
        nodes.setdefault(tuple(map(text.clean, others)), []).append(text.clean(node))
    most = len(problems) if every_node else SHOWN_NODES
    rows = [(_listed(names, most), *others) for others, names in nodes.items()]
    if any(row[2] for row in rows):
        yield from text.table((*_WIDTHS_BY, "fix"), rows, tuple(_WIDTHS_BY.values()))
    else:
        without = [(*row[:2], *row[3:]) for row in rows]
        yield from text.table((*_WIDTHS, "fix"), without, tuple(_WIDTHS.values()))


def error_lines(error: XdlcError) -> Iterator[str]:
    """Yield the lines of an error; show several failing nodes as a table."""
    problems = each_problem(error)
    if len(problems) < 2 or not any(problem.node for problem in problems):
        yield str(error)
        return
    yield f"{error.where}: {error.problem}" if error.where else error.problem
    groups: dict[str, list[XdlcError]] = {}
    for problem in problems[:MOST_SHOWN]:
        groups.setdefault(_context(problem), []).append(problem)
    for context, group in groups.items():
        if len(groups) > 1:
            yield f"{text.clean(context)}: {len(group)} problem(s)"
        yield from problem_table([_cells(problem) for problem in group])
    if len(problems) > MOST_SHOWN:
        yield f"and {len(problems) - MOST_SHOWN} more problems"


def _context(problem: XdlcError) -> str:
    """Return where the graph of a problem is: the file, and the SoC if any."""
    where = problem.where or ""
    for mark in (": graph ", ": in ", ": layer ", ": node ", ": op ", ": operator ", ": tensor "):
        where = where.partition(mark)[0]
    return where


def _cells(problem: XdlcError) -> Cells:
    why = problem.problem if problem.node or not problem.where else f"{problem.where}: {problem.problem}"
    why = f"{problem.code}: {why}"
    return _numbered(problem.node or "", problem.line), problem.op or "", "", why, problem.fix or ""


def _numbered(node: str, line: int) -> str:
    return f"{node} (line {line})" if line else node


def _listed(names: Sequence[str], most: int) -> str:
    shown = "\n".join(names[:most])
    return f"{shown}\nand {len(names) - most} more" if len(names) > most else shown


_BY = {"xdlc": "the converter", "vendor": "the vendor's library", "tables": "xdlc's own tables"}


def lines(report: Report, *, every_node: bool, ports: Iterable[str] = ()) -> Iterator[str]:
    """Yield the lines of a report: problems, nodes if wanted, counts.

    Args:
        report: What ``xdlc.check`` returned.
        every_node: Show the ops of each node, and name all nodes of a problem.
        ports: Lines with the inputs and outputs.
    """
    yield from _problems(report, every_node)
    yield from ports
    if every_node and report.nodes:
        yield ""
        yield from node_table("nodes", [(row.node, row.op, row.ops, row.reason) for row in report.nodes])
    yield ""
    yield from text.columns(list(_counts(report)), indent="")
    for notice in report.notices:
        yield f"notice: {text.clean(notice)}"
    yield ""
    yield "nothing written: dry run"


def node_table(title: str, nodes: Sequence[tuple[str, str, Sequence[str], str | None]]) -> Iterator[str]:
    """Yield a table of source nodes: name, operator, and ops or the reason for none."""
    yield f"{title}: {len(nodes)}"
    rows = [
        (text.clean(name), text.clean(kind), "\n".join(map(text.clean, ops)) or f"({text.clean(reason)})")
        for name, kind, ops, reason in nodes
    ]
    yield from text.table(("node", "operator", "ops"), rows, (36, 20))


def _problems(report: Report, every_node: bool) -> Iterator[str]:
    name = text.clean(report.source)
    if report.target is not None and report.judge is not None:
        yield f"target {report.target}; {report.judge} judged the ops"
    if not report.problems:
        yield f"{name}: no problems"
        return
    yield f"{name}: {len(report.problems)} problem(s)"
    judged = report.target is not None
    rows = [
        (_numbered(row.node, row.line), row.op, row.by if judged else "", f"{row.code}: {row.why}", row.fix)
        for row in report.problems
    ]
    yield from problem_table(rows, every_node=every_node)
    if judged:
        used = dict.fromkeys(each.by for each in report.problems)
        yield f"  by: {', '.join(f'{by} = {_BY[by]}' for by in used)}"


def _counts(report: Report) -> Iterator[tuple[str, str]]:
    yield "nodes", str(len(report.nodes))
    without = Counter(text.clean(node.reason) for node in report.nodes if not node.ops)
    for reason, number in without.items():
        yield "", f"{number} without an op: {reason}"
    yield "QNN ops", _numbers(report.qnn_ops)
    yield "host-only ops", _numbers(report.host_only)
    if report.user_defined:
        yield "user-defined ops", _numbers(report.user_defined)
    yield "inserted ops", str(sum(report.inserted.values()))
    for reason, number in report.inserted.items():
        yield "", f"{number} {text.clean(reason)}"


def _numbers(numbers: Mapping[str, int]) -> str:
    types = ", ".join(f"{text.clean(name)} {number}" for name, number in numbers.items())
    return f"{sum(numbers.values())}: {types}" if numbers else "none"


def as_csv(report: Report) -> str:
    """Return the problems of a report as CSV, a line for each."""
    from xdlc.ir.files import csv_text

    columns = ("node", "op", "by", "code", "why", "fix")
    return csv_text([columns, *([getattr(row, name) for name in columns] for row in report.problems)])


def as_json(report: Report) -> str:
    """Return a report as one JSON object."""
    import json

    return json.dumps(dataclasses.asdict(report), indent=2) + "\n"
