"""Memory of a process that loads the vendor's library: it ends before the machine has none left.

The system's own limits do not help: where one refuses memory, the library reports that HTP does not support
an op, or aborts, and threads that take none count with their whole stacks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

_PERIOD = 0.2
"""Seconds between two looks: a process fills 0.5 GB in them at most."""
_MOST = 7
"""Times the free memory that the process may hold: on an idle machine, seven eighths of what is free."""


def watch() -> None:
    """Kill this process, with a line on standard error, once it holds seven times what is free."""
    threading.Thread(target=_look, daemon=True).start()


def _look() -> None:
    with contextlib.suppress(OSError, ValueError, IndexError):  # another system, or another /proc
        while _sum("/proc/meminfo", b"MemAvailable:"):
            used, free = _held(), _free()
            if used > _MOST * free:
                words = f"it held {used >> 20} MB of memory and {free >> 20} MB were free\n"
                os.write(2, words.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(_PERIOD)


def _held() -> int:
    """Return the bytes of this process that are in no file."""
    return _sum("/proc/self/status", b"RssAnon:", b"RssShmem:", b"VmSwap:")


def _free() -> int:
    """Return the bytes of memory and swap that any process may still take."""
    return _sum("/proc/meminfo", b"MemAvailable:", b"SwapFree:")


def _sum(path: str, *names: bytes) -> int:
    with open(path, "rb") as file:
        lines = [line.split() for line in file]
    return sum(int(line[1]) << 10 for line in lines if line[:1] and line[0] in names)
