"""The page in a real browser: drawn, sorted, filtered, opened, nothing run."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time

import pytest

from xdlc.quant.report import write

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --remote-debugging-pipe"
)
SECONDS = 60


class Browser:
    """Chromium, spoken to in its debugging protocol over a pair of pipes."""

    def __init__(self, program: str, folder: str) -> None:
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        command = f'exec "$0" {FLAGS} --user-data-dir="$1" about:blank 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, folder],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self._read, False)
        self._ids = itertools.count(1)
        self._rest = b""
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **params: object) -> dict:
        """Send a command and return its result; events that come before it are kept."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def _next(self) -> dict:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            try:
                part = os.read(self._read, 1 << 16)
            except BlockingIOError:
                assert time.monotonic() < end, "the browser does not answer"
                time.sleep(0.005)
                continue
            assert part, "the browser has gone"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url: str) -> None:
        """Open a page and wait until its script has drawn it."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        end = time.monotonic() + SECONDS
        while not self.value("document.readyState === 'complete' && !!document.querySelector('#rows > *')"):
            assert time.monotonic() < end, "the page was not drawn"

    def value(self, expression: str) -> object:
        """Return the value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def browser(tmp_path):
    program = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs chromium in the path")
    found = Browser(program, str(tmp_path / "profile"))
    yield found
    found.close()


ROWS = "[...document.querySelectorAll('#rows tbody tr')].map(tr => tr.cells[0].innerText.split('\\n')[0])"


def test_the_page_works_and_runs_nothing_else(browser, report, tmp_path):
    path = tmp_path / "r.html"
    write(report, path)
    browser.open(path.as_uri())
    rows = browser.value(ROWS)
    assert [rows[1], rows[2]] == ["w", "y"]
    assert rows[0].startswith("=1+1</script><img src=x")
    assert browser.value("document.images.length") == 0
    assert "\\u2028" in browser.value("document.querySelector('#rows .name').title")

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

    before = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.value("document.getElementById('theme').click()")
    assert browser.value("getComputedStyle(document.body).backgroundColor") != before

    for width in (1280, 360):
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    asked = [event["params"] for event in browser.events if event["method"] == "Network.requestWillBeSent"]
    assert [held["request"]["url"] for held in asked] == [path.as_uri()]
    failures = ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
    assert [event for event in browser.events if event["method"] in failures] == []
