"""Figures beside their goals and peers: a table, and the page of them."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxruntime-qnn", "numba", "distributed")


@dataclass(frozen=True)
class Line:
    """A figure beside its goal.

    Attributes:
        subject: The model or the job.
        quantity: What is measured, with its unit.
        ours: The figure of xdlc; None if it could not be measured.
        goal: The limit; None: the figure has no goal of its own.
        rule: How the goal follows from the peer's figure, in words.
        peer: What the figure is compared with.
        peers: The figure of the peer.
        is_least: Whether the goal is the least figure, not the most.
        note: Why there is no figure.
    """

    subject: str
    quantity: str
    ours: float | None = None
    goal: float | None = None
    rule: str = ""
    peer: str = ""
    peers: float | None = None
    is_least: bool = False
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        if self.ours is None:
            return False
        return self.ours >= self.goal if self.is_least else self.ours <= self.goal


@dataclass
class Result:
    """The lines of a row, or why it has none."""

    name: str
    title: str
    lines: list[Line] = field(default_factory=list)
    skipped: str = ""
    failure: str = ""
    seconds: float = 0.0


HEAD = """\
| measured | unit | xdlc | goal | met | peer | peer's figure | ratio |
|---|---|---:|---:|---|---|---:|---:|"""


def as_row(line: Line) -> str:
    """Return a row of a Markdown table."""
    goal = _number(line.goal)
    if line.rule and goal:
        goal = f"{line.rule} {goal}" if line.is_least else f"{goal} ({line.rule})"
    met = {True: "yes", False: "**no**", None: ""}[line.is_met]
    ratio = ""
    if line.ours is not None and line.peers and not line.is_least:
        ratio = f"{line.ours / line.peers:.2f}"
    cells = (line.subject, line.quantity, _number(line.ours) or line.note, goal, met, line.peer)
    return f"| {' | '.join(cells)} | {_number(line.peers)} | {ratio} |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = Path("/proc/meminfo").read_text().split()[1]
    versions = {name: number for name in PACKAGES if (number := installed(name)) is not None}
    return {
        "date": datetime.date.today().isoformat(),
        "processor": names[0] if names else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory) / 1e6),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load": os.getloadavg()[0],
        "versions": {"python": platform.python_version(), "xdlc": installed("xdlc") or "source", **versions},
    }


def installed(package: str) -> str | None:
    """Return the version of a package; None without it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def page(content: dict[str, Any]) -> str:
    """Return the page of results."""
    about = content["machine"]
    rows = [
        Result(**{**entry, "lines": [Line(**line) for line in entry["lines"]]}) for entry in content["rows"]
    ]
    lines = [line for result in rows for line in result.lines]
    goals = [line for line in lines if line.goal is not None]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    text = [
        "# Speed and scale",
        "",
        "`python bench/all.py --page` measures xdlc and writes this page. Each figure is next to its goal "
        "and to a peer's figure of the same run.",
        "",
        f"- Date: {about['date']}",
        f"- Machine: {about['processors']} processors ({about['processor']}), {about['memory_gb']} GB, "
        f"{about['system']}; load {about['load']:.1f} at the start",
        f"- Versions: {versions}",
        f"- Goals met: {sum(bool(line.is_met) for line in goals)} of {len(goals)}",
        "",
        "CPU seconds are user and system time of a process and its children: the least of several runs, in "
        "turns with the peer. Memory is the peak of the largest process. Weights are random.",
    ]
    if content["quick"]:
        text += ["", "This was a quick run, with small inputs and few runs: do not quote the figures."]
    for result in rows:
        text += ["", f"## {result.title}", ""]
        if result.lines:
            text += [HEAD, *map(as_row, result.lines)]
        if result.skipped or result.failure:
            text += [""] * bool(result.lines) + [f"Not measured: {result.skipped or result.failure}."]
    return "\n".join(text) + "\n"
