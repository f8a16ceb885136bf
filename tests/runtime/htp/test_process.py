from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support import services
from tests.support.htp_models import cnn, needs_htp, refused
from xdlc.errors import BackendError, ProblemList, StorageError, UsageError
from xdlc.runtime import htp
from xdlc.runtime.htp import process
from xdlc.runtime.htp.process import HtpWorker, WorkerSession, stored_model, validated_op
from xdlc.worker.process import ChildDiedError, Process

COMMANDS = """
import os, signal
from xdlc.runtime.htp import service

def die(request, files, step):
    if request["step"]:
        step(request["step"])
    os.kill(os.getpid(), signal.SIGKILL)

def full(request, files, step):
    raise OSError(28, "No space left on device")

def commands():
    service.check_folder = lambda parent: None
    watched = service._Service().watched
    return {"die": watched(die), "full": watched(full)}
"""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    services.htp(monkeypatch, tmp_path, COMMANDS)
    with HtpWorker() as worker:
        yield worker


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ('["validate", "g", "conv", "Conv2d"]', ("g", "conv", "Conv2d")),
        ("compiling graph g", None),
        ('["validate", "g", "co', None),
        ('["validate", "g", "conv", "Conv2d"]er", "Conv2d"]', None),
    ],
)
def test_a_step_is_read_though_the_child_was_killed_while_it_wrote(step: str, found: object) -> None:
    assert validated_op(step) == found


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("", "starting"),
        ("compiling graph g", "compiling graph g"),
        ('["validate", "g", "conv", "Conv2d"]', "validating op 'conv' (Conv2d) of graph 'g'"),
    ],
)
def test_a_death_has_its_step_and_a_fix_about_memory(worker: HtpWorker, step: str, words: str) -> None:
    with pytest.raises(ChildDiedError) as caught:
        worker.ask({"do": "die", "step": step, "library": ""}, timeout=30)
    assert caught.value.problem == f"the vendor's library ended with SIGKILL while {words}"
    assert caught.value.is_killed
    assert "memory" in str(caught.value.fix)
    assert not worker.is_alive


def test_a_disk_that_fills_up_under_the_child_is_an_error(worker: HtpWorker) -> None:
    with pytest.raises(StorageError, match="xdlc cannot write a temporary file: No space left on device"):
        worker.ask({"do": "full", "library": ""}, timeout=30)
    assert worker.is_alive


def test_a_disk_that_is_full_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match="No space left on device"):
        HtpWorker()
    with pytest.raises(StorageError, match="No space left on device"), stored_model(cnn(quantized=False)):
        pass


X = [np.random.default_rng(seed).uniform(-1, 1, (1, 8, 8, 4)).astype("float32") for seed in range(3)]
ECHO = """
import os, time

def tell(request, files):
    return {"pid": os.getpid()}

def sleep(request, files):
    os.write(files[0], b"sleeping")
    time.sleep(60)

def commands():
    return {"tell": tell, "sleep": sleep}
"""


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child that answers with its process id, without the vendor's library."""
    services.htp(monkeypatch, tmp_path, ECHO)


@pytest.mark.usefixtures("echo")
def test_one_child_serves_all_requests_and_goes() -> None:
    with HtpWorker() as worker:
        pids = {worker.ask({"do": "tell"}, timeout=20)["pid"] for _ in range(3)}
        (pid,) = pids
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("echo")
def test_a_child_that_hangs_is_ended_and_the_next_request_starts_another() -> None:
    with HtpWorker() as worker:
        first = worker.ask({"do": "tell"}, timeout=20)
        with pytest.raises(BackendError, match=r"did not end within 0\.5 s while sleeping"):
            worker.ask({"do": "sleep"}, timeout=0.5)
        assert not worker.is_alive
        with pytest.raises(ProcessLookupError):
            os.kill(first["pid"], 0)
        assert worker.ask({"do": "tell"}, timeout=20) != first


@pytest.mark.usefixtures("echo")
def test_a_child_that_died_unnoticed_is_an_error() -> None:
    with HtpWorker() as worker:
        pid = worker.ask({"do": "tell"}, timeout=20)["pid"]
        os.kill(pid, signal.SIGTERM)
        with pytest.raises(BackendError, match="ended with SIGTERM"):
            worker.ask({"do": "tell"}, timeout=20)


@needs_htp
def test_a_cache_runs_like_its_model_again_and_again() -> None:
    model = cnn(quantized=True)
    compiled = htp.compile_for(model, "sm8650", htp.CompileOptions())
    assert compiled.entry["socModel"] == 57
    assert compiled.entry["graphs"][0]["graphBlobInfo"]["vtcmSize"] == 4
    with WorkerSession.of_model(model, "sm8650") as composed, WorkerSession.of_cache(compiled.data) as stored:
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
    assert "is 1, but Softmax of HTP accepts only 3" in caught.value.problems[0].problem


@needs_htp
def test_a_crash_names_the_step_and_ends_the_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (
        "import os\nfrom xdlc.runtime.htp import backend\nfrom xdlc.runtime.htp.service import commands\n"
        "execute, runs = backend.CompiledGraph.execute, []\n"
        "def failing(self, feeds, results):\n"
        "    runs.append(1)\n"
        "    self._htp._step('executing graph cnn')\n"
        "    os.kill(os.getpid(), 11) if len(runs) > 1 else execute(self, feeds, results)\n"
        "backend.CompiledGraph.execute = failing\n"
    )
    services.htp(monkeypatch, tmp_path, text)
    with WorkerSession.of_model(cnn(quantized=True), "sm8650") as served:
        served.run({"x": X[0]})
        with pytest.raises(BackendError) as caught:
            served.run({"x": X[1]})
        assert str(caught.value).startswith("model: sm8650: the vendor's library ended with SIGSEGV")
        assert "while executing graph cnn" in caught.value.problem
        with pytest.raises(BackendError, match="the emulation ended"):
            served.run({"x": X[2]})


SHARED = """
import os, signal, time
from pathlib import Path
from xdlc.worker import content

def reach(folder, number):
    while len(list(folder.iterdir())) < number:
        time.sleep(0.01)

def opened(request, files):
    folder = Path(request["soc_id"])
    is_first = not any(folder.iterdir())
    (folder / f"opened {os.getpid()}").touch()
    if not is_first and folder.name == "refuse":
        raise OSError(12, "Cannot allocate memory")
    if not is_first and folder.name == "hang":
        time.sleep(600)
    return {"contents": {"soc_id": 1, "graphs": {}}}

def execute(request, files):
    (x,) = content.read_arrays(files[1], request["arrays"])
    if x < 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    folder = Path(request["graph"])
    (folder / f"ran {os.getpid()}").touch()
    reach(folder, 4 if folder.name == "share" else 3)
    return {"outputs": ["y"], "arrays": content.write_arrays(files[1], [x + 1])}

def commands():
    return {"open": opened, "execute": execute}
"""


@pytest.mark.parametrize(("case", "children"), [("share", 2), ("refuse", 1), ("hang", 1)])
def test_runs_that_wait_start_another_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str, children: int
) -> None:
    services.htp(monkeypatch, tmp_path, SHARED)
    monkeypatch.setattr(process, "_PATIENCE", 0.0)
    monkeypatch.setattr(process, "AT_A_TIME", 2)
    monkeypatch.setattr(process, "find_soc", lambda name: SimpleNamespace(id=name, name=name))
    folder = tmp_path / case
    folder.mkdir()

    def run(x: float) -> np.ndarray:
        return served.run({"x": np.float32(x)}, graph=str(folder), timeout=60)["y"]

    with WorkerSession.of_cache(b"cache", soc=str(folder)) as served:
        with ThreadPoolExecutor(3) as pool:
            assert [*pool.map(run, range(9))] == [*range(1, 10)]
        assert len(list(folder.glob("ran *"))) == children
        with pytest.raises(BackendError, match="ended with SIGSEGV"):
            run(-1)
        with pytest.raises(BackendError, match="the emulation ended"):
            run(1)


def test_closing_ends_a_child_that_has_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    services.htp(monkeypatch, tmp_path, SHARED)
    monkeypatch.setattr(process, "_PATIENCE", 0.01)
    monkeypatch.setattr(process, "AT_A_TIME", 2)
    monkeypatch.setattr(process, "find_soc", lambda name: SimpleNamespace(id=name, name=name))
    folder = tmp_path / "hang"
    folder.mkdir()
    starts = threading.Event()
    launched: list[Process] = []

    def launch() -> Process:
        if launched:
            for number in range(3):  # what the run of the first child waits for
                (folder / str(number)).touch()
            starts.set()
            time.sleep(0.3)
        launched.append(process.start())
        return launched[-1]

    with ThreadPoolExecutor(2) as pool:
        with WorkerSession.of_cache(b"cache", soc=str(folder), launch=launch) as served:
            for x in range(2):
                pool.submit(served.run, {"x": np.float32(x)}, graph=str(folder))
            starts.wait()
        assert [child.is_alive for child in launched] == [False, False]


def test_a_full_disk_is_told() -> None:
    class Full:
        def write_to(self, file: object) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="xdlc cannot write a temporary file: No space left on device"):
        WorkerSession.of_cache(Full())  # type: ignore[arg-type]
