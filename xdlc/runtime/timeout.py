"""Time-outs of loops, and of runs as a whole.

Each loop may run for so long, counted from its own start.  The clock is looked at before every
iteration; beside that a timer ends an iteration that is itself too long, between two of its ops.
All loops have the same time-out, so of loops under way the outermost one's ends first, and one
timer does.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xdlc.errors import BackendError, UsageError
from xdlc.options import spell

DEFAULT = 2.0
OBSERVED = 3.0
"""Default while a quantizer runs a model: each iteration has more to do."""
LONGEST = EMULATED = 15.0
"""Longest time-out, and default on the emulation of HTP, which is slow."""


def checked(seconds: float | None) -> float:
    """Return a time-out in seconds, limited to the longest with a warning.

    Raises:
        UsageError: If it is not a positive number.
    """
    if seconds is None:
        return DEFAULT
    if not isinstance(seconds, int | float) or math.isnan(seconds) or seconds <= 0:
        raise UsageError(
            f"{spell('loop_timeout')} is {seconds!r}",
            fix=f"give seconds, more than 0 and at most {LONGEST:g}",
        )
    if seconds > LONGEST:
        logging.getLogger(__name__).warning(
            "you set a loop time-out of %g s; the largest is %g s, which xdlc uses", seconds, LONGEST
        )
    return min(float(seconds), LONGEST)


@dataclass(slots=True)
class Running:
    """A loop that is under way.

    Attributes:
        deadline: When it must have ended, on the monotonic clock.
    """

    where: str
    deadline: float
    done: int = 0


class Watch:
    """Watches the time of the loops of a run.

    Args:
        timeout: Seconds that each loop may take.

    Attributes:
        options: ``onnxruntime.RunOptions`` for sessions inside a loop or a run that is ended; else None.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.options: Any = None
        self._loops: list[Running] = []
        self._until: float | None = None

    @contextmanager
    def until(self, moment: float | None) -> Iterator[None]:
        """End the run in the block at a time of the monotonic clock; None for never."""
        if moment is None:
            yield
            return
        self._until = moment
        with self._timer(moment - time.monotonic()):
            yield

    @contextmanager
    def loop(self, where: str) -> Iterator[Running]:
        """Watch the time of a loop during the block."""
        running = Running(where, time.monotonic() + self.timeout)
        self._loops.append(running)
        try:
            if len(self._loops) == 1:
                with self._timer(self.timeout):
                    yield running
            else:
                yield running
        finally:
            self._loops.pop()

    @contextmanager
    def _timer(self, seconds: float) -> Iterator[None]:
        import onnxruntime

        outer = self.options
        options = self.options = outer or onnxruntime.RunOptions()
        options.log_severity_level = 4

        def end() -> None:
            options.terminate = True

        timer = threading.Timer(max(seconds, 0), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self.options = outer

    def remaining(self) -> float | None:
        """Return the seconds that are left to the loops under way; None outside of loops."""
        return self._loops[0].deadline - time.monotonic() if self._loops else None

    def check(self) -> None:
        """Raise an error if a loop or the whole run exceeds its time.

        Raises:
            BackendError: Naming the loop, and the innermost one if that is another.
        """
        if self._until is not None and time.monotonic() >= self._until:
            raise BackendError("the run did not end by its deadline", fix="raise the time limit")
        if self._loops and time.monotonic() >= self._loops[0].deadline:
            raise self._overrun()

    def _overrun(self) -> BackendError:
        outer, inner = self._loops[0], self._loops[-1]
        inside = f"; the inner loop {inner.where} did {inner.done} iterations" if inner is not outer else ""
        longer = (
            "end the loop earlier with its condition, or reduce the work of an iteration"
            if self.timeout >= LONGEST
            else f"raise {spell('loop_timeout')} to at most {LONGEST:g} s, or reduce the loop's work"
        )
        return BackendError(
            f"the loop did not end after {self.timeout:g} s, with {outer.done} iterations done{inside}",
            where=outer.where,
            fix=longer,
        )
