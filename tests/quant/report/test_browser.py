"""The page in a real browser: drawn, sorted, filtered, opened, nothing run."""

from tests.support.pages import ROWS, opened
from xdlc.quant.report import write


def test_the_page_works_and_runs_nothing_else(report, tmp_path):
    path = tmp_path / "r.html"
    write(report, path)
    with opened(path, tmp_path / "profile") as browser:
        rows = browser.value(ROWS)
        assert [rows[1], rows[2]] == ["w", "y"]
        assert rows[0].startswith("=1+1</script><img src=x")
        assert "\\u2028" in browser.value("document.querySelector('#rows .name').title")

        assert browser.value("document.querySelector('.score .chip').innerText") == report.verdict
        narrow = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.call("Emulation.setDeviceMetricsOverride", **narrow)
        assert browser.value("document.querySelector('th[aria-sort]').offsetWidth") > 40
        assert browser.value("document.documentElement.scrollWidth") == 390
        browser.call("Emulation.clearDeviceMetricsOverride")

        browser.value("document.querySelector('[data-key=name]').click()")
        assert browser.value("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
        browser.value("document.querySelector('[data-key=name]').click()")
        assert browser.value(ROWS)[0] == "y"

        browser.value(
            "document.getElementById('search').value = 'weight';"
            "document.getElementById('search').dispatchEvent(new Event('input'))"
        )
        assert browser.value(ROWS) == ["w"]
        browser.value("document.querySelector('#rows tbody button').click()")
        assert browser.value("document.querySelectorAll('td.detail figure svg').length") == 2
        assert browser.value("document.activeElement.getAttribute('aria-expanded')") == "true"

        browser.value("document.getElementById('tab-ops').click()")
        assert browser.value("document.getElementById('tab-ops').getAttribute('aria-selected')") == "true"
        browser.value("document.querySelector('.worst button').click()")
        assert "Conv2d" in browser.value("document.querySelector('td.detail').innerText")

        browser.value(
            "document.querySelector('#chart svg').dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}))"
        )
        assert "11.0 dB" in browser.value("document.getElementById('readout').innerText")
