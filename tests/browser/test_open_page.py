"""The page that opens DLCs in a browser: it draws them and asks for nothing."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.browser import browser_page, fetched
from scripts.docs import SITE
from tests.support.pages import HOSTILE, SECONDS, Browser
from tests.support.section_models import residual

pytestmark = pytest.mark.slow
STATE = "document.documentElement?.dataset.state || ''"
FAILURES = (
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Runtime.consoleAPICalled",
    "Page.javascriptDialogOpening",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the page and DLCs."""
    pyodide = fetched(SITE / "pyodide")
    if isinstance(pyodide, str):
        pytest.skip(f"needs Pyodide: {pyodide}")
    folder = tmp_path_factory.mktemp("site")
    (folder / "open-dlc.html").write_text(browser_page(pyodide), encoding="utf-8")
    model = residual()
    model.save(folder / "before.dlc")
    model.main.rename_op(next(iter(model.main.ops)), HOSTILE.replace("\ud800", ""))
    model.save(folder / "after.dlc")
    (folder / "damaged.dlc").write_bytes((folder / "before.dlc").read_bytes()[:5000])
    return folder


class Opener:
    """The page in Chromium."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            browser.call(f"{domain}.enable")
        browser.call("Page.navigate", url=url)
        assert self.wait("ready", "failed") == "ready"

    def wait(self, *states: str) -> str:
        end = time.monotonic() + SECONDS
        while (state := str(self.browser.value(STATE))) not in states:
            assert time.monotonic() < end, f"the page stays {state!r}"
            time.sleep(0.02)
        return state

    def drop(self, *files: Path) -> str:
        document = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        chooser = self.browser.call("DOM.querySelector", nodeId=document, selector="#files")["nodeId"]
        self.browser.value("document.documentElement.dataset.state = 'asked'")
        self.browser.call("DOM.setFileInputFiles", files=list(map(str, files)), nodeId=chooser)
        return self.wait("shown", "failed")

    def text(self, id: str) -> str:
        return str(self.browser.value(f"document.getElementById('{id}').textContent"))

    def check(self) -> None:
        """Check that the page asked for itself alone, and that nothing failed."""
        asked = [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        assert asked[0] == self.url
        assert all(url.startswith("blob:") for url in asked[1:])
        assert [event for event in self.browser.events if event["method"] in FAILURES] == []


@contextmanager
def opened(url: str, profile: Path) -> Iterator[Opener]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs chromium in the path")
    browser = Browser(program, str(profile))
    try:
        opener = Opener(browser, url)
        yield opener
        opener.check()
    finally:
        browser.close()


def test_dlcs_from_a_folder(folder: Path, tmp_path: Path) -> None:
    with opened((folder / "open-dlc.html").as_uri(), tmp_path) as page:
        assert "numpy" in page.text("state")
        assert page.drop(folder / "before.dlc") == "shown"
        count = len(residual().main)
        assert page.browser.value("View.app.content.sides[0].graphs[0].ops.length") == count
        assert page.browser.value("View.app.panes.length") == 1
        assert page.browser.value("document.querySelector('#view canvas').clientHeight") > 100
        assert page.drop(folder / "before.dlc", folder / "after.dlc") == "shown"
        assert page.browser.value("View.app.panes.length") == 2
        states = "new Set(View.app.content.diff.ops.map(row => row[4])).size"
        assert page.browser.value(states) > 1


def test_files_that_are_no_dlc_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07\x12\x04test:\x02\x0a\x00")
    with opened((folder / "open-dlc.html").as_uri(), tmp_path / "profile") as page:
        assert page.drop(folder / "damaged.dlc") == "failed"
        assert "damaged.dlc" in page.text("problem")
        assert "XD601" in page.text("problem")
        assert "/tmp" not in page.text("problem")
        assert page.drop(tmp_path / "net.onnx") == "failed"
        assert "net.onnx" in page.text("problem")
        assert page.drop(*[folder / "before.dlc"] * 3) == "failed"
        assert page.drop(folder / "after.dlc") == "shown"
        assert page.browser.value("document.getElementById('problem').hidden")
        assert page.drop(folder / "damaged.dlc") == "failed"
        assert page.browser.value("document.querySelectorAll('#view canvas').length") == 0
        assert page.drop(folder / "after.dlc") == "shown"


def test_a_server_is_asked_for_the_page_alone(folder: Path, tmp_path: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/open-dlc.html"
            with opened(url, tmp_path) as page:
                assert page.drop(folder / "before.dlc") == "shown"
        finally:
            server.shutdown()
