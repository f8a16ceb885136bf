from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import services
from tests.support.htp_models import cnn
from xdlc.errors import BackendError
from xdlc.runtime.htp.process import ForkServer, HtpWorker
from xdlc.worker.process import ChildDiedError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the vendor's library runs on Linux only")

COMMANDS = """
import ctypes, os, sys, time
from xdlc.runtime.htp import service

def who(request, files, step):
    return {"pid": os.getpid(), "parent": os.getppid(), "models": list(service._READY)}

def die(request, files, step):
    step("compiling graph g")
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), request["signal"])

def fail(request, files, step):
    raise ValueError("no sense")

def sleep(request, files, step):
    step("sleeping")
    open(request["flag"], "x").close()
    time.sleep(request["seconds"])
    return who(request, files, step)

def chat(request, files, step):
    ctypes.CDLL(None).puts(b"what a library prints")
    return {}

def commands():
    service.check_folder = lambda parent: None
    watched = service._Service().watched
    made = {each.__name__: watched(each) for each in (who, die, fail, sleep, chat)}
    return {**made, "load": service._load}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ForkServer]:
    services.htp(monkeypatch, tmp_path, COMMANDS)
    path = tmp_path / "m.dlc"
    cnn(quantized=False).save(path)
    with ForkServer(path) as server:
        yield server


def query(server: ForkServer, command: str, *, timeout: float = 30, **request: Any) -> dict[str, Any]:
    with HtpWorker(launch=server.launch) as child:
        return child.ask({"do": command, "library": "", **request}, timeout=timeout)


class Sleeper:
    """A thread whose child sleeps."""

    def __init__(self, server: ForkServer, folder: Path, seconds: float) -> None:
        self.outcome: Any = None
        self._server, self._flag, self._seconds = server, folder / "flag", seconds
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        until = time.monotonic() + 20
        while not self._flag.exists() and time.monotonic() < until:
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            self.outcome = query(self._server, "sleep", flag=str(self._flag), seconds=self._seconds)
        except ChildDiedError as error:
            self.outcome = error


def test_children_are_copies_of_one_process(server: ForkServer) -> None:
    first, second = query(server, "who"), query(server, "who")
    assert first["pid"] != second["pid"]
    assert first["parent"] == second["parent"] != os.getpid()
    assert [Path(name).name for name in second["models"]] == ["m.dlc"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_the_death_of_one_is_an_error_and_harms_no_other(server: ForkServer, number: signal.Signals) -> None:
    parent = query(server, "who")["parent"]
    with pytest.raises(
        ChildDiedError, match=f"ended with {number.name} while compiling graph g.*the last words"
    ):
        query(server, "die", signal=int(number))
    assert query(server, "who")["parent"] == parent


def test_a_bug_in_one_is_an_error_with_its_last_line(server: ForkServer) -> None:
    with pytest.raises(ChildDiedError, match=r"status 1 while starting.*ValueError: no sense"):
        query(server, "fail")


def test_one_that_is_late_is_ended(server: ForkServer, tmp_path: Path) -> None:
    query(server, "who")
    with pytest.raises(ChildDiedError, match=r"did not end within 1 s while sleeping"):
        query(server, "sleep", timeout=1, flag=str(tmp_path / "flag"), seconds=60)


def test_what_a_library_prints_goes_to_the_log(server: ForkServer, capfd: Any) -> None:
    assert query(server, "chat") == {}
    assert query(server, "who")["pid"]
    assert capfd.readouterr() == ("", "")


def test_the_death_of_the_process_costs_its_children_nothing(server: ForkServer, tmp_path: Path) -> None:
    parent = query(server, "who")["parent"]
    sleeper = Sleeper(server, tmp_path, 1)
    os.kill(parent, signal.SIGKILL)
    sleeper.thread.join(20)
    assert "pid" in sleeper.outcome
    assert query(server, "who")["parent"] == os.getpid()


def test_closing_ends_what_is_running_and_starts_nothing_more(server: ForkServer, tmp_path: Path) -> None:
    pid = query(server, "who")["parent"]
    sleeper = Sleeper(server, tmp_path, 60)
    server.close()
    sleeper.thread.join(10)
    assert isinstance(sleeper.outcome, ChildDiedError)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(BackendError, match="stopped before"):
        query(server, "who")


def test_nothing_is_started_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with ForkServer(tmp_path / "m.dlc"):
        pass
