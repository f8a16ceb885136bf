"""Faults in a service's child: one error, no process or file is left."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support import services
from tests.support.htp_models import cnn
from xdlc.converter import hdf5
from xdlc.errors import BackendError, ModelError
from xdlc.ir import ArrayData, MappedFile
from xdlc.llm import genie, tokenizer
from xdlc.runtime import htp, onnx_evaluator
from xdlc.runtime.htp import process as htp_process
from xdlc.runtime.udo import Kernels, worker_client
from xdlc.worker import executors
from xdlc.worker.process import SharedWorker

FAULTS = """
import os, signal, time
import {real} as real
from xdlc.worker import limits

limits._free = lambda: 1 << 26
real.check_folder = lambda parent: None

def fault(*_):
    {what}

def commands():
    service = getattr(real, "_Service", None)
    served = service().watched(fault) if service else fault
    own = real.commands().items()
    return {{name: command if service and name == "load" else served for name, command in own}}
"""
SECONDS = 3.0


def run_htp(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(htp_process, "SERVICE", service)
    patch.setattr(htp_process, "library_folder", lambda: folder)
    htp.compile_for(cnn(quantized=False), "sm8650", htp.CompileOptions(), timeout=SECONDS)


def run_htp_copy(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(htp_process, "SERVICE", service)
    patch.setattr(htp_process, "library_folder", lambda: folder)
    model = cnn(quantized=False)
    with htp_process.stored_model(model) as path, htp_process.ForkServer(path) as server:
        htp.compile_for(path, "sm8650", htp.CompileOptions(), timeout=SECONDS, launch=server.launch)


def run_kernels(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(worker_client, "SERVICE", service)
    patch.setattr(worker_client, "LOADING", SECONDS)
    path = folder / "kernels.py"
    path.write_text("")
    with Kernels(path, timeout=SECONDS) as kernels:
        kernels._link.offers()


def run_task(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(executors, "SERVICE", service)
    patch.setattr(executors, "_LONGEST", SECONDS)
    with executors.open_workers(2) as workers:
        list(workers.in_order([partial(abs, -1)], "work"))


def run_onnx(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    shared = SharedWorker(service)
    patch.setattr(onnx_evaluator, "_WORKER", shared)
    patch.setattr(onnx_evaluator, "_PATIENCE", 1)
    values = {"x": ArrayData(np.ones(1, np.float32))}
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = onnx_evaluator.alone(node, 17, {"x": (np.dtype("float32"), (1,))}, {})
    with ended(shared):
        onnx_evaluator.evaluate(model, values, 0)


def run_hdf5(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    shared = SharedWorker(service)
    patch.setattr(hdf5, "_WORKER", shared)
    patch.setattr(hdf5, "_LATEST", 1.5)
    path = folder / "weights.h5"
    path.write_bytes(b"content")
    with ended(shared):
        hdf5.Hdf5(MappedFile(path), 0, 7, "weights.h5", "keras")


def run_genie(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(genie, "SERVICE", service)
    patch.setattr(genie, "OPENING", SECONDS)
    patch.setattr(genie, "library_folder", lambda: folder)
    (folder / "libGenie.so").touch()
    genie.Dialog(folder, {})


def run_tokenizer(patch: pytest.MonkeyPatch, folder: Path, service: str) -> None:
    patch.setattr(tokenizer, "SERVICE", service)
    patch.setattr(tokenizer, "SECONDS", SECONDS / 4)
    patch.setattr(tokenizer, "MEMORY", 1 << 28)
    path = folder / "tokenizer.json"
    path.write_text("{}")
    tokenizer.Tokenizer(path)


@contextmanager
def ended(shared: SharedWorker) -> Iterator[None]:
    """End a child that serves all of a program, as its end does."""
    try:
        yield
    finally:
        assert shared._process is not None
        shared._process.end()


Run = Callable[[pytest.MonkeyPatch, Path, str], None]
RUNS: dict[str, tuple[Run, str, tuple[type[Exception], ...]]] = {
    "htp": (run_htp, "xdlc.runtime.htp.service", (BackendError,)),
    "htp copy": (run_htp_copy, "xdlc.runtime.htp.service", (BackendError,)),
    "kernels": (run_kernels, "xdlc.runtime.udo.service", (BackendError,)),
    "task": (run_task, "xdlc.worker.tasks", (BackendError,)),
    "onnx": (run_onnx, "xdlc.runtime.onnx_evaluator", (onnx_evaluator.RefusedError, BackendError)),
    "genie": (run_genie, "xdlc.llm.genie_service", (BackendError,)),
    "tokenizer": (run_tokenizer, "xdlc.llm.tokenizer_service", (ModelError, BackendError)),
    "hdf5": (run_hdf5, "xdlc.converter.hdf5", (ModelError, BackendError)),
}
FILL = "held = [bytearray(b'x') * (1 << 26) for _ in range(64)]; time.sleep(60)"


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended with SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended with SIGKILL"),
        pytest.param("time.sleep(60)", "did not end within", marks=pytest.mark.slow),
        pytest.param(FILL, "it used|no memory is left", marks=pytest.mark.slow),
    ],
    ids=["crash", "kill", "hang", "memory"],
)
def test_a_fault_is_one_error_and_leaves_nothing(
    run: str, what: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start, real, kinds = RUNS[run]
    if run == "hdf5":
        pytest.importorskip("h5py")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    service = services.written(monkeypatch, tmp_path, FAULTS.format(real=real, what=what))
    before = children()
    with pytest.raises(kinds, match=said):
        start(monkeypatch, tmp_path, service)
    until = time.monotonic() + 10
    while children() - before and time.monotonic() < until:
        time.sleep(0.05)
    assert children() == before
    assert list(temporary.iterdir()) == []


def children() -> set[int]:
    """Return the children of this process and theirs, by their command line."""
    pids = set[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            variables = (path / "environ").read_bytes()
        except OSError:
            continue
        if b"xdlc.worker" in words and f"XDLC_TEST={os.getpid()}".encode() in variables.split(b"\0"):
            pids.add(int(path.name))
    return pids


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDLC_TEST", str(os.getpid()))
