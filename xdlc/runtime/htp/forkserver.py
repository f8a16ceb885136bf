"""Fork server: child processes that are copies of one which has loaded xdlc and a model already.

Starting Python, importing xdlc and reading a model takes longer than many a compilation; for several SoCs it
is done once.  The vendor's library is loaded in the copies only, so that its crashes end nothing else.
Standard input of the server has lines ``["start", folder]`` and ``["kill", folder]``; standard output has
lines ``["started", folder, pid]`` and ``["ended", folder, status]``.  End of input ends all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from xdlc.errors import BackendError
from xdlc.runtime.child import TemporaryFolder
from xdlc.runtime.htp.process import Running, start

_SET_PARENT_DEATH_SIGNAL = 1
_PATIENCE = 10.0
"""Seconds that the process has to end after its input is closed."""


class ForkServer:
    """Starts children quickly; use as a context manager, which ends those that are left.

    The process is started with the first child.  Should it die, the children that it has started are
    ended with it, and they and further ones are started afresh, each as a process of its own.

    Args:
        model: The DLC that most children will compile.
    """

    def __init__(self, model: Path) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: TemporaryFolder | None = None
        self._listener: threading.Thread | None = None
        self._ends: dict[str, SimpleQueue[int | None]] = {}
        self._own: list[subprocess.Popen[bytes]] = []
        self._pids: dict[str, int] = {}
        self._is_dead = self._is_closed = False

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self, folder: Path) -> Running:
        """Start a child that serves the request in ``folder``."""
        with self._lock:
            if self._is_closed:
                raise BackendError("preparing has been given up")
            if self._process is None:
                self._start()
            if not self._is_dead:
                ends = self._ends[str(folder)] = SimpleQueue[int | None]()
                self.send("start", str(folder))
                return _Copy(self, str(folder), ends)
            self._own.append(start(folder))
            return self._own[-1]

    def send(self, *words: str) -> None:
        """Send the process a line, unless it is closed; the listener notices if it has died."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(words).encode() + b"\n")

    def close(self) -> None:
        """End the process and all children."""
        with self._lock:
            self._is_closed = True
        for own in self._own:
            own.kill()
        if self._process is None or self._listener is None or self._folder is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._listener.join()
        self._folder.cleanup()

    def _start(self) -> None:
        self._folder = TemporaryFolder()
        folder = Path(self._folder.name)
        (folder / "request.json").write_text(json.dumps({"command": "fork", "model": str(self._model)}))
        self._process = start(folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._receive(*json.loads(line))
        status = self._process.wait()
        with self._lock:
            self._is_dead = True
            for folder, ends in self._ends.items():
                if folder in self._pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pids[folder], signal.SIGKILL)
                ends.put(status if self._is_closed else None)

    def _receive(self, verb: str, folder: str, number: int) -> None:
        with self._lock:
            if verb == "started":
                self._pids[folder] = number
            else:
                self._pids.pop(folder, None)
                self._ends.pop(folder).put(number)


class _Copy:
    """A child of the process."""

    def __init__(self, server: ForkServer, folder: str, ends: SimpleQueue[int | None]) -> None:
        self._server, self._folder, self._ends = server, folder, ends
        self._status: int | None = None
        self._again: Running | None = None
        self._is_killed = False

    def wait(self, timeout: float | None = None) -> int:
        if self._again is not None:
            return self._again.wait(timeout)
        if self._status is None:
            try:
                self._status = self._ends.get(timeout=timeout)
            except Empty as error:
                raise subprocess.TimeoutExpired(self._folder, timeout or 0.0) from error
        if self._status is None:  # the server has died, which is no fault of what the child works on
            folder = Path(self._folder)
            if self._is_killed or (folder / "answer.json").exists():
                self._status = -signal.SIGKILL if self._is_killed else 0
                return self._status
            (folder / "step").unlink(missing_ok=True)
            self._status = 1  # if it cannot be started, nothing else ends
            self._again = self._server.launch(folder)
            return self._again.wait(timeout)
        return self._status

    def kill(self) -> None:
        if self._again is not None:
            self._again.kill()
        elif self._status is None:
            self._is_killed = True
            self._server.send("kill", self._folder)


Main = Callable[[Path], None]


class ForkLoop:
    """Loop of the server: starts copies and reports their ends.

    Args:
        main: What a copy runs in its folder; does not return.
    """

    def __init__(self, main: Main) -> None:
        self._main = main
        self._copies: dict[int, str] = {}
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints must not print into the lines
        self._ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes standard input then
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> NoReturn:
        """Execute the lines of standard input, until their end."""
        gc.collect()
        gc.freeze()  # a collection in a copy would touch, and so copy, every page of it
        rest = b""
        while True:
            ready, _, _ = select.select([0, self._ended], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                for pid, status in _reaped():
                    self._report("ended", self._copies.pop(pid), status)
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    self._end()
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self._do(*json.loads(line))

    def _do(self, verb: str, folder: str) -> None:
        if verb == "start":
            server, pid = os.getpid(), os.fork()
            if not pid:
                self._copy(folder, server)
            self._copies[pid] = folder
            self._report("started", folder, pid)
        else:
            for pid in [pid for pid, held in self._copies.items() if held == folder]:
                os.kill(pid, signal.SIGKILL)

    def _copy(self, folder: str, server: int) -> NoReturn:
        try:
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._output)
            log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for held, standard in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(held, standard)
            self._main(Path(folder))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        finally:
            os._exit(1)

    def _report(self, *words: Any) -> None:
        os.write(self._output, json.dumps(words).encode() + b"\n")

    def _end(self) -> NoReturn:
        for pid in self._copies:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def _reaped() -> Iterator[tuple[int, int]]:
    """Yield process id and exit code of each copy that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)
