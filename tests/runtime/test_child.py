"""Errors of child processes, and how these end."""

from __future__ import annotations

import pytest

from xdlc import errors
from xdlc.errors import BackendError, ModelError, UsageError
from xdlc.runtime.child import ending, environment, error_of, words_of


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
    assert errors.__file__.startswith(first)
    assert (last, found["X"]) == ("/somewhere", "1")
