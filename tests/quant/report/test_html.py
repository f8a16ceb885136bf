import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from xdlc.quant.report import write
from xdlc.quant.report.reporter import as_html


class Page(HTMLParser):
    """Collects elements of a page, text of scripts and styles, and open elements."""

    VOID = frozenset({"meta", "input", "br", "link", "img"})

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            kind = self.elements[-1][1].get("type", "") if self.open[-1] == "script" else ""
            key = self.open[-1] + kind
            self.texts[key] = self.texts.get(key, "") + data

    def only(self, tag, **attrs):
        (found,) = [held for name, held in self.elements if name == tag and attrs.items() <= held.items()]
        return found


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


def test_the_page_refers_to_nothing_outside(report, page):
    for tag, attrs in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "srcset", "action", "data", "style"} & set(attrs), (tag, attrs)
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    text = as_html(report)
    assert re.findall(r"https?://[^\"' ]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|url\(|innerHTML|eval\(|fetch\(|XMLHttpRequest|localStorage", text)


def test_the_policy_allows_the_pages_own_script_and_style_alone(page):
    policy = page.only("meta", **{"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none';")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_hostile_names_stay_text(report, page):
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not any(tag == "img" for tag, _ in page.elements)
    data = json.loads(page.texts["scriptapplication/json"])
    assert data["tensors"][0]["name"] == report.tensors[0].name
    assert data["model"] == report.model
    raw = re.search(r'id="data">(.*?)</script>', as_html(report), re.DOTALL)[1]
    assert raw.isascii()
    assert not set("<>&") & set(raw)
    assert "<img src=x" in page.texts["title"]


def test_names_are_not_taken_for_places_of_the_template(report):
    page = Page(as_html(replace(report, model="{{SCRIPT}} {{DATA}} \\1 \\g<0>")))
    assert page.texts["title"].endswith("{{SCRIPT}} {{DATA}} \\1 \\g<0>")
    assert page.open == []


def test_without_scripts_there_is_a_summary(report, page):
    assert "SQNR of the outputs: 11.0 dB" in page.texts["pre"]


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
