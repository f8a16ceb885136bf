from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.htp_models import cnn
from xdlc.errors import StorageError
from xdlc.runtime.htp import process, worker
from xdlc.runtime.htp.process import Child, ChildDiedError, stored_model, validated_op


class Gone:
    """A child that was killed before it did anything."""

    def __init__(self, _folder: Path) -> None:
        pass

    def wait(self, timeout: float | None = None) -> int:
        return -signal.SIGKILL

    def kill(self) -> None:
        pass


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


def test_a_child_killed_before_it_has_a_log_is_told() -> None:
    with Child(Gone) as child, pytest.raises(ChildDiedError, match="ended with SIGKILL while starting"):
        child.query({}, timeout=1)


def test_what_cannot_be_written_for_a_child_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with Child(Gone) as child:
        shutil.rmtree(child.folder)
        with pytest.raises(StorageError, match="a temporary file cannot be written: No such file"):
            child.query({}, timeout=1)
        child.folder.mkdir()

    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(StorageError, match="No space left on device"):
        Child()
    with pytest.raises(StorageError, match="No space left on device"), stored_model(cnn(quantized=False)):
        pass


def test_a_disk_that_fills_up_under_the_child_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_request: object, folder: Path, _step: object) -> NoReturn:
        (folder / "cache.bin").write_bytes(b"part of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(worker._COMMANDS, "build", full)
    monkeypatch.setattr(worker.os, "_exit", lambda status: None)
    (tmp_path / "request.json").write_text('{"command": "build"}')
    worker.main(tmp_path)
    assert not (tmp_path / "cache.bin").exists()
    (words,) = json.loads((tmp_path / "answer.json").read_text())["errors"]
    assert words["kind"] == "StorageError"
    assert words["problem"] == "a temporary file cannot be written: No space left on device"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is needed")
def test_a_worker_ends_with_the_reason_before_the_memory_is_used_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "child.py"
    script.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom xdlc.runtime.htp import memory, worker\n"
        "def fill(request, folder, step):\n"
        "    step('compiling graph g')\n"
        "    held = bytearray(1 << 28)\n"
        "    time.sleep(60)\n"
        "memory._free = lambda: 1 << 25\n"
        "worker._COMMANDS['fill'] = fill\n"
        "worker.main(Path(sys.argv[1]))\n"
    )
    monkeypatch.setattr(process, "worker_command", lambda: [sys.executable, str(script)])
    with Child() as child, pytest.raises(ChildDiedError) as caught:
        child.query({"command": "fill"}, timeout=60)
    assert caught.value.is_killed
    assert "SIGKILL (it held" in caught.value.problem
    assert "memory" in str(caught.value.fix)
