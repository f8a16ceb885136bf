"""Page of the debugger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import HOSTILE, ROWS, check_shut, opened
from xdlc.compare.figures import Figures
from xdlc.compare.first_wrong import Row
from xdlc.debug.report import DebugReport


def row(name: str, cumulative: float, isolated: float | None, nans: int = 0) -> Row:
    alone = None if isolated is None else Figures(isolated, 0.9, float("inf"), 0, 0)
    both = Figures(cumulative, 0.99, 0.5, nans, 0)
    fault = "at least 40.0 dB are expected" if isolated is not None and isolated < 40 else ""
    fault = "" if alone is None or alone.db >= 40.0 else "at least 40.0 dB are expected"
    fault = f"below 40 dB in {name}" if isolated is not None and isolated < 40 else ""
    return Row(name, f"op of {name}", "Conv2d", (name,), "float32", both, alone, 40.0, fault)


@pytest.fixture
def report() -> DebugReport:
    """A report with a wrong op, NaN, and names that nobody should run."""
    rows = (row("a", 90, 200), row(HOSTILE, 20, 12), row("c", 15, None, nans=3), row("d", -200, 70))
    return DebugReport("host", HOSTILE, 2, rows, ("d", HOSTILE, "e"), 1)


def test_the_page_is_shut_and_tells_the_essentials_without_scripts(
    report: DebugReport, tmp_path: Path
) -> None:
    report.write(tmp_path / "debug.html")
    page = check_shut((tmp_path / "debug.html").read_text("utf-8"))
    assert "first wrong op: op of =1+1</script>" in page.texts["pre"]
    assert not {"\u2028", "\u202e", "\ud800"} & set(page.texts["pre"])


def test_the_page_in_a_browser(report: DebugReport, tmp_path: Path) -> None:
    path = tmp_path / "debug.html"
    report.write(path)
    with opened(path, tmp_path / "profile") as browser:
        rows = browser.value(ROWS)
        assert (len(rows), rows[0], rows[1].startswith("=1+1</script><img")) == (4, "a", True)
        hero = browser.value("document.getElementById('hero').innerText")
        assert "below 40 dB in =1+1</script>" in hero
        assert "op of c" in hero
        assert "not compared" in hero
        assert browser.value("document.querySelectorAll('#chart circle.bad').length") == 1
        browser.value("document.querySelector('#hero button').click()")
        assert "12.0 dB" in browser.value("document.querySelector('td.detail').innerText")
        browser.value("document.getElementById('weak').click()")
        assert browser.value(f"{ROWS}.length") == 3  # two rows, one of them open
        press = "dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}))"
        browser.value(f"document.querySelector('#chart svg').{press}")
        assert "70.0 dB" in browser.value("document.getElementById('readout').innerText")


def test_a_page_without_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "debug.html"
    DebugReport("host", "float", 1, (row("a", 90, 90),), ("a",), 0).write(path)
    with opened(path, tmp_path / "profile") as browser:
        assert "No operation is wrong alone" in browser.value("document.getElementById('hero').innerText")
