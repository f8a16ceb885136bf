"""Tasks of tests, which worker processes import, and a cluster that runs them."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from xdlc.errors import ConstraintError
from xdlc.options import spell
from xdlc.worker.tasks import Answer, Home, perform, with_files


def content_and(path: Path, number: int) -> tuple[bytes, int]:
    return path.read_bytes(), number


def contents_of(*paths: Path) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def divide(number: int, divisor: int) -> float:
    return number / divisor


def refuse(code: str) -> None:
    words = spell("act_bitwidth", 16)
    raise ConstraintError(f"needs {words}", where="place", fix=f"pass {words}", code=code)


def die_once(mark: Path, result: int) -> int:
    """Kill the worker unless a file is there; return the result."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def die(text: str) -> None:
    os.write(2, text.encode())
    os._exit(3)


def perform_elsewhere(home: Home, task: bytes, contents: Mapping[str, bytes] = {}) -> Answer:
    """Perform a task as on a machine that lacks all files of the sender."""
    call = pickle.loads(task)
    lost = with_files(call, lambda parcel: replace(parcel, path="/none", identity=("none",)))
    return perform(home, pickle.dumps(lost), contents)


@contextmanager
def cluster(size: int) -> Iterator[str]:
    """Yield the address of a Dask scheduler with workers in processes of their own."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=size, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as opened:
        yield opened.scheduler_address
