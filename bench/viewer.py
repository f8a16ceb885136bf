"""Measure the viewer's page in Chromium, next to Netron on the same file.

    python -m bench.viewer net.dlc other.onnx --ops 1000 10000 [--runs 5]

A page is opened from a file, Netron from its server on this machine.  Opening lasts from the start of the
navigation until two frames have passed since the graph is there.  A frame is what passes between two
animation frames while the page moves or zooms at each of them; Chromium has no limit of frames then.
``--ops`` measures graphs without a file, which Netron cannot open.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import xdlc
from tests.support.contents import Content, blocks, content, side
from tests.support.pages import Browser
from xdlc.view.content import page
from xdlc.view.content import side as side_of

FLAGS = ("--disable-frame-rate-limit", "--disable-gpu-vsync")
FRAMES = 120
SECONDS = 300
PAGE_READY = "document.documentElement?.dataset.ready === '1'"
NETRON_READY = (
    "[...document.querySelectorAll('button')].find(one => one.innerText === 'Accept')?.click(), "
    "document.querySelectorAll('.node').length > 0 && !document.body.classList.contains('welcome')"
)
PAGE_MOVES = {
    "pan": "View.app.active.canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: 40, cancelable: true }))",
    "zoom": "View.app.active.canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: i < N / 2 ? 6 : -6, "
    "ctrlKey: true, clientX: 600, clientY: 400, cancelable: true }))",
}
NETRON_MOVES = {
    "pan": "document.getElementById('target').scrollTop += 40",
    "zoom": "document.getElementById('target').dispatchEvent(new WheelEvent('wheel', "
    "{ deltaY: i < N / 2 ? 6 : -6, ctrlKey: true, clientX: 600, clientY: 400, bubbles: true, "
    "cancelable: true }))",
}
UNFOLD = "View.app.active.openAll(true), View.app.active.begin()"
FIT = "View.app.active.fit()"


def frames(browser: Browser, move: str) -> tuple[float, float]:
    """Return the median and the 95th percentile of a frame, in ms."""
    script = f"""(async () => {{
      const N = {FRAMES}, times = [], frame = () => new Promise(requestAnimationFrame);
      let last = await frame();
      for (let i = 0; i < N; i++) {{ {move}; const now = await frame(); times.push(now - last); last = now; }}
      return times;
    }})()"""
    answer = browser.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
    times = sorted(answer["result"]["value"])
    return times[len(times) // 2], times[int(len(times) * 0.95)]


def opening(browser: Browser, url: str, ready: str) -> float:
    """Return how long opening a page lasts, in seconds."""
    start = time.monotonic()
    browser.call("Page.navigate", url=url)
    while not browser.value(ready):
        if time.monotonic() - start > SECONDS:
            raise TimeoutError(url)
    two = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
    browser.call("Runtime.evaluate", expression=two, awaitPromise=True)
    return time.monotonic() - start


def measured(url: str, ready: str, moves: dict[str, str], runs: int, steps: tuple[str, ...]) -> str:
    """Return a line of figures of a page; after each step it moves and zooms again."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "needs chromium in the path"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile, *FLAGS)
        try:
            size = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            times = [opening(browser, url, ready) for _ in range(runs)]
            parts = [f"opens in {statistics.median(times):.2f} s"]
            for step in steps:
                if step:
                    browser.value(f"{step}, 0")
                for name, move in moves.items():
                    median, high = frames(browser, move)
                    parts.append(f"{name} {median:.1f} / {high:.1f} ms")
            return ", ".join(parts)
        finally:
            browser.close()


@contextmanager
def served(file: Path) -> Iterator[str]:
    """Serve a file with Netron; yield its address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    start = f"import netron; netron.start({str(file)!r}, address={port}, browse=False); netron.wait()"
    command = [sys.executable, "-c", start]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("localhost", port)) == 0:
                    break
            assert time.monotonic() < end, "Netron does not start"
            time.sleep(0.05)
        yield f"http://localhost:{port}/"
    finally:
        process.kill()
        process.wait()


def of_page(name: str, stated: Content, folder: Path, runs: int) -> None:
    """Print the figures of our page."""
    ops = sum(len(graph["ops"]) for graph in stated["sides"][0]["graphs"])
    file = folder / "page.html"
    file.write_text(page(stated), encoding="utf-8")
    size = file.stat().st_size
    bare = len(page(content(side(blocks(1)))))
    print(f"{name}: {ops} ops, page of {size:,} bytes, {(size - bare) / max(ops, 1):.0f} for each op")
    for label, steps in (
        ("as it opens", ("",)),
        ("unfolded", (UNFOLD,)),
        ("all in view", (f"{UNFOLD}, {FIT}",)),
    ):
        print(f"  xdlc, {label}: {measured(file.as_uri(), PAGE_READY, PAGE_MOVES, runs, steps)}", flush=True)


def main() -> None:
    """Measure files and made graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="DLCs; an ONNX model is converted for the page")
    parser.add_argument("--ops", nargs="*", type=int, default=(), help="sizes of graphs without a file")
    parser.add_argument("--runs", type=int, default=5, help="how often each page opens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for file in options.files:
            model = xdlc.load(file) if file.suffix == ".dlc" else xdlc.convert(file)
            of_page(
                file.name,
                content(side_of(model, name=file.name, nbytes=file.stat().st_size)),
                Path(folder),
                options.runs,
            )
            with served(file) as url:
                print(
                    f"  Netron: {measured(url, NETRON_READY, NETRON_MOVES, options.runs, ('',))}", flush=True
                )
        for ops in options.ops:
            of_page("made graph", content(side(blocks(ops))), Path(folder), options.runs)


if __name__ == "__main__":
    main()
