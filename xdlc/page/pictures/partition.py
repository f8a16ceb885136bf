"""Picture of where the ops of a graph run: runs of ops, and the copies between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdlc.page.svg import WIDTH, path, picture, rect, short, text

ROW = 10
"""Most runs in a row."""
MOST_ROWS = 24
_GAP, _TALL = 26, 170


@dataclass(frozen=True, slots=True)
class Run:
    """Ops that one place computes one after the other.

    Attributes:
        place: ``HTP`` or ``CPU``.
        ops: Names of the ops, in the order of execution.
        part: Name of the graph of the cache that has them; empty: none.
    """

    place: str
    ops: Sequence[str]
    part: str = ""


def partition(maps: Sequence[tuple[str, Sequence[Run]]]) -> str:
    """Return where runs of ops are computed, with the copies between.

    Args:
        maps: Title and runs of each graph and SoC.
    """
    body, high, rows = [text(16, 22, "What runs where", "h")], 32.0, 0
    for number, (title, runs) in enumerate(maps):
        if rows >= MOST_ROWS:
            body.append(text(16, high + 20, f"{len(maps) - number} more are not drawn", "small dim"))
            high += 30
            break
        total = sum(len(run.ops) for run in runs)
        htp = sum(len(run.ops) for run in runs if run.place == "HTP")
        count = sum(first.place != second.place for first, second in pairwise(runs))
        copies = f"; {count} cop{'y' if count == 1 else 'ies'}" if count else ""
        body.append(text(16, high + 18, short(title, 70), "mono"))
        words = f"{htp} of {total} ops on HTP{copies}"
        body.append(text(WIDTH - 16, high + 18, words, "small dim", "end"))
        high += 30
        drawn = list(runs)[: ROW * max(MOST_ROWS - rows, 1)]
        for first in range(0, len(drawn), ROW):
            body += _row(drawn[first : first + ROW], high, first + ROW < len(drawn))
            high += _TALL
            rows += 1
        if len(drawn) < len(runs):
            body.append(text(16, high + 14, f"{len(runs) - len(drawn)} more runs are not drawn", "small dim"))
            high += 24
    note = "An arrow is a copy between the memories of HTP and CPU. The name below is the first op."
    body.append(text(16, high + 14, note, "small dim"))
    return picture(WIDTH, high + 26, "Runs of ops on HTP and on the CPU", body)


def _row(runs: Sequence[Run], high: float, goes_on: bool) -> list[str]:
    """Return one row of runs, whose widths grow with their ops."""
    body, x = list[str](), 16.0
    total = max(sum(len(run.ops) for run in runs), 1)
    room = WIDTH - 32 - _GAP * (len(runs) - 1 + goes_on)
    for number, run in enumerate(runs):
        is_htp = run.place == "HTP"
        wide = room * (0.4 * len(run.ops) / total + 0.6 / len(runs))
        top = high if is_htp else high + 64
        tip = (f"{run.part}: " if run.part else "") + ", ".join(run.ops[:40])
        body.append(rect(x, top, wide, 44, "a" if is_htp else "b", tip, 6))
        words = f"{run.place}, {len(run.ops)} op{'s' * (len(run.ops) != 1)}"
        body.append(text(x + wide / 2, top + 60, words, "small", "middle"))
        name = short(run.ops[0], max(int(wide / 8), 6)) if run.ops else ""
        body.append(text(x + wide / 2, high + 148, name, "mono dim", "middle"))
        if number + 1 < len(runs) or goes_on:
            from_y, to_y = (high + 22, high + 86) if is_htp else (high + 86, high + 22)
            to_y = to_y if number + 1 == len(runs) or runs[number + 1].place != run.place else from_y
            left = x + wide
            curve = f"{left + 14:.1f} {from_y:.1f} {left + 12:.1f} {to_y:.1f} {left + 23:.1f} {to_y:.1f}"
            body.append(path("arrow", f"M{left + 3:.1f} {from_y:.1f}C{curve}"))
        x += wide + _GAP
    return body
