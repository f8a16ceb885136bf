"""Child processes from the parent's side: start, requests, log, deaths.

A child ends with its parent: it ends itself when the parent closes its end of the line, and a copy of the
parent, by ``os.fork``, closes the ends that it has inherited.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import IO, Any, Self

from xdlc import errors
from xdlc.errors import BackendError, raise_all
from xdlc.worker import channel
from xdlc.worker.content import error_of, with_spelling
from xdlc.worker.temporary import temporary_file, temporary_files

_TAIL = 400
_MOST_LOG = 1 << 20
_FULL = 1 << 26
_MOST_PRINTED = 4096
_LOOK = 0.5
_PATIENCE = 5.0
"""Seconds that a child has to close what it has open."""
_COPYING = 60.0
"""Seconds that a child has to copy itself, or to end a copy: on a full machine, both take long."""


class ChildDiedError(BackendError):
    """A child that ended, or had to be ended, without an answer.

    Attributes:
        how: What happened, as the end of a sentence about what it ran.
        tail: The end of what it printed, likewise.
        step: The task it was at, if the service notes that.
        status: How it ended, as ``subprocess`` has it; None if it had not ended by itself.
        is_late: Whether it was ended because it took too long.
    """

    code = "XD705"

    def __init__(self, how: str, tail: str, status: int | None = None, *, is_late: bool = False) -> None:
        super().__init__(f"a child process {how}{tail}")
        self.how, self.tail, self.step = how, tail, ""
        self.status, self.is_late = status, is_late

    @property
    def is_killed(self) -> bool:
        """Whether it was killed, by the system or by ``limits`` if memory runs out."""
        return self.status == -signal.SIGKILL


class Process:
    """A child process that serves requests by the commands of a module.

    The other side is ``xdlc.worker.__main__``.  The child is ended with ``end``, when nothing refers to it
    any more, and when this process ends.

    Args:
        variables: Variables to set in its environment.
        origin: A process of the service to copy instead of starting a new one.

    Attributes:
        owner: Id of the process that has started it.

    Raises:
        StorageError: If there is no space for its log.
        BackendError: If the system starts no process.
        ChildDiedError: If the origin dies.
    """

    def __init__(
        self, service: str, variables: Mapping[str, str] | None = None, *, origin: Process | None = None
    ) -> None:
        self.owner = os.getpid()
        self._service = service
        self._turn = threading.RLock()
        with temporary_files(), contextlib.ExitStack() as unless_started:
            self._log = unless_started.enter_context(temporary_file())
            flags = fcntl.fcntl(self._log, fcntl.F_GETFL)
            fcntl.fcntl(self._log, fcntl.F_SETFL, flags | os.O_APPEND)
            self._line, far_end = channel.pair()
            unless_started.enter_context(self._line)
            running: _Started | _Copied
            with far_end:
                if origin is None:
                    running = _Started(service, variables or {}, far_end, self._log)
                else:
                    running = _Copied(origin, far_end, self._log)
            unless_started.pop_all()  # closed by _end
        self._running = running
        self._reported = 0  # bytes of the log
        self._finalizer = weakref.finalize(self, _end, running, self._line, self._log, self.owner)
        _LINES.add(self._line)

    def ask(self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float) -> dict[str, Any]:
        """Send a request to the child and return its answer; one request runs at a time.

        Args:
            files: Open files that the child gets.
            timeout: Seconds that it may take.

        Raises:
            ChildDiedError: If it has been ended, or does not answer, which ends it.
            XdlcError: What the child reports.
        """
        with self._turn:
            try:
                if not self.is_alive:
                    raise ChildDiedError("has been ended", "")
                answer = self._asked(request, files, time.monotonic() + timeout, timeout)
                problems = [error_of(words) for words in answer.get("errors", ())]
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
                how = "wrote into the channel that carries answers"
                death = ChildDiedError(how, self._tail())
                self.end()
                raise death from error
            except BaseException:  # on Ctrl-C too: an answer that comes later would be taken for another's
                self.end()
                raise
        raise_all(problems)
        return answer

    def _asked(
        self, request: Mapping[str, Any], files: Sequence[int], deadline: float, timeout: float
    ) -> dict[str, Any]:
        try:
            channel.send(self._line, request, files, deadline)
            self._wait(deadline)
            received, sent = channel.receive(self._line, deadline + _LOOK)  # it had begun before
        except TimeoutError as error:
            how = f"did not end within {timeout:g} s"
            raise ChildDiedError(how, self._tail(), is_late=True) from error
        except channel.ClosedError as error:
            raise self._death() from error
        for file in sent:
            os.close(file)
        answer: dict[str, Any] = with_spelling(received)
        return answer

    def _wait(self, deadline: float) -> None:
        """Wait for data or the end of the child."""
        while True:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            if channel.wait(self._line, select.POLLIN, min(seconds, _LOOK)):
                return
            # Its own children may have its end of the line.
            if self._running.status(0) is not None and not channel.wait(self._line, select.POLLIN, 0):
                raise channel.ClosedError
            if os.fstat(self._log.fileno()).st_size > _FULL:  # what it prints must not fill the disk
                self._log.truncate(0)
                self._reported = 0

    def _death(self) -> ChildDiedError:
        status = self._running.status(_LOOK)
        how = "closed its channel" if status is None else f"ended with {ending(status)}"
        return ChildDiedError(how, self._tail(), status)

    def _tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        printed = os.pread(self._log.fileno(), _TAIL, max(size - _TAIL, self._reported))
        text = printed.decode("utf-8", "replace").strip()
        return f"; it printed {text!r}" if text else ""

    def printed(self) -> list[str]:
        """Return the lines printed since the last call; the first ones if they are many."""
        size = os.fstat(self._log.fileno()).st_size
        new = os.pread(self._log.fileno(), _MOST_PRINTED, self._reported) if size > self._reported else b""
        left_off = size - self._reported - len(new)
        self._reported = size
        if size > _MOST_LOG:
            self._log.truncate(0)
            self._reported = 0
        text = new.decode("utf-8", "replace")
        lines = [
            "".join(letter if letter.isprintable() else "?" for letter in line) for line in text.splitlines()
        ]
        return [*lines, f"and {left_off} bytes more"] if left_off else lines

    def copy(self) -> Process:
        """Return a copy of the child, with everything that it has loaded.

        Raises:
            ChildDiedError: If the child dies.
            StorageError: If there is no space for the copy's log.
        """
        return Process(self._service, origin=self)

    @property
    def is_alive(self) -> bool:
        """Whether the child has not been ended, and belongs to this process."""
        return self._finalizer.alive and self.owner == os.getpid()

    def close(self) -> None:
        """Let the child release its resources, and end it.

        Raises:
            ChildDiedError: If it did not end in order.
            XdlcError: What it reports.
        """
        try:
            self.ask({"do": "close"}, timeout=_PATIENCE)
        finally:
            self.end()

    def end(self) -> None:
        """End the child at once, with the processes that it started.

        A request of another thread fails.
        """
        if self.owner != os.getpid():
            return  # a copy of the owner, which the child is left to
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        with self._turn:
            self._finalizer()


class Served:
    """Base class of what a child process of its own serves.

    Use it as a context manager, or call ``close``: the child lives until then.
    """

    _process: Process

    def close(self) -> None:
        """End the child process."""
        self._process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SharedWorker:
    """The child of a service that all of a program use.

    It is started with the first request, and with the first after a death.  A copy of this process, by
    ``os.fork``, gets a child of its own.

    Args:
        service: Name of the module that it runs.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._process: Process | None = None
        self._lock, self._owner = threading.Lock(), os.getpid()

    def ask(self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float) -> dict[str, Any]:
        """Send the child a request and return its answer, like ``Process.ask``."""
        if self._owner != os.getpid():
            self._lock, self._owner = threading.Lock(), os.getpid()
        with self._lock:
            if self._process is None or not self._process.is_alive:
                self._process = Process(self._service)
            return self._process.ask(request, files, timeout=timeout)


class _Started:
    """A process that runs a service from the start."""

    def __init__(
        self, service: str, variables: Mapping[str, str], far_end: socket.socket, log: IO[bytes]
    ) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-m", "xdlc.worker", str(far_end.fileno()), service],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(variables),
                pass_fds=[far_end.fileno()],
                process_group=0,
            )
        except OSError as error:
            raise BackendError(
                f"xdlc cannot start a child process: {error.strerror or error}",
                fix="end other processes, or raise the limit of processes: ulimit -u",
            ) from error

    def status(self, seconds: float) -> int | None:
        """Return the exit status; None if the child still runs after some seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def end(self) -> None:
        """End the child and the processes that it started, unless it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def disown(self) -> None:
        """Leave the child to its parent; this process is a copy of the parent."""
        self._process.returncode = 0  # for subprocess, which would wait for it


class _Copied:
    """A copy of another child process, which is its parent; see ``_Started``."""

    def __init__(self, origin: Process, far_end: socket.socket, log: IO[bytes]) -> None:
        self._origin = origin
        self._status: int | None = None
        self._is_ended = False
        files = [far_end.fileno(), log.fileno()]
        self._pid: int = origin.ask({"do": "fork"}, files, timeout=_COPYING)["pid"]

    def status(self, seconds: float) -> int | None:
        return self._ended() if seconds else None

    def end(self) -> None:
        self._ended()

    def disown(self) -> None: ...

    def _ended(self) -> int | None:
        """End the copy and return its status; None if its origin has died."""
        if not self._is_ended:
            self._is_ended = True
            with contextlib.suppress(ChildDiedError):
                self._status = self._origin.ask({"do": "reap", "pid": self._pid}, timeout=_COPYING)["status"]
        return self._status


def _end(running: _Started | _Copied, line: socket.socket, log: IO[bytes], owner: int) -> None:
    line.close()
    log.close()
    if os.getpid() == owner:
        running.end()
    else:
        running.disown()


_LINES: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_lines() -> None:
    for line in list(_LINES):
        line.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_lines)


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child.

    It imports what this process imports, from the same places.  Neither it nor its own children import from
    the current folder, unless PYTHONPATH names that.
    """
    folder = Path(errors.__file__).resolve().parent
    paths = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    spec = PathFinder.find_spec("xdlc", paths)
    if spec is None:
        paths.append(str(folder.parent))
    elif spec.origin is None or Path(spec.origin).resolve().parent != folder:
        paths.insert(0, str(folder.parent))
    return {**os.environ, **(variables or {}), "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def ending(status: int) -> str:
    """Return in words how a process ended, by the status that ``subprocess`` has.

    Example:
        >>> ending(-11), ending(1)
        ('SIGSEGV', 'status 1')
    """
    if status >= 0:
        return f"status {status}"
    return signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
