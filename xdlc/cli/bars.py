"""Progress bars: a line on a terminal, shown after a second, removed at the end.

Nothing is drawn where standard error is no terminal, and with ``--quiet``.  All work of a tool that may take
longer than a second runs inside ``steps``; the line moves on while nothing is reported.  Code below the tools
knows no bars: it has a callback ``step(title, done, total)``, with a total of 0 where it is not known (in the
quantizer: ``job.under_way(title, done, total)``).  Output meanwhile goes through ``undisturbed``, as
``tool.notice`` and logs do.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

DELAY = 1.0
"""Seconds before anything is drawn."""

REDRAWN = 0.5
"""Seconds after which the line is drawn again, with progress or without."""

USUAL = 80
"""Columns of a terminal without a size."""

Step = Callable[[str, int, int], None]


def _is_shown() -> bool:
    """Return whether standard error is a terminal; a daemon may have none at all."""
    from xdlc.cli.tool import is_quiet

    return not is_quiet() and sys.stderr is not None and sys.stderr.isatty()


class _Line:
    """The line of the step that is under way.

    Args:
        unit: What a step is.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._begin = time.monotonic()
        self._title = ""
        self._bar: Any = None
        self.lock = threading.RLock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def step(self, title: str, done: int, total: int) -> None:
        with self.lock:
            if self._bar is None or title != self._title or total != (self._bar.total or 0):
                self._open(title, total)
            self._bar.n = done
            if not total:
                count = " {n_fmt}" if done else ""
                self._bar.bar_format = f"{{desc}}{count} [{{elapsed}}]"
            self._bar.update(0)  # which draws if it is time to

    def clear(self) -> None:
        if self._bar is not None and time.monotonic() - self._begin >= DELAY:
            self._bar.clear()

    def close(self) -> None:
        self._over.set()
        self._ticker.join()
        if self._bar is not None:
            self._bar.close()

    def _open(self, title: str, total: int) -> None:
        from tqdm import tqdm

        if self._bar is not None:
            self._bar.close()
        self._title = title
        self._bar = tqdm(
            desc=title,
            unit=self._unit,
            total=total or None,
            delay=max(DELAY - (time.monotonic() - self._begin), 1e-9),
            miniters=0,
            mininterval=0.1,
            leave=False,
            ncols=_columns(),
            nrows=20,  # what it takes by itself; none are drawn in a terminal that states 0
            file=sys.stderr,
        )

    def _tick(self) -> None:
        while not self._over.wait(REDRAWN):
            with self.lock:
                if self._bar is not None:
                    self._bar.update(0)


def _columns() -> int:
    """Return the width of the line; a terminal without a size has the usual one."""
    try:
        return (os.get_terminal_size(sys.stderr.fileno()).columns or USUAL) - 1
    except (OSError, ValueError):
        return USUAL - 1


_line: _Line | None = None


@contextmanager
def steps(title: str = "", unit: str = "it") -> Iterator[Step]:
    """Yield a callback for a step's title, items done and all items (0: unknown).

    Args:
        title: What is under way from the start, in a word or two: ``converting``.
        unit: What a step is, for the speed.
    """
    global _line
    own = _Line(unit) if _line is None and _is_shown() else None
    _line = line = _line or own
    step: Step = (lambda _title, _done, _total: None) if line is None else line.step
    try:
        if title:
            step(title, 0, 0)
        yield step
    finally:
        if own is not None:
            _line = None
            own.close()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Clear the progress line while other output is printed."""
    if _line is None:
        yield
        return
    with _line.lock:
        _line.clear()
        yield
