"""Runs in threads of their own, with deadlines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from xdlc.errors import BackendError, UsageError

R = TypeVar("R")
WORKERS = min(4, os.cpu_count() or 1)
"""Runs that are under way at a time."""


class Submissions:
    """A few threads that do what is submitted.  Use as a context manager."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._threads = set[threading.Thread]()
        self._open: set[Future[object]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Submissions:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed, pool = True, self._pool
            waiting = list(self._open)
        for future in waiting:
            future.cancel()
        if pool is not None:  # each thread meets those that are cancelled, and wakes who waits for them
            pool.shutdown(wait=False)
        for thread in self._threads - {threading.current_thread()}:  # a callback of a future may close, too
            thread.join()

    def submit(self, work: Callable[[float | None], R], deadline: float | None) -> Future[R]:
        """Return the future of what ``work`` returns.

        Args:
            work: Called in one of the threads, with the time of the monotonic clock at which it is to end.
            deadline: Seconds after which the future fails; ``work`` is not called then, or its result is
                dropped.

        Raises:
            UsageError: If the deadline is not positive, or the session is closed.
        """
        longest = threading.TIMEOUT_MAX
        if deadline is not None and not (isinstance(deadline, int | float) and 0 < deadline <= longest):
            fix = f"give seconds, more than 0 and at most {longest:g}"
            raise UsageError(f"deadline is {deadline!r}", fix=fix)
        until = None if deadline is None else time.monotonic() + deadline
        future: Future[R] = Future()
        starting = threading.Lock()

        def late() -> None:
            with starting, suppress(InvalidStateError):
                problem = f"the run has not ended by its deadline, after {deadline:g} s"
                future.set_exception(BackendError(problem, fix="give it more time"))

        def run() -> None:
            with starting:
                if (future.done() and not future.cancelled()) or not future.set_running_or_notify_cancel():
                    return
            try:
                result = work(until)
            except BaseException as error:
                with suppress(InvalidStateError):
                    future.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    future.set_result(result)

        with self._lock:
            if self._is_closed:
                raise UsageError("the session is closed", fix="open another one with xdlc.Session")
            self._pool = self._pool or ThreadPoolExecutor(
                WORKERS, "xdlc-session", lambda: self._threads.add(threading.current_thread())
            )
            self._open.add(future)  # type: ignore[arg-type]
            self._pool.submit(run)
        future.add_done_callback(self._open.discard)
        if deadline is not None:
            timer = threading.Timer(deadline, late)
            timer.daemon = True
            timer.start()
            future.add_done_callback(lambda _: timer.cancel())
        return future
