"""Bars that show how far the work is, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xdlc.cli.tool import is_quiet


def _draw_nothing(_done: int) -> None:
    pass


def _is_shown() -> bool:
    """Whether somebody looks; a daemon may have no standard error at all."""
    return not is_quiet() and sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(title: str, unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a callback for the number of steps done, which draws a bar: on a terminal, after a second."""
    if not _is_shown():
        yield _draw_nothing
        return
    from tqdm import tqdm

    with tqdm(desc=title, unit=unit, total=total, delay=1, leave=False, file=sys.stderr) as bar:

        def advance(done: int) -> None:
            bar.update(done - bar.n)

        yield advance


Tell = Callable[[str, str], None]


@contextmanager
def outcomes(title: str, unit: str, total: int) -> Iterator[tuple[Tell, dict[str, str]]]:
    """Give a callback for parts of the work and what becomes of them, and what it was told last of each.

    ``started`` is no outcome yet.  A bar on a terminal shows the number of outcomes, the latest one, and
    what is under way.
    """
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    bar: Any = None
    if _is_shown():
        from tqdm import tqdm

        bar = tqdm(desc=title, unit=unit, total=total, leave=False, file=sys.stderr)

    def tell(part: str, state: str) -> None:
        if state == "started":
            running[part] = None
        else:
            found[part] = state
            running.pop(part, None)
        if bar is not None:
            latest = [f"{part} {state}"] if state != "started" else []
            now = [f"{', '.join(running)} under way"] if running else []
            bar.set_postfix_str("; ".join([*latest, *now]), refresh=False)
            bar.n = len(found)
            bar.refresh()

    try:
        yield tell, found
    finally:
        if bar is not None:
            bar.close()


def _draw_no_steps(_title: str, _done: int, _total: int) -> None:
    pass


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback for the title of a part of the work, steps done and all steps; draws a bar a part."""
    if not _is_shown():
        yield _draw_no_steps
        return
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def advance(title: str, done: int, total: int) -> None:
        if title not in bars:
            for bar in bars.values():
                bar.close()
            bars[title] = tqdm(desc=title, total=total, delay=1, leave=False, file=sys.stderr)
        bars[title].update(done - bars[title].n)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()
