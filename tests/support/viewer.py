"""The viewer's page in Chromium, for its tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.contents import Content, content, graph, overlay, side
from tests.support.pages import Browser, opened
from xdlc.view.content import page

READY = "document.documentElement.dataset.ready === '1'"
CHOSEN = "View.app.active.chosen"
ARROWS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter")
SHOWN = "View.app.active.made.list.length"
CHECKS = Path(__file__).parents[1] / "view" / "checks.js"


@contextmanager
def viewed(stated: Content, folder: Path) -> Iterator[Browser]:
    """Open the page of a content in Chromium, with the checks of the tests."""
    path = folder / "net.html"
    path.write_text(page(stated), encoding="utf-8")
    with opened(path, folder / "profile", READY) as browser:
        browser.value(CHECKS.read_text("utf-8"))
        yield browser


def press(browser: Browser, key: str, *, shift: bool = False) -> None:
    """Press a key where the focus is."""
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            modifiers=8 if shift else 0,
            windowsVirtualKeyCode=27 if key == "Escape" else 0,
            **(text if kind == "keyDown" else {}),
        )


def address(browser: Browser) -> str:
    """Return the address once the page has set it."""
    return str(browser.value("new Promise(done => setTimeout(() => done(location.hash), 500))"))


def focus_graph(browser: Browser) -> None:
    browser.value("View.app.active.canvas.focus()")


def panel(browser: Browser) -> str:
    return str(browser.value("document.getElementById('panel').innerText"))


def ops_of(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "reads": [number - 1]} for number, name in enumerate(names)]


def all_colors() -> Content:
    colors = dict(
        zip("abcdefghi", ("good", "warn", "alarm", "c1", "c2", "c3", "c4", "c5", "c6"), strict=True)
    )
    names = [*colors, "none"]
    return side(
        graph(ops_of(*names)),
        overlays=[
            overlay("kind", [names], colors=colors),
            overlay("macs", [[number**3 for number in range(10)]]),
            overlay("sqnr", [[*range(0, 50, 5)]], marks=[10, 20], low_is_bad=True),
        ],
    )


def two_sides() -> Content:
    before, after = graph(ops_of("a", "b", "gone", "d")), graph(ops_of("a", "b", "d", "new"))
    change = {"kind": "param", "what": "stride", "before": [1, 1], "after": [2, 2], "note": None}
    diff = {
        "ops": [
            [0, 0, 0, 0, "same", []],
            [0, 1, 0, 1, "changed", [change]],
            [0, 2, 0, None, "only_a", []],
            [0, 3, 0, 2, "moved", []],
            [0, None, 0, 3, "only_b", []],
        ],
        "items": [{"kind": "metadata", "what": "version", "before": "1", "after": "2", "note": None}],
        "summary": ["2 ops differ"],
    }
    return content(side(before, file="old.dlc"), side(after, file="new.dlc"), diff=diff)
