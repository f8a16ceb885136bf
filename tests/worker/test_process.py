"""Life of a child process: copies, restarts, and the libraries that it finds."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from tests.support import services
from xdlc import errors
from xdlc.cli.usage_errors import spelled
from xdlc.errors import BackendError, UsageError
from xdlc.options import spelling
from xdlc.runtime import htp
from xdlc.runtime.htp import library
from xdlc.worker.process import ChildDiedError, Process, SharedWorker, environment

COMMANDS = """
import os, sys
from xdlc.errors import UsageError
from xdlc.options import spell

state = []

def add(request, files):
    state.append(request["value"])
    return {"pid": os.getpid(), "state": state}

def fill(request, files):
    return {"size": len(bytearray(request["size"]))}

def refuse(request, files):
    raise UsageError("problem", where="place", fix="fix")

def advise(request, files):
    advice = [spell("act_bitwidth", 16), spell("input_dims", {"x y": (1, 3)})]
    if request["refuses"]:
        raise UsageError("problem", fix=advice[0])
    return {"advice": advice}

def die(request, files):
    print("first\\nlast", flush=True)
    os._exit(3)

def garble(request, files):
    return {"errors": request["errors"]}

def commands():
    return {"add": add, "refuse": refuse, "die": die, "fill": fill, "garble": garble,
            "advise": advise}
"""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    return services.written(monkeypatch, tmp_path, COMMANDS)


def test_a_copy_has_what_was_loaded_and_ends_alone(service: str) -> None:
    origin = Process(service)
    pid = origin.ask({"do": "add", "value": 1}, timeout=20)["pid"]
    copy = origin.copy()
    answer = copy.ask({"do": "add", "value": 2}, timeout=20)
    assert answer["state"] == [1, 2]
    assert answer["pid"] != pid
    with pytest.raises(ChildDiedError, match="ended with status 3"):
        copy.ask({"do": "die"}, timeout=20)
    assert origin.ask({"do": "add", "value": 3}, timeout=20)["state"] == [1, 3]
    origin.end()
    assert not Path(f"/proc/{answer['pid']}").exists()


def test_a_copy_whose_origin_has_died_is_not_taken_for_killed(service: str) -> None:
    origin = Process(service)
    copy = origin.copy()
    os.kill(origin.ask({"do": "add", "value": 1}, timeout=20)["pid"], signal.SIGKILL)
    assert copy.ask({"do": "add", "value": 2}, timeout=20)["state"] == [2]
    with pytest.raises(ChildDiedError) as caught:
        copy.ask({"do": "die"}, timeout=20)
    assert (caught.value.status, caught.value.is_killed) == (None, False)
    assert caught.value.tail == r"; it printed 'first\nlast'"


def test_a_shared_child_is_replaced_after_its_death(service: str) -> None:
    worker = SharedWorker(service)
    first = worker.ask({"do": "add", "value": 1}, timeout=20)
    assert worker.ask({"do": "add", "value": 2}, timeout=20) == {**first, "state": [1, 2]}
    os.kill(first["pid"], signal.SIGKILL)
    with pytest.raises(ChildDiedError) as caught:
        worker.ask({"do": "add", "value": 3}, timeout=20)
    assert caught.value.is_killed
    assert worker.ask({"do": "add", "value": 4}, timeout=20)["state"] == [4]


def test_an_error_of_a_service_is_raised_and_its_child_goes_on(service: str) -> None:
    process = Process(service)
    with pytest.raises(UsageError) as caught:
        process.ask({"do": "refuse"}, timeout=20)
    assert (caught.value.problem, caught.value.where, caught.value.fix) == ("problem", "place", "fix")
    assert process.is_alive
    process.close()
    assert not process.is_alive


def test_a_death_has_what_was_printed(service: str) -> None:
    with pytest.raises(ChildDiedError) as caught:
        Process(service).ask({"do": "die"}, timeout=20)
    assert (caught.value.status, caught.value.tail) == (3, r"; it printed 'first\nlast'")


@pytest.mark.parametrize("words", [3, [{}], [7], [{"kind": "UsageError"}]])
def test_errors_that_are_none_end_the_child(service: str, words: object) -> None:
    process = Process(service)
    with pytest.raises(ChildDiedError, match="wrote into the channel"):
        process.ask({"do": "garble", "errors": words}, timeout=20)
    assert not process.is_alive


def test_options_in_texts_of_a_child_read_as_its_parent_writes_them(service: str) -> None:
    process = Process(service)
    advice = process.ask({"do": "advise", "refuses": False}, timeout=20)["advice"]
    assert advice == ["act_bitwidth=16", "input_dims={'x y': [1, 3]}"]
    with spelling(lambda name, value: f"--{name} {value}"), pytest.raises(UsageError) as caught:
        process.ask({"do": "advise", "refuses": True}, timeout=20)
    assert caught.value.fix == "--act_bitwidth 16"


@pytest.mark.parametrize("mark", ["", "[1, 2]", '["a", 1, 2]', '["no.a", 1]', "["])
def test_names_that_look_like_options_stay(service: str, mark: str) -> None:
    text = f"\x1a{mark}\x1a"
    words = {"kind": "UsageError", "problem": text, "where": None, "fix": None, "node": None, "op": None}
    context = click.Context(click.Command("tool"))
    with spelling(partial(spelled, context)), pytest.raises(UsageError) as caught:
        Process(service).ask({"do": "garble", "errors": [words]}, timeout=20)
    assert caught.value.problem == text


def test_a_child_that_was_ended_answers_no_more(service: str) -> None:
    process = Process(service)
    process.end()
    with pytest.raises(ChildDiedError, match="has been ended"):
        process.ask({"do": "add", "value": 1}, timeout=20)


def test_memory_is_limited_without_a_limit_of_time(service: str) -> None:
    process = Process(service)
    request = {"do": "fill", "size": 1 << 26}
    assert process.ask(request, timeout=20)["size"] == 1 << 26
    with pytest.raises(BackendError, match="no memory is left"):
        process.ask({**request, "memory": 1 << 20}, timeout=20)
    assert process.ask(request, timeout=20)["size"] == 1 << 26


def test_a_service_that_does_not_start_is_a_death() -> None:
    with pytest.raises(ChildDiedError, match=r"status 1.*no_module_of_this_name"):
        Process("no_module_of_this_name").ask({"do": "any"}, timeout=20)


def test_what_is_in_pythonpath_comes_first_unless_it_is_another_xdlc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site, second_folder = tmp_path / "site", tmp_path / "other"
    for folder in (site / "xdlc", second_folder / "xdlc", tmp_path / "libraries"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    monkeypatch.setattr(errors, "__file__", str(site / "xdlc" / "errors.py"))
    for pythonpath, expected in [
        ([], [site]),
        ([tmp_path / "libraries"], [tmp_path / "libraries", site]),
        ([tmp_path / "libraries", site], [tmp_path / "libraries", site]),
        ([second_folder], [site, second_folder]),
    ]:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, pythonpath)))
        assert environment()["PYTHONPATH"].split(os.pathsep) == list(map(str, expected))


@pytest.mark.skipif(sys.platform != "linux", reason="the vendor's library runs on Linux only")
def test_a_child_that_would_load_another_library_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for layer in ("first", "second"):
        (tmp_path / layer / "onnxruntime_qnn").mkdir(parents=True)
        (tmp_path / layer / "onnxruntime_qnn" / "__init__.py").touch()
    monkeypatch.setattr(library.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "second"))
    monkeypatch.syspath_prepend(tmp_path / "second")
    with pytest.raises(BackendError, match=r"cannot be loaded.*second"):
        htp.build_id()
    monkeypatch.syspath_prepend(tmp_path / "first")
    with pytest.raises(BackendError) as caught:
        htp.build_id()
    assert str(tmp_path / "first") in caught.value.problem
    assert str(tmp_path / "second") in caught.value.problem
    assert "PYTHONPATH" in str(caught.value.fix)
