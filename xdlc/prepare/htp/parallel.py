"""CompileJobs for several SoCs at a time, told of as it goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

_T = TypeVar("_T")
_STARTED = object()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_of(
    names: Sequence[str],
    work: Callable[[str], _T],
    *,
    jobs: int,
    started: Callable[[str], None],
    give_up: Callable[[], None],
) -> Iterator[tuple[str, _T | Exception]]:
    """Do work for each name in threads; yield name and result, or the error, in the order of completion.

    Args:
        names: What to work for.
        work: The work for a name, most of which is waiting for a process of its own.
        jobs: How many to work for at a time.
        started: Called in the caller's thread with a name whose work begins.
        give_up: Called if the caller is interrupted: ends the processes that the work waits for.
    """
    events: SimpleQueue[tuple[str, object]] = SimpleQueue()

    def run(name: str) -> None:
        events.put((name, _STARTED))
        try:
            events.put((name, work(name)))
        except Exception as error:  # the caller tells a failure from a bug
            events.put((name, error))

    with ThreadPoolExecutor(max(1, min(jobs, len(names)))) as pool:
        try:
            for name in names:
                pool.submit(run, name)
            left = len(names)
            while left:
                name, outcome = events.get()
                if outcome is _STARTED:
                    started(name)
                else:
                    left -= 1
                    yield name, outcome  # type: ignore[misc]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            give_up()
            raise
