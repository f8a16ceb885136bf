"""Processors of this process; limits of time and memory of a child process."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator

_PERIOD = 0.2
"""Seconds between two looks at the memory: a process fills 0.5 GB in them at most."""
_MOST = 7
"""Limit of the process's memory as a multiple of the free memory: seven eighths of an idle machine."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


AT_A_TIME = min(4, processors())
"""Runs of a session that work at the same time."""


@contextlib.contextmanager
def limited(seconds: float | None, memory: int | None) -> Iterator[dict[str, float]]:
    """Limit the process in a context; yield a dict that gets the seconds ``used``.

    Args:
        seconds: Of the processor; the system ends a process that uses more.
        memory: Bytes beside those that it has now; the system refuses more.
    """
    used: dict[str, float] = {}
    if seconds is None and memory is None:
        yield used
        return
    start = time.process_time()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if seconds is not None:
        signal.setitimer(signal.ITIMER_PROF, seconds)
    if memory is not None:
        _limit_memory(memory, before[1])
    try:
        yield used
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)
        used["used"] = time.process_time() - start


def _limit_memory(more: int, most: int) -> None:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        limit = int(file.read().split()[5]) * resource.getpagesize() + more
        limit = limit if most == resource.RLIM_INFINITY else min(most, limit)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def watch_memory() -> None:
    """Watch memory; kill this process before the machine runs out of it.

    It ends once it uses seven times the free memory; the reason is printed.  The system's own limits do not
    help the vendor's library: where one refuses memory, it reports that HTP does not support an op, or
    aborts, and threads that use none count with their whole stacks.
    """
    threading.Thread(target=_look, daemon=True).start()


def _look() -> None:
    with contextlib.suppress(OSError, ValueError, IndexError):  # another system, or another /proc
        while _sum("/proc/meminfo", b"MemAvailable:"):
            used, free = _used(), _free()
            if used > _MOST * free:
                words = f"it used {used >> 20} MB of memory and {free >> 20} MB were free\n"
                os.write(2, words.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(_PERIOD)


def _used() -> int:
    """Return the bytes of this process that do not belong to files."""
    return _sum("/proc/self/status", b"RssAnon:", b"RssShmem:", b"VmSwap:")


def _free() -> int:
    """Return the bytes of memory and swap that any process may still use."""
    return _sum("/proc/meminfo", b"MemAvailable:", b"SwapFree:")


def _sum(path: str, *names: bytes) -> int:
    with open(path, "rb") as file:
        lines = [line.split() for line in file]
    return sum(int(line[1]) << 10 for line in lines if line[:1] and line[0] in names)
