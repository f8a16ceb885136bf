from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.support import services
from tests.support.htp_models import cnn
from xdlc.errors import StorageError
from xdlc.runtime.htp.process import HtpWorker, stored_model, validated_op
from xdlc.worker.process import ChildDiedError

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
