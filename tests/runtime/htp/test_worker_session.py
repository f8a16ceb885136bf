from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.htp_models import cnn, needs_htp, refused
from xdlc.errors import BackendError, ProblemList, StorageError, UsageError
from xdlc.runtime import htp
from xdlc.runtime.htp import process
from xdlc.runtime.htp.worker_session import WorkerProcess, WorkerSession

X = [np.random.default_rng(seed).uniform(-1, 1, (1, 8, 8, 4)).astype("float32") for seed in range(3)]
ECHO = """
import json, os, sys, time
from pathlib import Path

folder = Path(sys.argv[1])
while True:
    request = json.loads((folder / "request.json").read_text())
    (folder / "step").write_text("doing " + request["command"])
    if request["command"] == "die":
        os.kill(os.getpid(), 9)
    if request["command"] == "sleep":
        time.sleep(60)
    (folder / "answer.json").write_text(json.dumps({"pid": os.getpid()}))
    os.write(request["notify"], b".")
    if not os.read(0, 1):
        break
"""


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child that answers with its process id, without the vendor's library."""
    script = tmp_path / "echo.py"
    script.write_text(ECHO)
    monkeypatch.setattr(process, "worker_command", lambda: [sys.executable, str(script)])


@pytest.mark.usefixtures("echo")
def test_one_child_serves_all_requests_and_goes() -> None:
    with WorkerProcess() as server:
        pids = {server.query({"command": "tell"}, timeout=20)["pid"] for _ in range(3)}
        (pid,) = pids
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not server.folder.exists()


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize(
    ("command", "timeout", "said"),
    [
        ("die", 20.0, "ended with SIGKILL while doing die"),
        ("sleep", 0.5, "no answer within 0.5 s while doing sleep"),
    ],
)
def test_a_child_that_fails_is_told_with_its_step(command: str, timeout: float, said: str) -> None:
    with WorkerProcess() as server:
        first = server.query({"command": "tell"}, timeout=20)
        with pytest.raises(BackendError, match=said):
            server.query({"command": command}, timeout=timeout)
        assert not server.is_alive
        with pytest.raises(ProcessLookupError):
            os.kill(first["pid"], 0)
        assert server.query({"command": "tell"}, timeout=20) != first


@pytest.mark.usefixtures("echo")
def test_a_forgotten_server_takes_its_child_along() -> None:
    server = WorkerProcess()
    pid = server.query({"command": "tell"}, timeout=20)["pid"]
    server._folder.cleanup()
    del server
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("echo")
def test_a_child_that_died_unnoticed_is_told() -> None:
    with WorkerProcess() as server:
        pid = server.query({"command": "tell"}, timeout=20)["pid"]
        os.kill(pid, signal.SIGTERM)
        assert server._connection is not None
        server._connection.process.wait()
        with pytest.raises(BackendError, match="ended with SIGTERM"):
            server.query({"command": "tell"}, timeout=20)


@needs_htp
def test_a_cache_runs_like_its_model_again_and_again() -> None:
    model = cnn(quantized=True)
    cache = htp.compile_for(model, "sm8650", htp.CompileOptions()).data
    with WorkerSession.of_model(model, "sm8650") as composed, WorkerSession.of_cache(cache) as stored:
        for x in (*X, X[0]):
            given, wanted = (served.run({"x": x}, native=True)["y"] for served in (stored, composed))
            assert np.array_equal(given, wanted)


@needs_htp
def test_wrong_feeds_do_not_end_the_child() -> None:
    with WorkerSession.of_model(cnn(quantized=True), "sm8650") as served:
        with pytest.raises(UsageError, match=r"model: sm8650: array for 'x': needs shape"):
            served.run({"x": X[0][0]})
        assert served.run({"x": X[0]})["y"].shape == (1, 5)


@needs_htp
def test_what_is_refused_is_told_when_it_is_opened() -> None:
    with pytest.raises(ProblemList) as caught:
        WorkerSession.of_model(refused(), "sm8650")
    assert "is 1, Softmax of HTP accepts only 3" in caught.value.problems[0].problem


@needs_htp
def test_a_crash_names_the_step_and_ends_the_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        "import os, sys\nfrom pathlib import Path\nfrom xdlc.runtime.htp import backend, worker\n"
        "execute, runs = backend.CompiledGraph.execute, []\n"
        "def failing(self, feeds, results):\n"
        "    runs.append(1)\n"
        "    self._htp._step('executing graph cnn')\n"
        "    os.kill(os.getpid(), 11) if len(runs) > 1 else execute(self, feeds, results)\n"
        "backend.CompiledGraph.execute = failing\n"
        "worker.main(Path(sys.argv[1]))\n"
    )
    command = lambda: [sys.executable, str(script)]  # noqa: E731
    monkeypatch.setattr(process, "worker_command", command)
    with WorkerSession.of_model(cnn(quantized=True), "sm8650") as served:
        served.run({"x": X[0]})
        with pytest.raises(BackendError) as caught:
            served.run({"x": X[1]})
        assert str(caught.value).startswith("model: sm8650: the vendor's library ended with SIGSEGV")
        assert "while executing graph cnn" in caught.value.problem
        with pytest.raises(BackendError, match="the emulation has ended"):
            served.run({"x": X[2]})


def test_a_full_disk_is_told() -> None:
    class Full:
        def write_to(self, file: object) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="temporary file cannot be written: No space left on device"):
        WorkerSession.of_cache(Full())  # type: ignore[arg-type]
