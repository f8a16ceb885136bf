"""Report of the debugger: text of one screen, JSON, CSV and a page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from xdlc.compare.figures import Figures
from xdlc.compare.first_wrong import Row, first_wrong
from xdlc.errors import UsageError
from xdlc.ir.files import PathLike, csv_text, replace_text

SHOWN = 5
"""Ops in each list of the text."""
_FIGURES = ("db", "cosine", "largest", "nans", "infs", "custom")
_COLUMNS = ("tensor", "op", "type", "nodes", "dtype", "is_wrong", "least", "fault")


@dataclass(frozen=True)
class DebugReport:
    """Comparison of two engines, tensor by tensor.

    Attributes:
        reference: The engine that counts as right.
        candidate: The engine that is judged.
        rows: A row for each tensor that both have, in the order of the ops.
        outputs: Names of the graph's outputs.
        unaligned: Number of tensors that ops compute and only one of the two has.
    """

    reference: str
    candidate: str
    samples: int
    rows: tuple[Row, ...]
    outputs: tuple[str, ...]
    unaligned: int

    @cached_property
    def first_wrong(self) -> Row | None:
        """The first op that is wrong alone; None if none is."""
        return first_wrong(self.rows)

    @property
    def first_not_finite(self) -> Row | None:
        """The first op with NaN or infinities that the reference does not have."""
        return next((row for row in self.rows if row.cumulative.nans or row.cumulative.infs), None)

    def worst(self, *, alone: bool) -> list[Row]:
        """Return the rows with the largest errors, the worst first.

        Args:
            alone: Whether ops count alone, or with all errors before them.
        """
        if alone:
            rows = [row for row in self.rows if row.isolated is not None]
            return sorted(rows, key=lambda row: row.isolated.db if row.isolated else 0.0)[:SHOWN]
        return sorted(self.rows, key=lambda row: row.cumulative.db)[:SHOWN]

    def __str__(self) -> str:
        """Return the result in one screen."""
        lines = [
            f"{self.candidate} against {self.reference}: {len(self.rows)} tensor(s), {self.samples} sample(s)"
            + (f"; {self.unaligned} tensor(s) without a counterpart" if self.unaligned else "")
        ]
        wrong = self.first_wrong
        if wrong is None:
            lines.append("no op is wrong by itself")
        else:
            lines.append(f"first wrong op: {_named(wrong)}")
            lines.append(f"  by itself {_words(wrong.isolated)}: {wrong.fault}")
            lines.append(f"  with all errors before it {_words(wrong.cumulative)}")
        broken = self.first_not_finite
        if broken is not None:
            lines.append(f"first NaN or infinity: {_named(broken)}")
        for title, alone in (("worst alone", True), ("worst with errors before", False)):
            lines.append(f"{title}:")
            for row in self.worst(alone=alone):
                lines.append(f"  {_words(row.isolated if alone else row.cumulative)}  {_named(row)}")
        lines.append("outputs:")
        lines += [
            f"  {_words(row.cumulative)}  {row.tensor}" for row in self.rows if row.tensor in self.outputs
        ]
        compared = {row.tensor for row in self.rows}
        lines += [f"  not compared  {name}" for name in self.outputs if name not in compared]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON-like values."""
        wrong, broken = self.first_wrong, self.first_not_finite
        return {
            "schema": 1,
            "reference": self.reference,
            "candidate": self.candidate,
            "samples": self.samples,
            "first_wrong": None if wrong is None else wrong.tensor,
            "first_not_finite": None if broken is None else broken.tensor,
            "outputs": list(self.outputs),
            "unaligned": self.unaligned,
            "tensors": [_plain({**asdict(row), "is_wrong": row.is_wrong}) for row in self.rows],
        }

    def csv(self) -> str:
        """Return the tensors as CSV text."""
        heads = [*_COLUMNS, *(f"{kind}_{name}" for kind in ("cumulative", "isolated") for name in _FIGURES)]
        return csv_text([heads, *(_cells(row) for row in self.rows)])

    def write(self, path: PathLike) -> None:
        """Write the report as HTML, JSON or CSV, by the suffix.

        Raises:
            UsageError: If the suffix is another.
            StorageError: If the file cannot be written.
        """
        replace_text(path, FORMS[check_path(path)](self))


def _as_text(report: DebugReport) -> str:
    return json.dumps(report.as_json(), indent=1) + "\n"


def _as_html(report: DebugReport) -> str:
    from xdlc.page import fill

    name = f"{report.candidate} against {report.reference}"
    lines = str(report).split("\n")
    return fill("xdlc.debug", report.as_json(), kind="Debugger report", name=name, summary=lines)


FORMS: dict[str, Callable[[DebugReport], str]] = {
    ".html": _as_html,
    ".json": _as_text,
    ".csv": DebugReport.csv,
}
"""Text of a report by suffix."""


def check_path(path: PathLike) -> str:
    """Return the suffix of a report's path after a check of it.

    Raises:
        UsageError: If no form has it.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMS:
        problem = f"no report has the suffix {suffix!r}"
        raise UsageError(problem, where=str(path), fix=f"name a file that ends in {', '.join(FORMS)}")
    return suffix


def _cells(row: Row) -> list[object]:
    values = {**asdict(row), "is_wrong": row.is_wrong, "nodes": " ".join(row.nodes)}
    figures = [getattr(side, name, "") for side in (row.cumulative, row.isolated) for name in _FIGURES]
    return [values[column] for column in _COLUMNS] + ["" if cell is None else cell for cell in figures]


def _plain(value: Any) -> Any:
    """Return a value without numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _words(figures: Figures | None) -> str:
    if figures is None:
        return "-"
    parts = [f"{figures.db:6.1f} dB, cosine {figures.cosine:.5f}, at most {figures.largest:.3g} off"]
    if figures.nans or figures.infs:
        parts.append(f"{figures.nans} NaN, {figures.infs} infinite")
    if figures.custom is not None:
        parts.append(f"metric {figures.custom:.6g}")
    return ", ".join(parts)


def _named(row: Row) -> str:
    return f"{row.op} ({row.type}){_sources(row.nodes)}"


def _sources(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:SHOWN]) + (f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else "")
    return f" from {shown}" if nodes else ""
