"""Tasks give one result, whoever runs them and whatever dies."""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.support import tasks
from xdlc.errors import BackendError, ConstraintError, StorageError, UsageError
from xdlc.worker import executors
from xdlc.worker import tasks as worker_tasks
from xdlc.worker.executors import Workers, open_compilers, open_threads, open_workers
from xdlc.worker.tasks import Home, Parcel, kept_open, perform

DASK = pytest.param("dask", marks=pytest.mark.frameworks)
KINDS = ("here", "threads", "jobs", "pool", "thread executor", DASK)


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    if request.param == "here":
        with open_workers() as opened:
            yield opened
    elif request.param == "threads":
        with open_compilers(2) as opened:
            yield opened
    elif request.param == "jobs":
        with open_workers(2) as opened:
            yield opened
    elif request.param == "pool":
        pool = ProcessPoolExecutor(2, get_context("spawn"))
        with pool, open_workers(executor=pool) as opened:
            yield opened
    elif request.param == "thread executor":
        with ThreadPoolExecutor(2) as pool, open_workers(executor=pool) as opened:
            yield opened
    else:
        pytest.importorskip("distributed")
        with tasks.cluster(2) as address, open_workers(scheduler=address) as opened:
            yield opened


every = pytest.mark.parametrize("workers", KINDS, indirect=True)


@every
def test_results_come_in_order_and_by_name(workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"content")
    parcel = workers.parcel(path)
    calls = [partial(tasks.content_and, parcel, number) for number in range(9)]
    expected = [(b"content", number) for number in range(9)]
    assert list(workers.in_order(iter(calls), "test")) == expected
    started: list[int] = []
    assert dict(workers.each(dict(enumerate(calls)), "test", started.append)) == dict(enumerate(expected))
    assert started == list(range(9))


@every
def test_errors_come_back_as_they_are(workers: Workers) -> None:
    with pytest.raises(ConstraintError, match="act_bitwidth=16") as caught:
        list(workers.in_order([partial(tasks.refuse, "XD106")], "test"))
    assert (caught.value.code, caught.value.where, caught.value.fix) == (
        "XD106",
        "place",
        "pass act_bitwidth=16",
    )
    with pytest.raises(ZeroDivisionError):
        list(workers.in_order([partial(tasks.divide, 1, 0)], "test"))
    outcomes = dict(
        workers.each({"a": partial(tasks.divide, 1, 0), "b": partial(tasks.divide, 1, 1)}, "test")
    )
    assert isinstance(outcomes["a"], ZeroDivisionError)
    assert outcomes["b"] == 1


@pytest.mark.parametrize("workers", ["jobs", DASK], indirect=True)
def test_a_task_whose_worker_is_killed_is_sent_again(workers: Workers, tmp_path: Path) -> None:
    calls = [partial(tasks.die_once, tmp_path / str(number // 2), number) for number in range(4)]
    assert list(workers.in_order(calls, "test")) == [0, 1, 2, 3]


def test_a_task_that_kills_each_worker_is_an_error() -> None:
    with (
        open_workers(2) as workers,
        pytest.raises(BackendError, match=r"status 3; it printed 'out of luck'(?s:.*)jobs=1") as caught,
    ):
        list(workers.in_order([partial(tasks.die, "out of luck")], "calibration"))
    assert (caught.value.code, caught.value.where) == ("XD705", "calibration")


@pytest.mark.parametrize("workers", ["jobs", "thread executor"], indirect=True)
def test_a_task_that_exits_is_an_error(workers: Workers) -> None:
    with pytest.raises(BackendError, match=r"sys\.exit\(3\)"):
        list(workers.in_order([partial(sys.exit, 3)], "test"))


def test_a_pool_of_the_caller_that_breaks_is_an_error() -> None:
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    with pool, open_workers(executor=pool) as workers, pytest.raises(BackendError, match="BrokenProcessPool"):
        list(workers.in_order([partial(tasks.die, "")], "test"))


def test_an_error_ends_the_children_and_waits_for_no_task() -> None:
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError), open_workers(2) as workers:
        list(workers.in_order([partial(time.sleep, 600), partial(tasks.divide, 1, 0)][::-1], "test"))
    assert time.monotonic() < start + 60


def test_ctrl_c_ends_what_threads_wait_for() -> None:
    has_ended = threading.Event()

    def interrupted() -> Iterator[partial[bool]]:
        yield partial(has_ended.wait, 600)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_threads(2, has_ended.set) as workers:
        list(workers.in_order(interrupted(), "test"))
    assert has_ended.is_set()


def test_files_travel_by_content(tmp_path: Path) -> None:
    """A worker that lacks a file says so, and keeps what it gets."""
    path = tmp_path / "model"
    path.write_bytes(b"content")
    parcel = Parcel.of(path)
    elsewhere = Parcel(str(tmp_path / "none"), parcel.digest, parcel.identity)
    task = pickle.dumps(partial(tasks.content_and, elsewhere, number=1))
    assert perform(Home.here(), task).missing == (parcel.digest,)
    assert perform(Home.here(), task, {parcel.digest: b"content"}).value == (b"content", 1)
    assert perform(Home.here(), task).value == (b"content", 1)
    shared = Parcel(str(path), parcel.digest, ("another machine",))
    assert perform(Home.here(), pickle.dumps(partial(tasks.content_and, shared, 2))).value == (b"content", 2)


def test_a_worker_keeps_the_files_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_tasks, "STORED", 10)
    contents = [f"content {number}".encode() for number in range(3)]
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    parcels = [Parcel(str(tmp_path / "none"), digest, ("another machine",)) for digest in digests]
    both = pickle.dumps(partial(tasks.contents_of, *parcels[:2]))
    first, second, third = ({digests[at]: contents[at]} for at in range(3))
    assert perform(Home.here(), both, {**first, **second}).value == contents[:2]
    assert perform(Home.here(), pickle.dumps(partial(tasks.contents_of, parcels[2])), third).value
    assert perform(Home.here(), both).missing == tuple(digests[:2])
    assert perform(Home.here(), both, first).missing == (digests[1],)
    assert perform(Home.here(), both, second).value == contents[:2]


def test_a_file_that_changes_reaches_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"one content")
    monkeypatch.setattr(executors, "perform", tasks.perform_elsewhere)
    with ThreadPoolExecutor(1) as pool, open_workers(executor=pool) as workers:
        call = partial(tasks.content_and, workers.parcel(path), 1)
        for change in (partial(path.write_bytes, b"another content"), path.unlink):
            change()
            with pytest.raises(StorageError) as caught:
                list(workers.in_order([call], "test"))
            assert caught.value.where == str(path)


@pytest.mark.parametrize("workers", ["pool", DASK], indirect=True)
def test_a_worker_gets_the_files_that_it_lacks(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"content of some file")
    monkeypatch.setattr(executors, "perform", tasks.perform_elsewhere)
    calls = [partial(tasks.content_and, workers.parcel(path), number) for number in range(8)]
    results = list(workers.in_order(calls, "test"))
    assert results == [(b"content of some file", number) for number in range(8)]


def test_the_least_recently_used_files_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_tasks, "STORED", 10)
    store = worker_tasks._Store()
    store.add({"a": b"12345"}, {"a"})
    store.add({"b": b"12345"}, {"b"})
    assert store.path("a") is not None
    store.add({"c": b"1234"}, {"c"})
    paths = [store.path(digest) for digest in "abc"]
    assert [path and path.read_bytes() for path in paths] == [b"12345", None, b"1234"]


def test_a_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home.here()
    other = Home(home.machine, home.process, {**home.likeness, "onnxruntime": "1.0"})
    assert "onnxruntime" in perform(other, b"").unlike
    monkeypatch.setattr(executors.Home, "here", lambda: other)
    with open_workers(2) as workers, pytest.raises(BackendError, match="onnxruntime") as caught:
        list(workers.in_order([partial(tasks.divide, 1, 1)], "test"))
    assert caught.value.fix


def test_objects_stay_open_for_the_next_task(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"1")
    numbers: list[int] = []

    def make(stack: ExitStack) -> int:
        number = len(numbers)
        numbers.append(number)
        stack.callback(numbers.append, -number)
        return number

    for _ in range(2):
        with kept_open(path, "request", make) as value:
            assert value == 0
    with kept_open(path, "request", make), kept_open(path, "request", make) as second:
        assert second == 1
    path.write_bytes(b"12")
    with pytest.raises(ZeroDivisionError), kept_open(path, "request", make):
        tasks.divide(1, 0)
    assert numbers == [0, 1, 2, -2]


@pytest.mark.parametrize(
    ("options", "kind", "where"),
    [
        ({"jobs": 2, "scheduler": "tcp://localhost:1"}, UsageError, None),
        ({"scheduler": "nonsense://"}, BackendError, "scheduler='nonsense://'"),
        ({"scheduler": "tcp://127.0.0.1:9"}, BackendError, "scheduler='tcp://127.0.0.1:9'"),
    ],
)
@pytest.mark.frameworks
def test_workers_that_cannot_be_opened(
    options: dict[str, Any], kind: type[Exception], where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "PATIENCE", 0.5)
    with pytest.raises(kind) as caught, open_workers(**options):
        pass
    assert caught.value.where == where  # type: ignore[attr-defined]
    assert caught.value.fix  # type: ignore[attr-defined]


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BackendError) as caught, open_workers(scheduler="tcp://127.0.0.1:9"):
        pass
    assert (caught.value.code, caught.value.fix) == ("XD706", "pip install 'xdlc[dask]'")
