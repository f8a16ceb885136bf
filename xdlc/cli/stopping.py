"""Ends a tool in order when it is asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def in_order() -> Iterator[None]:
    """Make signals that ask to stop end what runs as Ctrl-C does, so that no files are left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal that is ignored stays so: that is how nohup asks for it.
    taken = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def report(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    """Return what to say of an interrupt, and the exit code that shells report it with."""
    number = signal.Signals(*interrupt.args or (signal.SIGINT,))
    return "interrupted" if number == signal.SIGINT else f"stopped by {number.name}", 128 + number


def _stop(number: int, _: object) -> NoReturn:
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # another one would disturb the cleaning up
    raise KeyboardInterrupt(number)
