"""Page of the cost of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.pages import HOSTILE, ROWS, check_shut, opened
from xdlc.content.static_cost import StaticCost
from xdlc.cost.device import DeviceCost, OpCost
from xdlc.cost.report import CostReport
from xdlc.cost.schematic import Traffic
from xdlc.cost.times import Milliseconds


def op(name: str, read: int, *, spilled: int = 0) -> OpCost:
    traffic = Traffic(read, spilled, 2 * read, read)
    kernels = {"HMX": 3, "DMA": 1}
    reason = "reads weights from DRAM"
    return OpCost(name, "Conv2d", (name,), (HOSTILE,), kernels, traffic, spilled, spilled, 10, 20, reason)


@pytest.fixture
def report() -> CostReport:
    """A report of two plans, with names that nobody should run."""
    first = DeviceCost(
        HOSTILE, "sm8650", 8, "v2", (op(HOSTILE, 3000), op("b", 5000)), 0, 4096, (f"note on {HOSTILE}",)
    )
    second = replace(first, vtcm_mb=2, ops=(op(HOSTILE, 3000), op("b", 9000, spilled=700)))
    times = (Milliseconds("Phone", 1.5, 1.2, 2.0), "xdlc has times for 8 MB of VTCM, not for 2")
    return CostReport((StaticCost(HOSTILE, 10, 20, 30, 40, 50),), (first, second), times)


def test_the_page_is_shut_and_tells_the_essentials_without_scripts(report: CostReport) -> None:
    page = check_shut(report.as_html(HOSTILE))
    assert "8,000 bytes read" in page.texts["pre"]
    assert "1.50 ms (1.20 to 2.00)" in page.texts["pre"]
    assert not {"\u2028", "\u202e", "\ud800"} & set(page.texts["pre"])


def test_the_page_in_a_browser(report: CostReport, tmp_path: Path) -> None:
    path = tmp_path / "cost.html"
    before = replace(report, devices=(replace(report.devices[0], ops=(op("b", 1000),)),))
    path.write_text(report.as_html(HOSTILE, before), encoding="utf-8")
    with opened(path, tmp_path / "profile") as browser:
        rows = browser.value(ROWS)
        assert (rows[0], rows[1].startswith("=1+1</script><img")) == ("b", True)
        browser.value("document.querySelector('#rows tbody button').click()")
        assert "DRAM read 4.9" in browser.value("document.querySelector('td.detail').innerText")
        browser.value("document.getElementById('tab-plan1').click()")
        browser.value("document.getElementById('weak').click()")
        assert browser.value(ROWS) == ["b"]
        browser.value("document.getElementById('weak').click()")
        browser.value("document.getElementById('tab-change0').click()")
        changes = browser.value("document.getElementById('rows').innerText")
        assert "+3.9" in changes
        assert "new" in changes
        assert "1.20 to 2.00" in browser.value("document.querySelector('.plans').innerText")


def test_a_page_without_plans(report: CostReport, tmp_path: Path) -> None:
    path = tmp_path / "cost.html"
    path.write_text(CostReport(report.static, (), ()).as_html("net"), encoding="utf-8")
    with opened(path, tmp_path / "profile") as browser:
        assert "MACs" in browser.value("document.getElementById('hero').innerText")
        assert browser.value("document.getElementById('table').hidden")
