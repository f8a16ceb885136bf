from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.support.htp_models import cnn
from xdlc.errors import BackendError
from xdlc.runtime.htp import process
from xdlc.runtime.htp.forkserver import ForkServer, _Copy
from xdlc.runtime.htp.process import Child, ChildDiedError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the vendor's library runs on Linux only")

# Serves requests as the worker does, with commands of its own in the place of the vendor's library.
SCRIPT = """
import ctypes, json, os, signal, sys, time
from pathlib import Path
from queue import SimpleQueue
from xdlc.runtime.htp import worker

def who(request, folder, step):
    return {"unsupported": [], "pid": os.getpid(), "parent": os.getppid(), "models": list(worker._READY)}

def die(request, folder, step):
    step("compiling graph g")
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), request["signal"])

def fail(request, folder, step):
    raise MemoryError("no room")

def sleep(request, folder, step):
    step("sleeping")
    time.sleep(60)

def once(request, folder, step):
    if os.getppid() != PARENT:
        sleep(request, folder, step)
    return who(request, folder, step)

def chat(request, folder, step):
    ctypes.CDLL(None).puts(b"what a library prints")
    return {"unsupported": []}

def garble(request, folder, step):
    (folder / "answer.json").write_bytes(bytes.fromhex(request["bytes"]))
    os._exit(0)

PARENT = {parent}
worker._COMMANDS.update(who=who, die=die, fail=fail, sleep=sleep, once=once, chat=chat, garble=garble)
worker.main(Path(sys.argv[1]))
"""


@pytest.fixture
def server(monkeypatch, tmp_path):
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("{parent}", str(os.getpid())))
    monkeypatch.setattr(process, "worker_command", lambda: [sys.executable, str(script)])
    path = tmp_path / "m.dlc"
    cnn(quantized=False).save(path)
    with ForkServer(path) as server:
        yield server


def query(server: ForkServer, command: str, *, timeout: float = 30, **request: object):
    with Child(server.launch) as child:
        return child.query({"command": command, **request}, timeout=timeout)


def sleeper(server: ForkServer) -> tuple[threading.Thread, list[BaseException]]:
    """Return a thread whose child sleeps, and what is going to tell of the child's death."""
    found: list[BaseException] = []

    def sleep() -> None:
        try:
            query(server, "sleep")
        except ChildDiedError as error:
            found.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    until = time.monotonic() + 20
    while not server._pids and time.monotonic() < until:
        time.sleep(0.01)
    return thread, found


def test_children_are_copies_of_one_process(server: ForkServer) -> None:
    first, second = query(server, "who"), query(server, "who")
    assert first["pid"] != second["pid"]
    assert first["parent"] == second["parent"] != os.getpid()
    assert [Path(name).name for name in second["models"]] == ["m.dlc"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_the_death_of_one_is_told_and_harms_no_other(server: ForkServer, number: signal.Signals) -> None:
    parent = query(server, "who")["parent"]
    with pytest.raises(ChildDiedError, match=f"ended with {number.name}.*the last words.*compiling graph g"):
        query(server, "die", signal=int(number))
    assert query(server, "who")["parent"] == parent


def test_a_bug_in_one_is_told_with_its_last_line(server: ForkServer) -> None:
    with pytest.raises(ChildDiedError, match=r"status 1 \(MemoryError: no room\)"):
        query(server, "fail")


def test_one_that_is_late_is_ended(server: ForkServer) -> None:
    query(server, "who")
    with pytest.raises(ChildDiedError, match=r"no answer within 1 s while sleeping"):
        query(server, "sleep", timeout=1)


def test_what_a_library_prints_goes_to_the_log(server: ForkServer, capfd) -> None:
    assert query(server, "chat") == {"unsupported": []}
    assert query(server, "who")["pid"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("left", [b"", b"\xff\xfe", b"[1]", b"7", b'{"errors": 3}', b'{"errors": [{}]}'])
def test_an_answer_that_is_garbage_is_told(server: ForkServer, left: bytes) -> None:
    with pytest.raises(ChildDiedError, match="left an answer that is garbage"):
        query(server, "garble", bytes=left.hex())


def test_the_death_of_the_process_costs_its_children_nothing(server: ForkServer) -> None:
    parent = query(server, "who")["parent"]
    found: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: found.append(query(server, "once")))
    thread.start()
    until = time.monotonic() + 20
    while not server._pids and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    thread.join(20)
    assert found[0]["parent"] == os.getpid()
    assert query(server, "who")["parent"] == os.getpid()


def test_closing_ends_what_is_running_and_starts_nothing_more(server: ForkServer) -> None:
    pid = query(server, "who")["parent"]
    thread, found = sleeper(server)
    server.close()
    thread.join(10)
    assert len(found) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(BackendError, match="given up"):
        query(server, "who")


def test_nothing_is_started_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with ForkServer(tmp_path / "m.dlc"):
        pass


def test_a_child_may_be_ended_after_the_server_is_closed(server: ForkServer, tmp_path: Path) -> None:
    folder = tmp_path / "child"
    folder.mkdir()
    (folder / "request.json").write_text('{"command": "sleep"}')
    running = server.launch(folder)
    server.close()
    running.kill()
    assert isinstance(running.wait(10), int)


def test_a_job_that_cannot_be_started_again_is_not_waited_for(tmp_path: Path) -> None:
    class Full(ForkServer):
        def launch(self, folder: Path) -> process.Running:
            raise OSError(28, "No space left on device", str(folder))

    ends = SimpleQueue[int | None]()
    ends.put(None)  # the server has died
    copy = _Copy(Full.__new__(Full), str(tmp_path), ends)
    with pytest.raises(OSError, match="No space left"):
        copy.wait(9)
    assert copy.wait(0) == 1


def test_a_job_that_was_ended_is_not_started_again(tmp_path: Path) -> None:
    class Closed(ForkServer):
        def send(self, *_: str) -> None: ...

    ends = SimpleQueue[int | None]()
    copy = _Copy(Closed.__new__(Closed), str(tmp_path), ends)
    copy.kill()
    ends.put(None)  # the server died before it read that
    assert copy.wait(9) == -signal.SIGKILL
