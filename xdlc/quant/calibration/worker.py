"""Measurement of the float model's activations, in this process or several.

Chunks of samples go to children, statistics come back in order.  The module is the service of these children,
too: ``commands`` has what they do.
"""

from __future__ import annotations

import math
import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from xdlc.container import load
from xdlc.errors import BackendError, ModelError, UsageError, XdlcError
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.options import spell
from xdlc.quant.calibration.observers import Taps
from xdlc.quant.calibration.statistics import (
    DECAY,
    ChannelMeans,
    Histogram,
    Key,
    ModelStatistics,
    SampleStatistics,
    Statistics,
    spread,
    values_each,
)
from xdlc.quant.engine import Engine, KernelSource
from xdlc.quant.ranges import Range, range_of
from xdlc.quant.samples import Sample, is_held_out, run_sample, stored_samples, write_samples
from xdlc.worker.limits import watch_memory
from xdlc.worker.process import ChildDiedError, Process
from xdlc.worker.temporary import TemporaryFolder, temporary_file, temporary_files

Give: TypeAlias = Callable[[int, Mapping[str, Array]], None]
"""Receives the number of a sample, and values of the float model by tensor name."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Quantities that a calibration measures.

    Attributes:
        tensors: Activations whose statistics are wanted.
        averaged: Activations of which the mean of each channel is wanted.
        outputs: Names of tensors of the main graph whose values are wanted as they are.
    """

    tensors: Sequence[Tensor]
    averaged: Sequence[Tensor] = ()
    histograms: bool = False
    outputs: Sequence[str] = ()


class Meter:
    """A session of the float model that measures activations.

    Args:
        model: The model; encodings that it has already are ignored.
        threads: Threads of one op; default: one per core.

    Raises:
        XdlcError: If the model cannot be run.
    """

    def __init__(self, model: Model, watch: Watch, engine: Engine, *, threads: int | None = None) -> None:
        keys = keys_of(model)
        held = [tensor for tensor in watch.tensors if tensor.size]
        self._given = [tensor for tensor in held if tensor.producer is None]
        self._watched = [tensor for tensor in held if tensor.producer is not None]
        self._keys = [keys[tensor] for tensor in (*self._given, *self._watched)]
        self._limit = values_each(len(held)) if watch.histograms else 0
        watched = self._keys[len(self._given) :]
        self._taps = Taps(watched, [keys[tensor] for tensor in watch.averaged], limit=self._limit)
        self._outputs = watch.outputs
        self._session = engine.session(
            model, quantized=False, outputs=watch.outputs, threads=threads, observer=self._taps
        )

    def measure(
        self, samples: Iterable[Sample], first: int, give: Give
    ) -> tuple[ModelStatistics, ModelStatistics]:
        """Return the statistics of some samples, and those of the held-out ones.

        Args:
            samples: Arrays by input name; few, for values for histograms are kept up to the last one.
            first: Number of the first one among all samples.
            give: Called with the number of each sample and the values of ``outputs``.

        Raises:
            UsageError: If a sample does not fit the inputs.
            ModelError: If a value is NaN or infinite; names tensor and sample.
        """
        rest, held_out = (_ChunkStatistics(self._keys) for _ in range(2))
        for number, sample in enumerate(samples, first):
            results = run_sample(self._session, sample, f"calibration sample {number}")
            (held_out if is_held_out(number) else rest).add(self._read(sample, number))
            give(number, {name: results[name] for name in self._outputs})
        return rest.measured(), held_out.measured()

    def _read(self, sample: Sample, number: int) -> SampleStatistics:
        reading = self._taps.take()
        inputs = [np.asarray(sample[tensor.name]) for tensor in self._given]
        ranges = [range_of(array) for array in inputs]
        reading.lows = np.concatenate([[seen.low for seen in ranges], reading.lows])
        reading.highs = np.concatenate([[seen.high for seen in ranges], reading.highs])
        reading.sums = np.concatenate([reading.lows[: len(inputs)], reading.sums])
        if self._limit:
            reading.values = [*([_part(array, self._limit)] for array in inputs), *reading.values]
        finite = np.isfinite(reading.lows) & np.isfinite(reading.highs) & ~np.isnan(reading.sums)
        finite |= _unreached(reading) & ~np.isnan(reading.sums)
        if not finite.all():
            index = int(np.argmin(finite))
            tensor = [*self._given, *self._watched][index]
            ends = (reading.lows[index], reading.highs[index], reading.sums[index])
            raise _not_finite(tensor, number, *(float(end) for end in ends))
        return reading


class _ChunkStatistics:
    """Statistics of a chunk of samples."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = keys
        self._count = 0
        self._reached = np.zeros(len(keys), np.int64)
        self._low = np.full(len(keys), math.inf)
        self._high = np.full(len(keys), -math.inf)
        self._lows, self._highs = np.zeros(len(keys)), np.zeros(len(keys))
        self._means: dict[Key, ChannelMeans] = {}
        self._values: list[list[list[Array]]] = []

    def add(self, reading: SampleStatistics) -> None:
        reached = ~_unreached(reading)
        self._count += 1
        self._reached += reached
        self._low, self._high = np.minimum(self._low, reading.lows), np.maximum(self._high, reading.highs)
        self._lows = np.where(reached, self._lows * DECAY + reading.lows, self._lows)
        self._highs = np.where(reached, self._highs * DECAY + reading.highs, self._highs)
        for key, mean in reading.means.items():
            each = ChannelMeans.of(mean / reading.runs[key])
            self._means[key] = self._means[key].merge(each) if key in self._means else each
        if reading.values:
            self._values.append(reading.values)

    def measured(self) -> ModelStatistics:
        """Return the statistics in the form that is merged."""
        statistics = {}
        for index, key in enumerate(self._keys):
            parts = [part for values in self._values for part in values[index]]
            statistics[key] = Statistics(
                Range(float(self._low[index]), float(self._high[index])),
                int(self._reached[index]),
                float(self._lows[index]),
                float(self._highs[index]),
                Histogram.of(np.concatenate(parts)) if parts else Histogram(),
            )
        return ModelStatistics(self._count, statistics, self._means)


def keys_of(model: Model) -> dict[Tensor, Key]:
    """Return a unique name of each tensor of a model."""
    return {
        tensor: (graph.name, tensor.name)
        for graph in model.graphs.values()
        for tensor in graph.tensors.values()
    }


def _unreached(reading: SampleStatistics) -> Array:
    """Return for each watched tensor whether no run of the sample has computed it."""
    return reading.lows > reading.highs


def _part(array: Array, limit: int) -> Array:
    """Return the values of an input that go into its histogram."""
    start, stride = spread(array.size, limit)
    return np.asarray(array.reshape(-1)[start::stride], np.float32)


def _not_finite(tensor: Tensor, sample: int, low: float, high: float, total: float) -> XdlcError:
    nan = math.isnan(total) or math.isnan(low) or math.isnan(high)
    what = "NaN" if nan else f"{high if math.isinf(high) else low}"
    place = f"calibration sample {sample}, tensor {tensor.name!r}"
    if tensor.producer is None:
        return UsageError(
            f"holds {what}", where=place, fix="remove the sample, or preprocess it again", code="XD212"
        )
    op = tensor.producer
    kind = f"{op.package}::{op.type}" if is_udo(op) else op.type
    check = f"check the kernel of {kind}, and " if is_udo(op) else "check "
    return ModelError(
        f"the float model computes {what}, and no encoding can hold it",
        where=f"{place} of op {op.name!r} ({kind})",
        fix=f"{check}that samples are preprocessed as the model expects; remove these samples",
        code="XD305",
    )


SERVICE = "xdlc.quant.calibration.worker"
OWN = "xdlc."
"""Prefix of the names of our records, of definitions and kernels of UDOs too."""
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
    engine: Engine,
    chunk: int,
    give: Give,
) -> Iterator[tuple[ModelStatistics, ModelStatistics]]:
    """Yield the statistics of each chunk of samples, in order.

    The second of a pair is of the held-out samples.

    Args:
        engine: Limits the processes, each of which has its share of the cores and opens the kernels itself.
        chunk: Samples of a chunk.
        give: Called with the number of each sample and the values of ``watch.outputs``.

    Raises:
        XdlcError: What a child reports.
        BackendError: If a child dies.
    """
    keys, jobs = keys_of(model), engine.jobs
    request = {
        "tensors": [keys[tensor] for tensor in watch.tensors],
        "averaged": [keys[tensor] for tensor in watch.averaged],
        "histograms": watch.histograms,
        "outputs": list(watch.outputs),
        "threads": max(1, (os.cpu_count() or 1) // jobs),
        "kernels": asdict(engine.source),
        "loop_timeout": engine.loop_timeout,
    }
    with ExitStack() as stack:
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
                    give(done, sample)
                    done += 1
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
                fix=f"run with {spell('jobs', 1)}, which needs the least memory, and check the samples",
            ) from death
        finally:
            self._idle.put(process)


def commands() -> dict[str, Any]:
    """Return the functions of the process by request."""
    watch_memory()
    return {"measure": _Calibration().measure}


class _Calibration:
    """The model, opened with the first chunk."""

    def __init__(self) -> None:
        self._meter: Meter | None = None
        self._stack = ExitStack()

    def measure(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        """Measure the samples of the first file; store results in the other files."""
        with ExitStack() as opened:
            samples, *targets, results = (opened.enter_context(open(file, "r+b")) for file in files)
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
    engine = Engine(kernels, loop_timeout=request["loop_timeout"])
    return Meter(model, watch, engine, threads=request["threads"])
