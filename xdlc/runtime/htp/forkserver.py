"""Children that are copies of one process, which has loaded xdlc and a model already, see ``fork_worker``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from queue import Empty, SimpleQueue

from xdlc.errors import BackendError
from xdlc.runtime.htp.process import Running, start

_PATIENCE = 10.0
"""Seconds that the process has to end after it was told to."""


class ForkServer:
    """Starts children quickly; use as a context manager, which ends those that are left.

    The process is started with the first child.  Should it die, the children that it has started are
    ended with it, and further ones are started afresh.

    Args:
        model: The DLC that most children will compile.
    """

    def __init__(self, model: Path) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._listener: threading.Thread | None = None
        self._ends: dict[str, SimpleQueue[int]] = {}
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
                ends = self._ends[str(folder)] = SimpleQueue[int]()
                self.say("start", str(folder))
                return _Copy(self, str(folder), ends)
        return start(folder)

    def say(self, *words: str) -> None:
        """Give the process a line, unless it is closed; if it has died, the listener finds out."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(words).encode() + b"\n")

    def close(self) -> None:
        """End the process and all of its children."""
        with self._lock:
            self._is_closed = True
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
        self._folder = tempfile.TemporaryDirectory(prefix="xdlc-")
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
                self._hear(*json.loads(line))
        status = self._process.wait()
        with self._lock:
            self._is_dead = True
            for folder, ends in self._ends.items():
                if folder in self._pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pids[folder], signal.SIGKILL)
                ends.put(status)

    def _hear(self, verb: str, folder: str, number: int) -> None:
        with self._lock:
            if verb == "started":
                self._pids[folder] = number
            else:
                self._pids.pop(folder, None)
                self._ends.pop(folder).put(number)


class _Copy:
    """A child of the process."""

    def __init__(self, server: ForkServer, folder: str, ends: SimpleQueue[int]) -> None:
        self._server, self._folder, self._ends = server, folder, ends
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            try:
                self._status = self._ends.get(timeout=timeout)
            except Empty as error:
                raise subprocess.TimeoutExpired(self._folder, timeout or 0.0) from error
        return self._status

    def kill(self) -> None:
        if self._status is None:
            self._server.say("kill", self._folder)
