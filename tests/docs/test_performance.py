"""The page of speed and memory shows the stored results and the goals."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from bench.results import Line, Result, as_row, machine, page
from scripts.docs import DOCS

STORED = DOCS / "reference/performance.json"


def test_the_page_shows_the_stored_results():
    assert (DOCS / "reference/performance.md").read_text() == page(json.loads(STORED.read_text()))


@pytest.mark.parametrize(
    ("line", "met"),
    [
        (Line("a", "s", 1.0), None),
        (Line("a", "s", 1.0, 2.0), True),
        (Line("a", "s", 3.0, 2.0), False),
        (Line("a", "gain", 1.9, 1.8, is_least=True), True),
        (Line("a", "gain", 1.5, 1.8, is_least=True), False),
        (Line("a", "s", None, 2.0, note="stopped"), False),
    ],
)
def test_a_goal_is_met_by_the_figure_alone(line, met):
    assert line.is_met is met
    assert ("**no**" in as_row(line)) is (met is False)


def test_the_page_names_rows_without_figures():
    rows = [
        Result("a", "Row A", [Line("a", "s", 3.0, 2.0)]),
        Result("b", "Row B", skipped="needs more disk"),
        Result("c", "Row C", [Line("c", "s", 1.0, 2.0)], failure="exit 1"),
    ]
    text = page({"machine": machine(), "quick": True, "rows": [asdict(row) for row in rows]})
    assert "Goals met: 1 of 2" in text
    assert "Not measured: needs more disk." in text
    assert "Not measured: exit 1." in text
    assert "quick run" in text
