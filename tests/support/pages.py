"""Pages of reports: what they have, and a browser that opens them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest

HOSTILE = "=1+1</script><img src=x onerror=alert(1)>&\"'\u2028\u202e\ud800{{DATA}}$name" + "n" * 10_000

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --remote-debugging-pipe"
)
SECONDS = 60

REPORT = "!!document.querySelector('#words > details')"
"""Script that tells whether a report is drawn."""


class Browser:
    """Chromium, spoken to in its debugging protocol over a pair of pipes."""

    def __init__(self, program: str, folder: str, *flags: str) -> None:
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        words = f'{FLAGS} {" ".join(flags)} --user-data-dir="$1"'
        command = f'exec "$0" {words} about:blank 3<&{theirs_in} 4>&{theirs_out}'
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
            event = self._next()
            if event.get("id") == number:
                assert "error" not in event, event
                return event["result"]
            self.events.append(event)

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

    def open(self, url: str, ready: str = REPORT) -> None:
        """Open a page and wait until its script has drawn it, which an expression tells."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        end = time.monotonic() + SECONDS
        while not self.value(f"document.readyState === 'complete' && {ready}"):
            assert time.monotonic() < end, "the page was not drawn"

    def value(self, expression: str) -> object:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)


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
        (element,) = [own for name, own in self.elements if name == tag and attrs.items() <= own.items()]
        return element


def check_shut(text: str) -> Page:
    """Return a page that is whole, loads nothing, runs its own script alone."""
    page = Page(text)
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "srcset", "action", "data", "style"} & set(attrs), (tag, attrs)
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    assert [tag for tag, _ in page.elements].count("script") == 2
    raw = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert raw.isascii()
    assert not set("<>&") & set(raw)
    rest = text.replace(raw, "")
    assert re.findall(r"https?://[^\"' ]*", rest) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|url\(|innerHTML|eval\(|fetch\(|XMLHttpRequest|localStorage", rest)
    policy = page.only("meta", **{"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none';")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    return page


@contextmanager
def opened(path: Path, profile: Path, ready: str = REPORT) -> Iterator[Browser]:
    """Open a page in Chromium, and check it at the end: width, themes, requests."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs chromium in the path")
    browser = Browser(program, str(profile))
    try:
        browser.open(path.as_uri(), ready)
        yield browser
        assert browser.value("document.images.length") == 0
        for width in (1280, 390, 360):
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=800,
                deviceScaleFactor=1,
                mobile=False,
            )
            assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        before = browser.value("getComputedStyle(document.body).backgroundColor")
        browser.value("document.getElementById('theme').click()")
        assert browser.value("getComputedStyle(document.body).backgroundColor") != before
        asked = [
            event["params"] for event in browser.events if event["method"] == "Network.requestWillBeSent"
        ]
        assert [request["request"]["url"] for request in asked] == [path.as_uri()]
        failures = ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
        assert [event for event in browser.events if event["method"] in failures] == []
    finally:
        browser.close()


ROWS = "[...document.querySelectorAll('#rows tbody tr')].map(tr => tr.cells[0].innerText.split('\\n')[0])"
"""Script that returns the first line of each row of the table."""
