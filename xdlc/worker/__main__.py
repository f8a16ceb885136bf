"""Child process: serves the requests of its parent by the commands of one module.

    python -P -m xdlc.worker LINE SERVICE

``LINE`` is the number of a socket.  ``SERVICE`` is a module whose ``commands()`` returns functions by name;
each gets a request and the open files that came with it, and returns the answer.  A request may state
``seconds`` of the processor and bytes of ``memory``: the system then ends the process that takes more time,
and refuses it more memory.  The requests ``fork`` and ``reap`` start and end copies of the process, with
lines and logs of their own; ``close`` ends it after the service's own command of that name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from xdlc.errors import BackendError, XdlcError, each_problem
from xdlc.options import spelling
from xdlc.worker import channel
from xdlc.worker.content import marked, words_of
from xdlc.worker.limits import limited

Command = Callable[[dict[str, Any], list[int]], dict[str, Any]]


def main(line: socket.socket, service: str) -> None:
    """Serve requests until the parent closes the line or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    line.set_inheritable(False)
    _end_with(line)
    commands: dict[str, Command] = {"close": lambda request, files: {}, "reap": _reap}
    commands |= importlib.import_module(service).commands()
    while True:
        try:
            request, files = channel.receive(line)
        except (channel.ClosedError, ValueError):
            break
        if request["do"] == "fork":
            answer, line = _fork(line, files)
            if not answer:
                continue  # this is the copy
        else:
            answer = _answer(commands, request, files)
        with contextlib.suppress(channel.ClosedError):
            channel.send(line, answer)
        if request["do"] == "close":
            break
    os._exit(0)  # what libraries do at exit has crashed before and is of no use here


def _answer(commands: Mapping[str, Command], request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    try:
        with limited(request.get("seconds"), request.get("memory")) as used:
            answer = commands[request["do"]](request, files)
        return {**answer, **used}
    except XdlcError as error:
        return {"errors": [words_of(problem) for problem in each_problem(error)]}
    except (MemoryError, OSError) as error:
        reason = str(error) or "no memory is left"
        return {"errors": [words_of(BackendError(f"the system refuses: {reason}"))]}


def _end_with(line: socket.socket) -> None:
    """Kill the process and its children when the line is closed."""

    def watch() -> None:
        hang_up = select.poll()
        hang_up.register(line, 0)  # which is reported always
        hang_up.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _fork(line: socket.socket, files: list[int]) -> tuple[dict[str, Any], socket.socket]:
    """Copy the process; return an answer and the line to go on with.

    The copy has no answer to send, and a line of its own.
    """
    own_line, log = files
    pid = os.fork()
    if pid:
        os.close(own_line)
        os.close(log)
        return {"pid": pid}, line
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    line.close()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    copied = socket.socket(fileno=own_line)
    _end_with(copied)
    return {}, copied


def _reap(request: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Kill a copy, unless it has ended, and return its status."""
    os.kill(request["pid"], signal.SIGKILL)
    _, status = os.waitpid(request["pid"], 0)
    return {"status": os.waitstatus_to_exitcode(status)}


if __name__ == "__main__":
    with spelling(marked):
        main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
