"""Problems of a model as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.cli import text
from xdlc.errors import XdlcError, each_problem

SHOWN_NODES = 6
_WIDTHS = {"node": 24, "op": 17, "why": 33}
_WIDTHS_BY = {"node": 22, "op": 17, "by": 6, "why": 28}

Cells = tuple[str, str, str, str, str]
"""Node, op, who says so, why, fix."""


def problem_table(problems: Sequence[Cells], *, every_node: bool = False) -> Iterator[str]:
    """Yield a table of problems; nodes that have the same one share a row.

    Args:
        problems: The problems.
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
    """Yield what is printed of an error: a table where several nodes of a model are at fault."""
    each = each_problem(error)
    if len(each) < 2 or not any(problem.node for problem in each):
        yield str(error)
        return
    yield f"{error.where}: {error.problem}" if error.where else error.problem
    groups: dict[str, list[XdlcError]] = {}
    for problem in each:
        groups.setdefault(_context(problem), []).append(problem)
    for context, problems in groups.items():
        if len(groups) > 1:
            yield f"{text.clean(context)}: {len(problems)} problem(s)"
        yield from problem_table([_cells(problem) for problem in problems], every_node=True)


def _context(problem: XdlcError) -> str:
    """Return where the graph is that has the problem: the file, and the SoC if there is one."""
    where = problem.where or ""
    for mark in (": graph ", ": in ", ": node ", ": op ", ": tensor "):
        where = where.partition(mark)[0]
    return where


def _cells(problem: XdlcError) -> Cells:
    why = problem.problem if problem.node or not problem.where else f"{problem.where}: {problem.problem}"
    return problem.node or "", problem.op or "", "", why, problem.fix or ""


def _listed(names: Sequence[str], most: int) -> str:
    shown = "\n".join(names[:most])
    return f"{shown}\nand {len(names) - most} more" if len(names) > most else shown
