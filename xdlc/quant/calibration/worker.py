"""Measurement of the float model's activations, in this process or by workers.

Chunks of samples go to workers, statistics come back in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import numpy as np

from xdlc.container import load
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import Model, Tensor
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
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
from xdlc.quant.samples import Sample, is_held_out, plain, run_sample
from xdlc.worker.tasks import Task, kept_open
from xdlc.worker.temporary import TemporaryFolder

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


OWN = "xdlc."
"""Prefix of the names of our records, of definitions and kernels of UDOs too."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What a worker measures, and how; see ``Watch``."""

    tensors: tuple[Key, ...]
    averaged: tuple[Key, ...]
    histograms: bool
    outputs: tuple[str, ...]
    threads: int | None
    kernels: KernelSource
    loop_timeout: float

    def meter(self, model: Model, stack: ExitStack) -> Meter:
        """Return the meter of a model; its kernels are open until the stack closes."""
        tensors, averaged = (
            [model.graphs[graph].tensors[name] for graph, name in keys]
            for keys in (self.tensors, self.averaged)
        )
        watch = Watch(tensors, averaged, self.histograms, self.outputs)
        engine = Engine(
            stack.enter_context(self.kernels.opened(model, needed=True)), loop_timeout=self.loop_timeout
        )
        return Meter(model, watch, engine, threads=self.threads)


def measure_by_workers(
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
        engine: Has the workers, each of which opens the kernels itself.
        chunk: Samples of a chunk.
        give: Called with the number of each sample and the values of ``watch.outputs``.

    Raises:
        XdlcError: What a worker reports.
        BackendError: If workers die.
    """
    workers = engine.sharing
    with ExitStack() as stack:
        if workers.are_processes:
            path = Path(stack.enter_context(TemporaryFolder())) / "model.dlc"
            records = {name: data for name, data in model.records.items() if name.startswith(OWN)}
            Model(dict(model.graphs), records=records).save(path, crc=False)
            task = partial(_at_worker, workers.parcel(path), _request(model, watch, engine))
        else:
            task = partial(_Meters(lambda: Meter(model, watch, engine, threads=workers.threads)).measured)

        def tasks() -> Iterator[Task]:
            left, first = iter(samples), 0
            while piece := [plain(sample) for sample in islice(left, chunk)]:
                yield partial(task, first, piece)
                first += len(piece)

        done = 0
        for statistics, values in workers.in_order(tasks(), "calibration"):
            for sample in values:
                give(done, sample)
                done += 1
            yield statistics


def _request(model: Model, watch: Watch, engine: Engine) -> _Request:
    keys = keys_of(model)
    return _Request(
        tuple(keys[tensor] for tensor in watch.tensors),
        tuple(keys[tensor] for tensor in watch.averaged),
        watch.histograms,
        tuple(watch.outputs),
        engine.sharing.threads,
        engine.source,
        engine.loop_timeout,
    )


Measured: TypeAlias = tuple[tuple[ModelStatistics, ModelStatistics], list[Mapping[str, Array]]]
"""Statistics of a chunk of samples, and the values that are wanted of each sample."""


class _Meters:
    """Meters of this process, one for each thread that measures."""

    def __init__(self, make: Callable[[], Meter]) -> None:
        self._make, self._lock = make, Lock()
        self._idle: list[Meter] = []

    def measured(self, first: int, samples: Sequence[Sample]) -> Measured:
        """Measure a chunk of samples, whose first one has a number."""
        with self._lock:
            meter = self._idle.pop() if self._idle else self._make()
        measured = _measured(meter, first, samples)
        self._idle.append(meter)
        return measured


def _at_worker(path: Path, request: _Request, first: int, samples: Sequence[Sample]) -> Measured:
    with kept_open(path, request, lambda stack: request.meter(load(path), stack)) as meter:
        return _measured(meter, first, samples)


def _measured(meter: Meter, first: int, samples: Sequence[Sample]) -> Measured:
    values: dict[int, Mapping[str, Array]] = {}
    statistics = meter.measure(samples, first, values.__setitem__)
    return statistics, list(values.values())
