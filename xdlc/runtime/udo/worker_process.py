"""The process of a worker, from the side of its session."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any

from xdlc.errors import BackendError
from xdlc.runtime.child import command, ending, environment, temporary_files
from xdlc.runtime.udo import wire

_TAIL = 400
_MOST_LOG = 1 << 20
_FULL = 1 << 26
_MAX_PRINTED = 4096
_LOOK = 0.5
_PATIENCE = 5.0
"""Seconds that a child has to end in order."""

_LATE = "give it more time with --udo_timeout, or make it end"
_EXIT = "let it return, and not end the process that it runs in"
_WRONG = "correct it: a debugger or valgrind shows where it fails; its inputs cannot be written"


class DiedError(Exception):
    """The child ended, or had to be ended, without an answer.

    Attributes:
        how: What happened, as the end of a sentence about what it ran.
        fix: What to do about it.
    """

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class Process:
    """A child process.

    Args:
        module: What it runs, with the number of a socket and the id of this process as arguments.

    It is ended with ``end``, when nothing refers to it any more, and when this process ends.

    Raises:
        StorageError: If there is no space for its log.
        BackendError: If the system starts no process.
    """

    def __init__(self, module: str = "xdlc.runtime.udo.worker") -> None:
        self.owner = os.getpid()
        with temporary_files(), contextlib.ExitStack() as unless_started:
            self._log = unless_started.enter_context(tempfile.TemporaryFile())
            flags = fcntl.fcntl(self._log, fcntl.F_GETFL)
            fcntl.fcntl(self._log, fcntl.F_SETFL, flags | os.O_APPEND)
            self._line, far_end = _pair()
            unless_started.enter_context(self._line)
            with far_end:
                self._process = process = _start(module, far_end, self._log)
            unless_started.pop_all()  # closed by _end
        self._reported = 0  # bytes of the log
        self._finalizer = weakref.finalize(self, _end, process, self._line, self._log, self.owner)

    def ask(self, request: Mapping[str, Any], files: Sequence[int] = (), *, timeout: float) -> dict[str, Any]:
        """Send a request to the worker and return its answer.

        Args:
            request: What to do.
            files: Open files that it gets.
            timeout: Seconds that it may take.

        Raises:
            DiedError: If it did not answer; it has ended then.
        """
        try:
            return self._asked(request, files, time.monotonic() + timeout, timeout)
        except BaseException:  # on Ctrl-C too: an answer that comes later would be taken for another's
            self.end()
            raise

    def _asked(
        self, request: Mapping[str, Any], files: Sequence[int], deadline: float, timeout: float
    ) -> dict[str, Any]:
        try:
            wire.send(self._line, request, files, deadline)
            self._wait(deadline)
            answer, sent = wire.receive(self._line, deadline + _LOOK)  # it had begun before
            for file in sent:
                os.close(file)
        except TimeoutError as error:
            raise DiedError(f"did not end within {timeout:g} s{self._tail()}", _LATE) from error
        except wire.ClosedError as error:
            raise self._death() from error
        except (ValueError, RecursionError) as error:
            raise DiedError(f"wrote into the line that answers go through{self._tail()}", _WRONG) from error
        return answer

    def _trim(self) -> None:
        """Keep what the child prints from filling the disk."""
        if os.fstat(self._log.fileno()).st_size > _FULL:
            self._log.truncate(0)
            self._reported = 0

    def _wait(self, deadline: float) -> None:
        """Wait until there is something to read, or nobody who could write it."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if wire.wait(self._line, select.POLLIN, min(left, _LOOK)):
                return
            if self._process.poll() is not None and not wire.wait(self._line, select.POLLIN, 0):
                raise wire.ClosedError
            self._trim()

    def _death(self) -> DiedError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOOK)
        status = self._process.poll()
        how = "closed its line" if status is None else f"ended its process with {ending(status)}"
        is_exit = status is not None and status >= 0
        return DiedError(how + self._tail(), _EXIT if is_exit else _WRONG)

    def _tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), _TAIL, max(size - _TAIL, self._reported)).decode(
            "utf-8", "replace"
        )
        return f"; it printed {tail.strip()!r}" if tail.strip() else ""

    def printed(self) -> list[str]:
        """Return the lines that it has printed since this was called last; of many the first ones."""
        size = os.fstat(self._log.fileno()).st_size
        found = os.pread(self._log.fileno(), _MAX_PRINTED, self._reported) if size > self._reported else b""
        left_off = size - self._reported - len(found)
        self._reported = size
        if size > _MOST_LOG:
            self._log.truncate(0)
            self._reported = 0
        text = found.decode("utf-8", "replace")
        lines = ["".join(one if one.isprintable() else "?" for one in line) for line in text.splitlines()]
        return [*lines, f"and {left_off} bytes more"] if left_off else lines

    @property
    def is_alive(self) -> bool:
        """Whether it has not been ended."""
        return self._finalizer.alive

    def close(self) -> dict[str, Any]:
        """Let it release all that it holds, and end it; return its answer.

        Raises:
            DiedError: If it did not end in order.
        """
        try:
            return self.ask({"do": "close"}, timeout=_PATIENCE)
        finally:
            self.end()

    def end(self) -> None:
        """End it at once, with all processes that it has started."""
        self._finalizer()


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return the ends of a line, the far one not among 0, 1, 2: those are the child's own."""
    line, end = socket.socketpair()
    try:
        with end:
            return line, socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3))
    except OSError:
        line.close()
        raise


def _start(module: str, far_end: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [*command(module), str(far_end.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(),
            pass_fds=[far_end.fileno()],
            process_group=0,
        )
    except OSError as error:
        raise BackendError(
            f"no child process can be started: {error.strerror or error}",
            fix="end other processes, or raise the system's limits",
        ) from error


def _end(process: subprocess.Popen[bytes], line: socket.socket, log: IO[bytes], owner: int) -> None:
    line.close()
    log.close()
    if os.getpid() != owner:
        process.returncode = 0  # a copy of the owner: the child is not its own
        return
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
