"""Calibration: ranges, histograms and means of activations over samples.

Each sample runs once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Tensor
from xdlc.ir.data import Array
from xdlc.options.quantizing import OutputKind
from xdlc.quant.attention_masks import add_peaks
from xdlc.quant.calibration.statistics import ModelStatistics, Statistics
from xdlc.quant.calibration.worker import Give, Meter, Watch, keys_of, measure_by_workers
from xdlc.quant.engine import Engine
from xdlc.quant.judge import OutputJudge, Part, judged, parts_of_outputs
from xdlc.quant.range_methods import Grid, find_range_method
from xdlc.quant.ranges import Range
from xdlc.quant.samples import HELD_OUT, Sample, Samples, is_held_out, run_sample
from xdlc.runtime.cpu import array_of
from xdlc.runtime.engine import give_back

if TYPE_CHECKING:
    from xdlc.quant.plan import Plan
    from xdlc.quant.sample_faults import Fault
    from xdlc.quant.sample_summary import SampleSummary


CHUNK = HELD_OUT
"""Samples that are summed up before they are merged: sums do not depend on who computes which chunk.

The last of them is the one that is held out, so that merging keeps the order of samples.
"""


MOST_HELD_OUT = 24
"""Samples that are measured: enough to judge classes by (``verdicts.LEAST_ROWS``)."""

SAMPLE_BYTES = 32 << 20
"""Most bytes of kept samples, what the float model makes of them included."""


@dataclass(slots=True)
class KeptSample:
    """A sample, and the values that the float model computes from it.

    Attributes:
        number: Its number among all samples.
        sample: Arrays by input name, copies.
        floats: Values of the float model by tensor name; empty until they are given.
    """

    number: int
    sample: Sample
    floats: Mapping[str, Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.sample.values(), *self.floats.values()))


class Spread:
    """Keeps every n-th sample; n doubles as samples arrive.

    Args:
        most_bytes: Most bytes of what is kept; the first sample is kept whatever its size.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._stride = 1
        self.kept: list[KeptSample] = []
        self.count = 0

    def add(self, number: int, sample: Sample) -> None:
        """Count a sample; keep every n-th.

        Args:
            number: Its number among all samples, of which some may not be added.
        """
        if self.count % self._stride == 0:
            self.kept.append(
                KeptSample(number, {name: np.array(array_of(array)) for name, array in sample.items()})
            )
            self._thin()
        self.count += 1

    def give(self, number: int, floats: Mapping[str, Array]) -> None:
        """Add the float model's values to a kept sample."""
        for kept in self.kept:
            if kept.number == number:
                kept.floats = floats
                self._thin()
                return

    def evenly(self, most: int) -> list[KeptSample]:
        """Return at most ``most`` kept samples, evenly distributed.

        Args:
            most: At least two.
        """
        last = len(self.kept) - 1
        if last < most:
            return self.kept
        return [self.kept[place * last // (most - 1)] for place in range(most)]

    def _thin(self) -> None:
        while len(self.kept) > 1 and self._is_too_much():
            self.kept, self._stride = self.kept[::2], self._stride * 2

    def _is_too_much(self) -> bool:
        return len(self.kept) > self._most or sum(kept.nbytes for kept in self.kept) > self._most_bytes


@dataclass(eq=False)
class Calibration:
    """Statistics of activations, and the samples that outputs are measured with.

    Attributes:
        samples: The samples, which can be read again.
        statistics: Statistics of each watched tensor; of no sample if none reached it.
        means: Mean over samples and all axes but the last, float64, of each averaged tensor that a sample has
            reached; without outliers.
        peaks: Statistics of the largest score of each row, by the Softmax input that holds the scores.
        rest: Like ``statistics`` without the samples held out; the same where none is.
        measured: Samples to measure outputs with: those held out, or all where these are too few.
        holds_out: Whether samples are held out, to be measured under the ranges of the others.
        has_own_list: Whether ``measured`` are samples of the user's that did not calibrate.
        compared: Samples that the range method is chosen by.
        problems: What is wrong with the samples: no bits repair that.
        ranges: Ranges that methods chose by ``statistics``: many decisions are made in search of the best.
    """

    samples: Samples = field(default_factory=lambda: Samples(()))
    statistics: dict[Tensor, Statistics] = field(default_factory=dict)
    means: dict[Tensor, np.ndarray] = field(default_factory=dict)
    peaks: dict[Tensor, Statistics] = field(default_factory=dict)
    rest: dict[Tensor, Statistics] = field(default_factory=dict)
    measured: list[KeptSample] = field(default_factory=list)
    holds_out: bool = False
    has_own_list: bool = False
    compared: list[KeptSample] = field(default_factory=list)
    problems: list[Fault] = field(default_factory=list)
    ranges: dict[tuple[Tensor, str, Grid], Range] = field(default_factory=dict, init=False)
    _parts: list[Part] = field(default_factory=list, init=False)

    @property
    def without_held_out(self) -> Calibration:
        """The calibration without held-out samples, or itself if it has none."""
        return self._rest if self.holds_out and not self.has_own_list else self

    @cached_property
    def _rest(self) -> Calibration:
        return replace(self, statistics=self.rest)

    @property
    def doubt(self) -> str:
        """Why figures of these samples tell nothing; empty: they are fit to judge by."""
        return "" if self.has_own_list or not self.problems else self.problems[0].text

    def judge(
        self, graph: Graph, kinds: Mapping[str, str], samples: Sequence[KeptSample] | None = None
    ) -> OutputJudge:
        """Return the judge of quantized models by some samples.

        Args:
            kinds: The kinds of outputs that the user stated, by name.
            samples: Samples with what the float model makes of them; default: those to measure with.
        """
        kept = self.measured if samples is None else samples
        if not self._parts:  # once, for kinds are inferred from values
            floats = [sample.floats for sample in self.measured or kept]
            stated = {name: OutputKind(kind) for name, kind in kinds.items()}
            self._parts = parts_of_outputs(graph, floats, stated)
        return OutputJudge(self._parts, [sample.floats for sample in kept])


def calibrate(
    model: Model,
    watch: Watch,
    samples: Iterable[Sample],
    engine: Engine,
    give: Give = lambda number, floats: None,
) -> Calibration:
    """Return statistics of activations over all samples of the float model.

    Activations may be those of branches and loop bodies; a sample that does not reach one does not count.

    Minima, maxima and means are those of all values; a histogram is of a part of them, the same part in
    every run.  Memory stays that of a float session, whatever the number of samples.

    Args:
        model: The model to run; encodings it has already are ignored.
        samples: Arrays by input name; read once, one at a time.
        engine: Runs the model; the result does not depend on its workers.
        give: Called with the number of each sample and the values of ``watch.outputs``, in order.

    Raises:
        UsageError: If a sample does not fit the inputs, or there are no samples.
        ModelError: If a value is NaN or infinite; names tensor and sample.
        BackendError: If workers die.
    """
    if engine.workers.are_processes:
        parts = measure_by_workers(model, watch, samples, engine, CHUNK, give)
    else:
        parts = _measure(Meter(model, watch, engine), samples, give)
    measured, rest = ModelStatistics(), ModelStatistics()
    for part, held_out in parts:
        measured, rest = measured.merge(part).merge(held_out), rest.merge(part)
    if not measured.count:
        shapes = {tensor.name: (8, *tensor.shape) for tensor in model.main.inputs}
        draw = ", ".join(f"{name!r}: np.random.rand{shape}" for name, shape in shapes.items())
        fix = "pass 32 samples or more: quantize -l samples.txt, each line a path like data/0.raw. To try, "
        fix += f"draw samples for -l samples.npz: import numpy as np; np.savez('samples.npz', **{{{draw}}})"
        raise UsageError("the list of samples is empty", fix=fix, code="XD205")
    keys = keys_of(model)
    return Calibration(
        statistics={tensor: measured.statistics.get(keys[tensor], Statistics()) for tensor in watch.tensors},
        means={
            tensor: measured.means[keys[tensor]].clipped
            for tensor in watch.averaged
            if keys[tensor] in measured.means
        },
        rest={tensor: rest.statistics.get(keys[tensor], Statistics()) for tensor in watch.tensors},
    )


def _measure(
    meter: Meter, samples: Iterable[Sample], give: Give
) -> Iterator[tuple[ModelStatistics, ModelStatistics]]:
    left, done = iter(samples), 0
    for first in left:
        measured = meter.measure(chain((first,), islice(left, CHUNK - 1)), done, give)
        done += sum(part.count for part in measured)
        yield measured


COMPARED = 16
"""Most samples that the range method can be chosen by."""


def calibrated(
    plan: Plan, samples: Samples, engine: Engine, summary: SampleSummary | None = None
) -> Calibration:
    """Return the calibration of a plan: the float model is run on all samples.

    Args:
        summary: Counts the samples too.

    Raises:
        UsageError: If there are no samples, or one does not fit the inputs.
        ModelError: If a value is NaN or infinite; names tensor and sample.
    """
    method = find_range_method(plan.options.act_quantizer_calibration)
    chooses = method.needs_network and plan.placement.has_free_bytes
    compared = Spread(COMPARED, SAMPLE_BYTES)
    first, held_out = (Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES) for _ in range(2))

    def watched() -> Iterator[Sample]:
        for number, sample in enumerate(samples):
            if summary is not None:
                summary.add(number, sample)
            if chooses:
                compared.add(number, sample)
            if number < HELD_OUT - 1:
                first.add(number, sample)
            if is_held_out(number):
                held_out.add(number, sample)
                first.kept.clear()
            yield sample

    def give(number: int, floats: Mapping[str, Array]) -> None:
        for spread in (compared, first, held_out):
            spread.give(number, floats)
        engine.report("calibrating", number + 1, samples.count)

    outputs = judged(plan.graph)
    marks = [(part.graph, part.graph.mark()) for part in plan.parts]
    peaks = {}
    for part in plan.parts:
        peaks.update(add_peaks(part.graph, part.masks))
    try:
        watch = Watch(
            [*(tensor for part in plan.parts for tensor in part.watched), *peaks.values()],
            averaged=[tensor for part in plan.parts for tensor in part.averaged],
            histograms=method.histogram and (chooses or not method.needs_network),
            outputs=outputs,
        )
        calibration = calibrate(plan.model, watch, watched(), engine, give)
    finally:
        for graph, mark in marks:
            graph.retract(mark)
    give_back()
    calibration.peaks = {scores: calibration.statistics.pop(peak) for scores, peak in peaks.items()}
    for peak in peaks.values():
        del calibration.rest[peak]
    _merge_derived(plan, calibration)
    calibration.samples, calibration.compared = samples, compared.kept
    calibration.holds_out = bool(held_out.kept)
    calibration.measured = held_out.evenly(MOST_HELD_OUT) or first.kept
    return calibration


def _merge_derived(plan: Plan, calibration: Calibration) -> None:
    """Add statistics of tensors with the same values as measured tensors.

    Under other widths they may be groups of their own.
    """
    groups = plan.main.groups
    for tensor in groups.derived:
        for known in (calibration.statistics, calibration.rest):
            merged = [known[member] for member in groups.members(tensor) if member in known]
            if merged and tensor not in known:
                known[tensor] = reduce(Statistics.merge, merged)


def measure_with(plan: Plan, calibration: Calibration, samples: Iterable[Sample], engine: Engine) -> None:
    """Measure outputs with separate samples instead of held-out ones.

    Raises:
        UsageError: If a sample does not fit the inputs, or holds NaN or infinite values.
    """
    spread = Spread(2 * MOST_HELD_OUT, SAMPLE_BYTES)
    session = engine.session(plan.model, quantized=False, outputs=judged(plan.graph))
    for number, sample in enumerate(samples):
        spread.add(number, sample)
    calibration.measured, calibration.has_own_list = spread.evenly(MOST_HELD_OUT), True
    for kept in calibration.measured:
        place = f"held-out sample {kept.number}"
        kept.floats = run_sample(session, kept.sample, place)
        for name, array in kept.sample.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                fix = "remove the sample, or correct the preprocessing of the sample"
                raise UsageError("holds NaN or infinite values", where=f"{place}, {name!r}", fix=fix)
