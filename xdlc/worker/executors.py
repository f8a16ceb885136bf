"""Workers: tasks in other processes, by any ``concurrent.futures.Executor``.

The executor is ``Children`` (processes of this machine), one of a Dask cluster, or the caller's own.  The
result of a task does not depend on which.  Tasks send the names of files; a worker that lacks a file gets its
content once.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from xdlc.errors import BackendError, UsageError
from xdlc.options import spell
from xdlc.worker.content import shared_file
from xdlc.worker.limits import processors
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.tasks import Answer, Home, Parcel, Task, perform, respelled, with_files
from xdlc.worker.temporary import temporary_files

Name = TypeVar("Name")
SERVICE = "xdlc.worker.tasks"
ATTEMPTS = 3
"""Times that a task is sent whose worker dies."""
PATIENCE = 10.0
"""Seconds that the scheduler of a cluster has to answer."""
_WIDTH = 64
"""Tasks at a time for an executor whose number of workers is not known."""
_LONGEST = 7 * 86400.0
"""Seconds that a task may take."""


class Children(Executor):
    """Child processes of xdlc as an executor: a thread waits for each.

    A child starts with the first task, and with the first after a death.  Children end with the executor.

    Args:
        size: The number of children.
    """

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size)
        self._idle: queue.LifoQueue[Process | None] = queue.LifoQueue()
        self._all: set[Process] = set()
        self._lock, self._is_closed = threading.Lock(), False
        for _ in range(size):
            self._idle.put(None)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a child; arguments and result are pickled.

        The future raises ChildDiedError if the child dies.
        """
        return self._pool.submit(self._call, partial(function, *args, **kwargs))

    def _call(self, task: Task) -> Any:
        process = self._idle.get()
        try:
            if process is None or not process.is_alive:
                process = self._started()
            with shared_file() as number, open(number, "r+b", closefd=False) as file:
                with temporary_files():
                    pickle.dump(task, file, pickle.HIGHEST_PROTOCOL)
                    file.flush()
                os.lseek(number, 0, os.SEEK_SET)
                process.ask({"do": "call"}, [number], timeout=_LONGEST)
                file.seek(0)
                return pickle.load(file)
        finally:
            self._idle.put(process)

    def _started(self) -> Process:
        with self._lock:
            if self._is_closed:
                raise CancelledError
            process = Process(SERVICE)
            self._all.add(process)
            return process

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the children; unless futures are cancelled, after their tasks."""
        self._pool.shutdown(wait and not cancel_futures, cancel_futures=cancel_futures)
        with self._lock:
            self._is_closed = True
        for process in self._all:
            process.end()
        self._pool.shutdown(wait)


class Workers:
    """Runs tasks by an executor, and again if a worker dies.

    Without an executor, tasks run in this process.

    Args:
        executor: Runs the tasks; the caller closes it.
        width: Tasks that run at a time.
        shares_files: Whether the workers see the files of this process.
        is_here: Whether the executor's workers are threads of this process.
        sharing: Workers for tasks that can share an object of this process; default: these.

    Attributes:
        threads: Threads that a task should use; None: one per core.
    """

    def __init__(
        self,
        executor: Executor | None = None,
        width: int = 1,
        *,
        threads: int | None = None,
        shares_files: bool = False,
        is_here: bool = False,
        sharing: Workers | None = None,
    ) -> None:
        self._executor, self.width, self.threads = executor, width, threads
        self._shares_files, self._is_here = shares_files, is_here or executor is None
        self.sharing = sharing or self
        self._sent: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    @property
    def are_processes(self) -> bool:
        """Whether tasks run in other processes, which open models themselves."""
        return not self._is_here

    def parcel(self, path: Path) -> Any:
        """Return a file as an argument of tasks, whose functions get a path."""
        return Parcel(str(path)) if self._is_here or self._shares_files else Parcel.of(path)

    def in_order(self, tasks: Iterable[Task], place: str) -> Iterator[Any]:
        """Yield the results of tasks in order; a few tasks are taken ahead.

        Args:
            place: What the tasks belong to, for errors.

        Raises:
            XdlcError: What a task raises.
            BackendError: If workers die, or the executor fails.
        """
        waiting: deque[Future[Any]] = deque()
        ahead = self.width if self.are_processes else int(self._executor is not None)
        left, most = iter(tasks), self.width + ahead
        while True:
            while len(waiting) < most and (task := next(left, None)) is not None:
                waiting.append(self._send(task, place))
            if not waiting:
                return
            yield waiting.popleft().result()

    def each(
        self,
        tasks: Mapping[Name, Task],
        place: str,
        started: Callable[[Name], None] = lambda name: None,
    ) -> Iterator[tuple[Name, Any]]:
        """Yield names of tasks, with the result or the error, as tasks end.

        Args:
            place: What the tasks belong to, for errors.
            started: Called with the name of a task that is sent.
        """
        running: dict[Future[Any], Name] = {}
        left = iter(tasks.items())
        while True:
            while len(running) < self.width and (item := next(left, None)) is not None:
                started(item[0])
                running[self._send(item[1], place)] = item[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.exception() or future.result()

    def cancel(self) -> None:
        """Cancel the tasks that were sent and do not run."""
        for future in list(self._sent):
            future.cancel()

    def _send(self, task: Task, place: str) -> Future[Any]:
        future: Future[Any]
        if self._executor is None:
            future = Future()
            try:
                future.set_result(_local(task)())
            except Exception as error:
                future.set_exception(error)
        elif self._is_here:
            future = self._executor.submit(_local(task))
        else:
            future = _Errand(self._executor, task, place)
        self._sent.add(future)
        return future


def _local(task: Task) -> Task:
    return with_files(task, lambda parcel: Path(parcel.path))


class _Errand(Future[Any]):
    """The result of a task, sent as often as it takes."""

    def __init__(self, executor: Any, task: Task, place: str) -> None:
        super().__init__()
        self._executor, self._place = executor, place
        self._task = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        values = (*task.args, *task.keywords.values())
        self._parcels = {value.digest: value for value in values if isinstance(value, Parcel)}
        self._attempts = 0
        self._sent: Future[Answer] | None = None
        self._send({})

    def _send(self, contents: Mapping[str, bytes]) -> None:
        self._sent = self._executor.submit(perform, Home.here(), self._task, contents)
        self._sent.add_done_callback(self._take)

    def cancel(self) -> bool:
        """Cancel the task, unless it runs."""
        if self._sent is not None:
            self._sent.cancel()
        return super().cancel()

    def _take(self, sent: Future[Answer]) -> None:
        """Settle the result by an answer, or send the task again."""
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            try:
                answer = self._answer(sent)
                if answer is not None:
                    self.set_result(answer.value)
            except Exception as error:
                self.set_exception(error)

    def _answer(self, sent: Future[Answer]) -> Answer | None:
        """Return the answer of a worker; None if the task is sent again."""
        try:
            answer = sent.result()
        except ChildDiedError as death:
            self._attempts += 1
            if self._attempts < ATTEMPTS and not death.is_late:
                self._send({})
                return None
            raise BackendError(
                f"a worker process {death.how}{death.tail}",
                where=self._place,
                fix=f"run with {spell('jobs', 1)}, which needs the least memory, and check the inputs",
                code=death.code,
            ) from death
        except Exception as error:
            raise BackendError(
                f"the executor failed: {type(error).__name__}: {error}",
                where=self._place,
                fix="read the logs of the workers, and start the workers again",
            ) from error
        if answer.unlike:
            raise BackendError(
                f"a worker would compute other bits: {answer.unlike}",
                where=self._place,
                fix="install the same packages on all machines, and use machines of one kind",
            )
        if answer.missing:
            self._send({digest: self._parcels[digest].content() for digest in answer.missing})
            return None
        if answer.error is not None:
            raise respelled(answer.error)
        return answer


@contextmanager
def open_workers(
    jobs: int | None = None, scheduler: str | None = None, executor: Executor | None = None
) -> Iterator[Workers]:
    """Open workers; leaving the context ends those that it started.

    Args:
        jobs: Processes of this machine; default: tasks run in this process, as for 1.
        scheduler: Address of a Dask scheduler, instead of processes.
        executor: An executor of the caller, instead of processes.

    Raises:
        UsageError: If more than one of the three is given, or the scheduler is no address.
        BackendError: If Dask is not installed, or the scheduler does not answer or has no workers.
    """
    jobs = jobs or 1
    stated = {"jobs": jobs > 1, "scheduler": scheduler, "executor": executor}
    names = [spell(name) for name, value in stated.items() if value]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} exclude each other", fix=f"pass {names[0]} or {names[1]}")
    with ExitStack() as stack:
        if scheduler is not None:
            workers = stack.enter_context(_cluster(scheduler))
        elif executor is not None:
            workers = Workers(executor, _WIDTH, threads=1)
        elif jobs > 1:
            children, pool = Children(jobs), ThreadPoolExecutor(jobs)
            for started in (children, pool):
                stack.callback(started.shutdown, cancel_futures=True)
            each = max(1, processors() // jobs)
            sharing = Workers(pool, jobs, threads=each, is_here=True)
            workers = Workers(children, jobs, threads=each, shares_files=True, sharing=sharing)
        else:
            workers = Workers()
        stack.callback(workers.sharing.cancel)
        stack.callback(workers.cancel)
        yield workers


@contextmanager
def open_threads(count: int, end: Callable[[], None] = lambda: None) -> Iterator[Workers]:
    """Open threads of this process as workers, for tasks that wait for children.

    Args:
        end: Called on Ctrl-C; ends the children at once.
    """
    if count == 1:
        yield Workers()
        return
    pool = ThreadPoolExecutor(count)
    try:
        yield Workers(pool, count, is_here=True)
    except KeyboardInterrupt:
        end()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def open_compilers(
    jobs: int | None = None, scheduler: str | None = None, executor: Executor | None = None
) -> Iterator[Workers]:
    """Open workers like ``open_workers``, but threads instead of processes.

    Args:
        jobs: Tasks at a time; default: one per processor.
    """
    is_elsewhere = scheduler is not None or executor is not None
    opened = open_workers(jobs, scheduler, executor) if is_elsewhere else open_threads(jobs or processors())
    with opened as workers:
        yield workers


@contextmanager
def _cluster(address: str) -> Iterator[Workers]:
    """Open the workers of a Dask scheduler."""
    where = spell("scheduler", address)
    try:
        import dask
        from distributed import Client
        from distributed.comm import resolve_address
    except ImportError as error:
        problem = "the package distributed is not installed"
        raise BackendError(problem, where=where, fix="pip install 'xdlc[dask]'", code="XD706") from error
    settings = {
        "distributed.comm.timeouts.connect": PATIENCE,
        "distributed.admin.large-graph-warning-threshold": "1TB",  # a file travels once
    }
    with dask.config.set(settings), ExitStack() as stack:
        try:
            resolve_address(address)
            client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BackendError(
                f"the scheduler does not answer: {error}",
                where=where,
                fix="start one with `dask scheduler`, and pass the address that it prints: tcp://HOST:8786",
            ) from error
        stack.callback(client.close)
        width = sum(client.nthreads().values())
        if not width:
            fix = f"start workers on each machine: dask worker {address}"
            raise BackendError("the scheduler has no workers", where=where, fix=fix)
        yield Workers(client.get_executor(pure=False), width, threads=1)
