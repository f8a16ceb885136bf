"""Calibration in several processes: chunks of samples go to children, statistics come back in order.

A child runs this module.  Its folder holds the model, a temporary DLC, and the request; each line of its
standard input is the number of a chunk's first sample.  It replies with a line of JSON, a list of errors, and
writes the results to files of plain arrays, one pair a chunk; nothing is pickled, and no module of the user
is imported again.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from xdlc.container import load
from xdlc.errors import BackendError, XdlcError, each_problem, raise_all
from xdlc.ir import Model
from xdlc.ir.data import Array
from xdlc.quant.calibration.session import Give, Meter, Watch, keys_of
from xdlc.quant.calibration.statistics import ModelStatistics
from xdlc.quant.kernels import KernelSource
from xdlc.quant.samples import Sample, stored_samples, write_samples
from xdlc.runtime import child
from xdlc.runtime.child import TemporaryFolder

REQUEST, MODEL, LOG = "request.json", "model.dlc", "log"
REST, HELD, RESULTS = "{}.rest.npz", "{}.held.npz", "{}.results.npz"
"""Statistics of a chunk, those of its held-out samples, and the values that are wanted as they are."""
OWN = "xdlc."
"""Prefix of the names of our records, of definitions and kernels of UDOs too."""
_TAIL = 400
_AHEAD = 2
"""Chunks that wait on disk for each child."""


def measure_in_processes(
    model: Model,
    watch: Watch,
    samples: Iterable[Sample],
    *,
    give: Give | None = None,
    jobs: int,
    chunk: int,
    progress: Callable[[int], None] | None = None,
    source: KernelSource,
    loop_timeout: float,
) -> Iterator[tuple[ModelStatistics, ModelStatistics]]:
    """Yield the statistics of each chunk of samples, and of its held-out ones apart, in their order.

    Args:
        model: The float model.
        watch: What to measure.
        samples: Arrays by input name.
        give: Called with the number of each sample and the values of ``watch.outputs``.
        jobs: Most processes; each has its share of the cores.
        chunk: Samples of a chunk.
        progress: Called with the number of samples done.
        source: Where each child gets kernels of UDOs from.
        loop_timeout: Seconds that each loop may take.

    Raises:
        XdlcError: What a child reports.
        BackendError: If a child dies.
    """
    keys = keys_of(model)
    request = {
        "tensors": [keys[tensor] for tensor in watch.tensors],
        "averaged": [keys[tensor] for tensor in watch.averaged],
        "histograms": watch.histograms,
        "outputs": list(watch.outputs),
        "threads": max(1, (os.cpu_count() or 1) // jobs),
        "kernels": asdict(source),
        "loop_timeout": loop_timeout,
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryFolder()))
        records = {name: data for name, data in model.records.items() if name.startswith(OWN)}
        Model(dict(model.graphs), records=records).save(folder / MODEL, crc=False)
        (folder / REQUEST).write_text(json.dumps(request))
        team = _Team(folder, jobs, stack)
        waiting: deque[Future[tuple[ModelStatistics, ModelStatistics]]] = deque()
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

    def send(self, first: int, samples: Sequence[Sample]) -> Future[tuple[ModelStatistics, ModelStatistics]]:
        """Have a child measure a chunk."""
        write_samples(self._folder / f"{first}.npz", samples)
        if self._left:
            self._left -= 1
            self._idle.put(self._stack.enter_context(_Child(self._folder, self._left)))
        return self._pool.submit(self._measure, first)

    def _measure(self, first: int) -> tuple[ModelStatistics, ModelStatistics]:
        worker = self._idle.get()
        try:
            return worker.measure(first)
        finally:
            self._idle.put(worker)


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
                env=child.environment(),
                text=True,
            )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measure(self, first: int) -> tuple[ModelStatistics, ModelStatistics]:
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
            reply = process.stdout.readline()
        except OSError:
            reply = ""
        if not reply:
            raise self._death()
        raise_all([child.error_of(words) for words in json.loads(reply)])
        rest, held = (self._folder / name.format(first) for name in (REST, HELD))
        found = ModelStatistics.load(rest), ModelStatistics.load(held)
        rest.unlink()
        held.unlink()
        return found

    def _death(self) -> BackendError:
        how = child.ending(self._process.wait())
        log = self._log.read_text(errors="replace").strip()[-_TAIL:]
        last = f" ({log.splitlines()[-1]})" if log else ""
        return BackendError(
            f"a process that runs calibration samples ended with {how}{last}",
            where="calibration",
            fix="run with jobs=1, which uses the least memory, and look at what the samples do to the model",
        )


def worker_command() -> list[str]:
    """Return the command line of a child, to which the folder is appended."""
    return child.command("xdlc.quant.calibration.worker")


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
            print(json.dumps([child.words_of(problem) for problem in problems]), flush=True)


def _meter(folder: Path, stack: ExitStack) -> Meter:
    request = json.loads((folder / REQUEST).read_text())
    model = load(folder / MODEL)
    tensors, averaged = (
        [model.graphs[graph].tensors[name] for graph, name in request[kind]]
        for kind in ("tensors", "averaged")
    )
    watch = Watch(tensors, averaged, request["histograms"], request["outputs"])
    source = KernelSource(**request["kernels"])
    kernels = stack.enter_context(source.opened(model, needed=True))
    return Meter(
        model, watch, threads=request["threads"], kernels=kernels, loop_timeout=request["loop_timeout"]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
