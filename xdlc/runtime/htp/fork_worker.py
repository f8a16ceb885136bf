"""A child that has loaded xdlc and a model, and makes copies of itself that do the work.

Starting Python, importing xdlc and reading a model takes longer than many a compilation; for several
SoCs it is done once.  The vendor's library is loaded in the copies only: what crashes there takes nothing
along.  Standard input brings lines ``["start", folder]`` and ``["kill", folder]``; standard output takes
lines ``["started", folder, pid]`` and ``["ended", folder, status]``.  End of input ends all.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

Main = Callable[[Path], None]


class Forking:
    """The loop that starts copies and tells of their ends.

    Args:
        main: What a copy runs in its folder; does not return.
    """

    def __init__(self, main: Main) -> None:
        self._main = main
        self._copies: dict[int, str] = {}
        self._said = os.dup(1)
        os.dup2(2, 1)  # whatever prints must not print into the lines
        self._ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent closes standard input then
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> NoReturn:
        """Do what the lines say, until their end."""
        gc.collect()
        gc.freeze()  # a collection in a copy would touch, and so copy, every page of it
        rest = b""
        while True:
            ready, _, _ = select.select([0, self._ended], [], [])
            if self._ended in ready:
                os.read(self._ended, 4096)
                for pid, status in _reaped():
                    self._say("ended", self._copies.pop(pid), status)
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    self._end()
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    self._do(*json.loads(line))

    def _do(self, verb: str, folder: str) -> None:
        if verb == "start":
            pid = os.fork()
            if not pid:
                self._copy(folder)
            self._copies[pid] = folder
            self._say("started", folder, pid)
        else:
            for pid in [pid for pid, held in self._copies.items() if held == folder]:
                os.kill(pid, signal.SIGKILL)

    def _copy(self, folder: str) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._said)
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

    def _say(self, *words: Any) -> None:
        os.write(self._said, json.dumps(words).encode() + b"\n")

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
