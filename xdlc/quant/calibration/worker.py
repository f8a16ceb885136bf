"""Calibration in several processes: chunks of samples go to children, statistics come back in order.

The module is the service of these children, too: ``commands`` has what they do.
"""

from __future__ import annotations

import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, Any

from xdlc.container import load
from xdlc.errors import BackendError
from xdlc.ir import Model
from xdlc.ir.data import Array
from xdlc.options import spell, spelling
from xdlc.quant.calibration.session import Give, Meter, Watch, keys_of
from xdlc.quant.calibration.statistics import ModelStatistics
from xdlc.quant.engine import KernelSource
from xdlc.quant.samples import Sample, stored_samples, write_samples
from xdlc.worker.limits import watch_memory
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.temporary import TemporaryFolder, temporary_file, temporary_files

SERVICE = "xdlc.quant.calibration.worker"
OWN = "xdlc."
"""Prefix of the names of our records, of definitions and kernels of UDOs too."""
_NAMED = ("loop_timeout", "udo_timeout", "udo_package_path")
"""Options that errors of children name."""
_AHEAD = 2
"""Chunks that wait on disk for each child."""
_SECONDS = 3600.0
"""Seconds that a sample may take, and that a child may take to open the model."""
Chunk = tuple[ModelStatistics, ModelStatistics, IO[bytes]]
"""Statistics of the samples, those of the held-out ones apart, and a file of the values that are wanted."""


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
        "spelled": {name: spell(name) for name in _NAMED},
    }
    with ExitStack() as stack:
        with temporary_files():
            folder = stack.enter_context(TemporaryFolder())
        path = Path(folder) / "model.dlc"
        records = {name: data for name, data in model.records.items() if name.startswith(OWN)}
        Model(dict(model.graphs), records=records).save(path, crc=False)
        team = _Team({"model": str(path), **request}, jobs, stack)
        waiting: deque[Future[Chunk]] = deque()
        left, sent, done = iter(samples), 0, 0
        while True:
            while len(waiting) < _AHEAD * jobs and (piece := list(islice(left, chunk))):
                waiting.append(team.send(sent, piece))
                sent += len(piece)
            if not waiting:
                return
            rest, held_out, values = waiting.popleft().result()
            with values:  # one sample at a time, for the chunks that wait may be larger than memory
                for sample in stored_samples(values):
                    if give is not None:
                        give(done, sample)
                    done += 1
                    if progress is not None:
                        progress(done)
            yield rest, held_out


class _Team:
    """Children, started when there is work for them; they end with the stack."""

    def __init__(self, opening: dict[str, Any], size: int, stack: ExitStack) -> None:
        self._opening, self._left, self._stack = opening, size, stack
        self._idle: queue.SimpleQueue[Process] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(size)
        stack.callback(self._pool.shutdown, cancel_futures=True)

    def send(self, first: int, samples: Sequence[Sample]) -> Future[Chunk]:
        """Have a child measure a chunk, whose first sample has a number."""
        file, values = (self._stack.enter_context(temporary_file()) for _ in range(2))
        with temporary_files():
            write_samples(file, samples)
        if self._left:
            self._left -= 1
            process = Process(SERVICE)
            self._stack.callback(process.end)
            self._idle.put(process)
        return self._pool.submit(self._measure, first, len(samples), file, values)

    def _measure(self, first: int, count: int, samples: IO[bytes], values: IO[bytes]) -> Chunk:
        process = self._idle.get()
        try:
            with samples, temporary_file() as rest, temporary_file() as held:
                files = [file.fileno() for file in (samples, rest, held, values)]
                request = {"do": "measure", "first": first, **self._opening}
                process.ask(request, files, timeout=_SECONDS * (1 + count))
                return ModelStatistics.load(rest), ModelStatistics.load(held), values
        except ChildDiedError as death:
            raise BackendError(
                f"a process that runs calibration samples {death.how}{death.tail}",
                where="calibration",
                fix=f"run with {spell('jobs', 1)}, which uses the least memory, and check the samples",
            ) from death
        finally:
            self._idle.put(process)


def commands() -> dict[str, Any]:
    """Return what the process does by request."""
    watch_memory()
    return {"measure": _Calibration().measure}


class _Calibration:
    """The model, opened with the first chunk."""

    def __init__(self) -> None:
        self._meter: Meter | None = None
        self._stack = ExitStack()

    def measure(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Measure the samples of the first file; store results in the others."""
        with ExitStack() as opened:
            samples, *targets, results = (opened.enter_context(open(file, "r+b")) for file in files)
            opened.enter_context(spelling(lambda name, _: str(request["spelled"].get(name, name))))
            if self._meter is None:
                self._meter = _meter(request, self._stack)
            values: dict[int, Mapping[str, Array]] = {}
            measured = self._meter.measure(stored_samples(samples), request["first"], values.__setitem__)
            with temporary_files():
                for statistics, target in zip(measured, targets, strict=True):
                    statistics.save(target)
                write_samples(results, list(values.values()))
                opened.close()
        return {}


def _meter(request: dict[str, Any], stack: ExitStack) -> Meter:
    model = load(request["model"])
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
