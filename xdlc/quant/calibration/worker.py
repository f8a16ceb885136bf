"""The child process that runs calibration samples; started by :mod:`xdlc.quant.calibration.worker`.

Its folder holds the model and the request.  Each line of its standard input is the number of a chunk's
first sample; it answers with a line of JSON, a list of errors, and leaves the results in a file.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from xdlc import errors
from xdlc.container import load
from xdlc.errors import BackendError, ProblemList, XdlcError, each_problem, raise_all
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.quant.calibration.session import Give, Meter, keys_of
from xdlc.quant.calibration.statistics import Measured
from xdlc.quant.kernels import KernelSource
from xdlc.quant.samples import Sample, stored_samples, write_samples

REQUEST, MODEL, LOG = "request.json", "model.dlc", "log"
REST, HELD, RESULTS = "{}.rest.npz", "{}.held.npz", "{}.results.npz"
"""Statistics of a chunk, those of its held-out samples, and the values that are wanted as they are."""
OWN = "xdlc."
"""What records of ours begin with, definitions and kernels of users' ops among them."""
_TAIL = 400
_AHEAD = 2
"""Chunks that wait on disk for each child."""


def measure_in_processes(
    model: Model,
    tensors: Sequence[Tensor],
    averaged: Sequence[Tensor],
    samples: Iterable[Sample],
    *,
    histograms: bool,
    outputs: Sequence[str] = (),
    give: Give | None = None,
    jobs: int,
    chunk: int,
    progress: Callable[[int], None] | None = None,
    source: KernelSource,
) -> Iterator[tuple[Measured, Measured]]:
    """Yield the statistics of each chunk of samples, and of its held-out ones apart, in their order.

    Args:
        model: The float model.
        tensors: Activations to watch.
        averaged: Activations to take the mean of each channel of.
        samples: Arrays by input name.
        histograms: Whether histograms are wanted.
        outputs: Names of tensors of the main graph whose values are wanted as they are.
        give: Called with the number of each sample and these values.
        jobs: Most processes; each has its share of the cores.
        chunk: Samples of a chunk.
        progress: Called with the number of samples done.
        source: Where each child gets kernels of users' ops from.

    Raises:
        XdlcError: What a child reports.
        BackendError: If a child dies.
    """
    keys = keys_of(model)
    request = {
        "watched": [keys[tensor] for tensor in tensors],
        "averaged": [keys[tensor] for tensor in averaged],
        "histograms": histograms,
        "outputs": list(outputs),
        "threads": max(1, (os.cpu_count() or 1) // jobs),
        "kernels": asdict(source),
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xdlc-")))
        records = {name: data for name, data in model.records.items() if name.startswith(OWN)}
        Model(dict(model.graphs), records=records).save(folder / MODEL)
        (folder / REQUEST).write_text(json.dumps(request))
        team = _Team(folder, jobs, stack)
        waiting: deque[Future[tuple[Measured, Measured]]] = deque()
        left, sent, done = iter(samples), 0, 0
        while True:
            while len(waiting) < _AHEAD * jobs and (piece := list(islice(left, chunk))):
                waiting.append(team.send(sent, piece))
                sent += len(piece)
            if not waiting:
                return
            measured = waiting.popleft().result()
            values = stored_samples(folder / RESULTS.format(done))
            for _ in range(sum(part.count for part in measured)):
                if give is not None:
                    give(done, next(values))
                done += 1
                if progress is not None:
                    progress(done)
            yield measured


class _Team:
    """Children, started when there is work for them; they end with the stack."""

    def __init__(self, folder: Path, size: int, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._left = size
        self._idle: queue.SimpleQueue[_Child] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(size)
        stack.callback(self._pool.shutdown, cancel_futures=True)

    def send(self, first: int, samples: Sequence[Sample]) -> Future[tuple[Measured, Measured]]:
        """Have a child measure a chunk."""
        write_samples(self._folder / f"{first}.npz", samples)
        if self._left:
            self._left -= 1
            self._idle.put(self._stack.enter_context(_Child(self._folder, self._left)))
        return self._pool.submit(self._ask, first)

    def _ask(self, first: int) -> tuple[Measured, Measured]:
        child = self._idle.get()
        try:
            return child.ask(first)
        finally:
            self._idle.put(child)


class _Child:
    """A process that measures."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._log = folder / f"{LOG}{number}"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [*worker_command(), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                text=True,
            )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, first: int) -> tuple[Measured, Measured]:
        """Return the statistics of the chunk with this first sample, and of its held-out samples apart.

        Raises:
            XdlcError: What the child reports.
            BackendError: If it dies.
        """
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise ValueError("the child has no pipes")
        try:
            process.stdin.write(f"{first}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise self._death()
        raise_all([_error(words) for words in json.loads(answer)])
        rest, held = (self._folder / name.format(first) for name in (REST, HELD))
        found = Measured.load(rest), Measured.load(held)
        rest.unlink()
        held.unlink()
        return found

    def _death(self) -> BackendError:
        status = self._process.wait()
        how = f"status {status}"
        if status < 0:
            how = signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
        said = self._log.read_text(errors="replace").strip()[-_TAIL:]
        last = f" ({said.splitlines()[-1]})" if said else ""
        return BackendError(
            f"a process that runs calibration samples ended with {how}{last}",
            where="calibration",
            fix="run with jobs=1, which takes the least memory, and see what the samples make of the model",
        )


def worker_command() -> list[str]:
    """Return the command line of a child, to which the folder is appended."""
    return [sys.executable, "-m", "xdlc.quant.calibration.worker"]


def _environment() -> dict[str, str]:
    """The child imports the very xdlc that runs here, installed or not."""
    root = str(Path(errors.__file__).resolve().parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def error_words(error: XdlcError) -> dict[str, str | None]:
    """Return an error in a form that JSON holds."""
    return {
        "kind": type(error).__name__,
        "problem": error.problem,
        "where": error.where,
        "fix": error.fix,
        "node": error.node,
        "op": error.op,
    }


def _error(words: dict[str, str]) -> XdlcError:
    """Return the error that a child put into words."""
    kind = getattr(errors, words.pop("kind"), BackendError)
    known = isinstance(kind, type) and issubclass(kind, XdlcError) and kind is not ProblemList
    error: XdlcError = (kind if known else BackendError)(words.pop("problem"), **words)
    return error


def main(folder: Path) -> None:
    """Serve until the standard input ends."""
    meter = None
    with ExitStack() as stack:
        for line in sys.stdin:
            first = int(line)
            try:
                meter = meter or _meter(folder, stack)
                path = folder / f"{first}.npz"
                results: dict[int, Mapping[str, Array]] = {}
                measured = meter.measure(stored_samples(path), first, results.__setitem__)
                path.unlink()
                for part, name in zip(measured, (REST, HELD), strict=True):
                    part.save(folder / name.format(first))
                write_samples(folder / RESULTS.format(first), list(results.values()))
                problems: tuple[XdlcError, ...] = ()
            except XdlcError as error:
                problems = each_problem(error)
            print(json.dumps([error_words(problem) for problem in problems]), flush=True)


def _meter(folder: Path, stack: ExitStack) -> Meter:
    request = json.loads((folder / REQUEST).read_text())
    model = load(folder / MODEL)
    watched, averaged = (
        [model.graphs[graph].tensors[name] for graph, name in request[kind]]
        for kind in ("watched", "averaged")
    )
    source = KernelSource(**request["kernels"])
    return Meter(
        model,
        watched,
        averaged,
        histograms=request["histograms"],
        outputs=request["outputs"],
        threads=request["threads"],
        kernels=stack.enter_context(source.opened(model, needed=True)),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
