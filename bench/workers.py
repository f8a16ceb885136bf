"""Runs many small jobs in a few long-lived processes; a job that dies or hangs costs only itself."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

Job = Callable[[Any], Any]


@dataclass
class Outcome:
    """What became of a job.

    Attributes:
        item: What the job was called with.
        result: What it has returned; None if it did not end well.
        end: Empty if it ended well, else "timeout" or "crashed".
        reason: Why it did not: the time limit, the signal, or the traceback.
    """

    item: Any
    result: Any = None
    end: str = ""
    reason: str = ""


@dataclass
class _Worker:
    process: Any
    channel: Connection
    item: Any = None
    deadline: float = 0.0


def _serve(channel: Connection, job: Job, memory: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)  # what the engines print about models that they refuse
    while True:
        item = channel.recv()
        try:
            channel.send(Outcome(item, job(item)))
        except Exception:
            channel.send(Outcome(item, end="crashed", reason=traceback.format_exc(limit=-6)))


def run(
    job: Job,
    items: Sequence[Any],
    *,
    processes: int = 2,
    seconds: float = 60.0,
    memory: int | None = None,
) -> Iterator[Outcome]:
    """Yield what became of a job for each item, as they end.

    Args:
        job: Called in a worker process with an item.
        items: What to work on, in this order.
        processes: Number of worker processes; a worker is replaced when it has died.
        seconds: Time limit of one job.
        memory: Limit of a worker's data, in bytes.
    """
    context = multiprocessing.get_context("fork")

    def start() -> _Worker:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, job, memory), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    waiting = list(reversed(items))
    busy: list[_Worker] = []
    idle: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < processes:
                worker = idle.pop() if idle else start()
                worker.item = waiting.pop()
                worker.deadline = time.monotonic() + seconds
                worker.channel.send(worker.item)
                busy.append(worker)
            left = min(worker.deadline for worker in busy) - time.monotonic()
            ready = wait([worker.channel for worker in busy], timeout=max(left, 0))
            for worker in list(busy):
                if worker.channel in ready:
                    outcome = _answer(worker)
                elif time.monotonic() >= worker.deadline:
                    outcome = Outcome(worker.item, end="timeout", reason=f"no result within {seconds:g} s")
                    _end(worker)
                else:
                    continue
                busy.remove(worker)
                if worker.process.is_alive():
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*busy, *idle):
            _end(worker)


def _answer(worker: _Worker) -> Outcome:
    try:
        outcome: Outcome = worker.channel.recv()
        return outcome
    except (EOFError, ConnectionResetError):
        worker.process.join()
        code = worker.process.exitcode
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return Outcome(worker.item, end="crashed", reason=f"the process died: {name}")


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.channel.close()


def grouped(reasons: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return reasons with the names that have them, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason, []).append(name)
    return sorted(groups.items(), key=lambda entry: (-len(entry[1]), entry[0]))
