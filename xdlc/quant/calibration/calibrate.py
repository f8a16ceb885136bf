"""Calibration: ranges, histograms and means of activations over samples, in one streaming pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model, Tensor
from xdlc.options import spell
from xdlc.quant.calibration.session import Give, Meter, Watch, keys_of
from xdlc.quant.calibration.statistics import ModelStatistics, Statistics
from xdlc.quant.calibration.worker import measure_in_processes
from xdlc.quant.engine import KernelSource
from xdlc.quant.judge import OutputJudge, Part, parts_of_outputs
from xdlc.quant.kind_inference import OutputKind
from xdlc.quant.range_methods import Grid
from xdlc.quant.ranges import Range
from xdlc.quant.samples import HELD_OUT, KeptSample, Sample, Samples
from xdlc.runtime.timeout import OBSERVED

if TYPE_CHECKING:
    import numpy as np

    from xdlc.runtime.udo import Kernels

CHUNK = HELD_OUT
"""Samples that are summed up before they are merged: sums do not depend on who computes which chunk.

The last of them is the one that is held out, so that merging keeps the order of samples.
"""


@dataclass(eq=False)
class Calibration:
    """Statistics of activations, and the samples that outputs are measured with.

    Attributes:
        samples: The samples, which can be read again.
        found: Statistics of each watched tensor; of no sample if none reached it.
        means: Mean over samples and all axes but the last, float64, of each averaged tensor that a sample has
            reached; without outliers.
        peaks: Statistics of the largest score of each row, by the Softmax input that holds the scores.
        rest: Like ``found`` without the samples held out; the same where none is.
        measured: Samples to measure outputs with: those held out, or all where these are too few.
        holds_out: Whether samples are held out, to be measured under the ranges of the others.
        has_own_list: Whether ``measured`` are samples of the user's that did not calibrate.
        compared: Samples that the range method is chosen by.
        problems: What is wrong with the samples, one line each: no bits repair that.
        ranges: Ranges that methods chose by ``found``: many decisions are made in search of the best.
    """

    samples: Samples = field(default_factory=lambda: Samples(()))
    found: dict[Tensor, Statistics] = field(default_factory=dict)
    means: dict[Tensor, np.ndarray] = field(default_factory=dict)
    peaks: dict[Tensor, Statistics] = field(default_factory=dict)
    rest: dict[Tensor, Statistics] = field(default_factory=dict)
    measured: list[KeptSample] = field(default_factory=list)
    holds_out: bool = False
    has_own_list: bool = False
    compared: list[KeptSample] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ranges: dict[tuple[Tensor, str, Grid], Range] = field(default_factory=dict, init=False)
    _parts: list[Part] = field(default_factory=list, init=False)

    @property
    def without_held_out(self) -> Calibration:
        """The calibration by the samples that are not held out; itself if none is held out."""
        return self._rest if self.holds_out and not self.has_own_list else self

    @cached_property
    def _rest(self) -> Calibration:
        return replace(self, found=self.rest)

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
    tensors: Sequence[Tensor],
    samples: Iterable[Sample],
    *,
    averaged: Sequence[Tensor] = (),
    histograms: bool = False,
    outputs: Sequence[str] = (),
    give: Give | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    kernels: Kernels | None = None,
    source: KernelSource | None = None,
    loop_timeout: float = OBSERVED,
) -> Calibration:
    """Return statistics of activations over all samples of the float model.

    Activations may be those of branches and loop bodies; a sample that does not reach one does not count.

    Minima, maxima and means are those of all values; a histogram is of a part of them, the same part in
    every run.  Memory stays that of a float session, whatever the number of samples.

    Args:
        model: The model to run; encodings it has already are ignored.
        samples: Arrays by input name; read once, one at a time.
        outputs: Names of tensors of the main graph whose values are wanted as they are.
        give: Called with the number of each sample and these values.
        jobs: Processes that share the samples; the result does not depend on it.
        source: Where processes beside this one get them from.

    Raises:
        UsageError: If a sample does not fit the inputs, or there is none.
        ModelError: If a value is NaN or infinite; names tensor and sample.
        BackendError: If a process dies.
    """
    watch = Watch(tensors, averaged, histograms, outputs)
    if jobs > 1:
        parts = measure_in_processes(
            model,
            watch,
            samples,
            give=give,
            jobs=jobs,
            chunk=CHUNK,
            progress=progress,
            source=source or KernelSource(),
            loop_timeout=loop_timeout,
        )
    else:
        parts = _measure(
            Meter(model, watch, kernels=kernels, loop_timeout=loop_timeout), samples, give, progress
        )
    measured, rest = ModelStatistics(), ModelStatistics()
    for part, held in parts:
        measured, rest = measured.merge(part).merge(held), rest.merge(part)
    if not measured.count:
        fix = "add at least one; 32 are usual"
        raise UsageError("there are no calibration samples", where=spell("samples"), fix=fix)
    keys = keys_of(model)
    return Calibration(
        found={tensor: measured.found.get(keys[tensor], Statistics()) for tensor in tensors},
        means={
            tensor: measured.means[keys[tensor]].clipped
            for tensor in averaged
            if keys[tensor] in measured.means
        },
        rest={tensor: rest.found.get(keys[tensor], Statistics()) for tensor in tensors},
    )


def _measure(
    meter: Meter, samples: Iterable[Sample], give: Give | None, progress: Callable[[int], None] | None
) -> Iterator[tuple[ModelStatistics, ModelStatistics]]:
    left, done = iter(samples), 0
    for first in left:
        measured = meter.measure(chain((first,), islice(left, CHUNK - 1)), done, give, progress)
        done += sum(part.count for part in measured)
        yield measured
