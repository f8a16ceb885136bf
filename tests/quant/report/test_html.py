import json
from dataclasses import replace

import pytest

from tests.support.pages import Page, check_shut
from xdlc.quant.report import write
from xdlc.quant.report.reporter import as_html


@pytest.fixture
def page(report):
    return Page(as_html(report))


def test_the_page_is_whole(page):
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {"hero", "chart", "readout", "rows", "search", "data", "theme"} <= set(ids)
    assert page.only("html")["lang"] == "en"
    assert "width=device-width" in page.only("meta", name="viewport")["content"]
    named = {attrs.get("aria-controls") or attrs.get("aria-labelledby") for _, attrs in page.elements}
    assert {name for name in named if name} <= set(ids)


def test_the_page_is_shut(report):
    check_shut(as_html(report))


def test_hostile_names_stay_text(report, page):
    data = json.loads(page.texts["scriptapplication/json"])
    assert data["tensors"][0]["name"] == report.tensors[0].name
    assert data["model"] == report.model
    assert "<img src=x" in page.texts["title"]


def test_names_are_not_taken_for_places_of_the_template(report):
    page = Page(as_html(replace(report, model="{{SCRIPT}} {{DATA}} \\1 \\g<0>")))
    assert page.texts["title"].endswith("{{SCRIPT}} {{DATA}} \\1 \\g<0>")
    assert page.open == []


def test_without_scripts_there_is_a_summary(report, page):
    assert "outputs at 11.0 dB" in page.texts["pre"]


def test_the_same_report_makes_the_same_bytes(report, tmp_path):
    for name in ("a.html", "b.html"):
        write(report, tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_large_networks_stay_small(report):
    tensors = [
        replace(
            report.tensors[index % 2], name=f"/model/layers.{index}/attention/output_{index}", order=index
        )
        for index in range(2000)
    ]
    histogram = replace(report.tensors[0].histogram, counts=tuple(range(1000, 1080)))
    held = replace(report, tensors=tuple(replace(tensor, histogram=histogram) for tensor in tensors))
    assert len(as_html(held)) < 5_000_000
