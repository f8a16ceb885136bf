"""Errors of child processes, and how these end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from xdlc import errors
from xdlc.errors import BackendError, ModelError, UsageError
from xdlc.worker.content import error_of, words_of
from xdlc.worker.process import ending, environment


@pytest.mark.parametrize("kind", [UsageError, ModelError, BackendError])
def test_errors_survive_the_way(kind: type[errors.XdlcError]) -> None:
    error = kind("problem", where="here", fix="do it", node="n", op="Op")
    back = error_of(words_of(error))
    assert type(back) is kind
    assert (back.problem, back.where, back.fix, back.node, back.op) == ("problem", "here", "do it", "n", "Op")


@pytest.mark.parametrize("kind", ["ProblemList", "difflib", "nearest_names", "Iterable", "Exception", "no"])
def test_what_is_no_error_is_one_of_the_engine(kind: str) -> None:
    assert type(error_of({**words_of(UsageError("p")), "kind": kind})) is BackendError


@pytest.mark.parametrize(
    ("status", "words"), [(0, "status 0"), (9, "status 9"), (-9, "SIGKILL"), (-200, "signal 200")]
)
def test_endings(status: int, words: str) -> None:
    assert ending(status) == words


def test_the_environment_finds_this_xdlc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    found = environment({"X": "1"})
    first, last = found["PYTHONPATH"].split(":")
    assert errors.__file__.startswith(last)
    assert (first, found["X"]) == ("/somewhere", "1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("way", ["cleanup", "exit"])
def test_a_forked_process_leaves_the_folder(way: str) -> None:
    script = f"""
import os, sys
from xdlc.worker.temporary import TemporaryFolder
folder = TemporaryFolder()
child = os.fork()
if not child:
    folder.cleanup() if {way!r} == "cleanup" else sys.exit(0)
    os._exit(0)
os.waitpid(child, 0)
print(folder.name, os.path.isdir(folder.name))
"""
    name, is_there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert is_there == "True"
    assert not os.path.exists(name)
