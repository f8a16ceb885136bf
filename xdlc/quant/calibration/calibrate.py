"""Calibration: ranges, histograms and means of activations over samples, in one streaming pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from xdlc.errors import UsageError
from xdlc.ir import Model, Tensor
from xdlc.quant.calibration.session import Give, Meter, Watch, keys_of
from xdlc.quant.calibration.statistics import ModelStatistics, Statistics
from xdlc.quant.calibration.worker import measure_in_processes
from xdlc.quant.kernels import KernelSource
from xdlc.quant.range_methods import Grid
from xdlc.quant.ranges import Range
from xdlc.quant.samples import HELD_OUT, Sample
from xdlc.runtime.timeout import OBSERVED

if TYPE_CHECKING:
    import numpy as np

    from xdlc.runtime.udo import Kernels

CHUNK = HELD_OUT
"""Samples that are summed up before they are merged: sums do not depend on who computes which chunk.

The last of them is the one that is held out, so that merging keeps the order of samples.
"""


@dataclass(slots=True, eq=False)
class Calibration:
    """Statistics of activations.

    Attributes:
        found: Statistics of each watched tensor; of no sample if none reached it.
        means: Mean over samples and all axes but the last, float64, of each averaged tensor that a sample has
            reached; without outliers.
        peaks: Statistics of the largest score of each row, by the Softmax input that holds the scores.
        rest: Like ``found`` without the samples held out; the same where none is.
        ranges: Ranges that methods chose by ``found``: many decisions are made in search of the best.
    """

    found: dict[Tensor, Statistics] = field(default_factory=dict)
    means: dict[Tensor, np.ndarray] = field(default_factory=dict)
    peaks: dict[Tensor, Statistics] = field(default_factory=dict)
    rest: dict[Tensor, Statistics] = field(default_factory=dict)
    ranges: dict[tuple[Tensor, str, Grid], Range] = field(default_factory=dict, init=False)


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
        tensors: Activations to watch.
        samples: Arrays by input name; read once, one at a time.
        averaged: Activations to take the mean of each channel of.
        histograms: Whether histograms are wanted.
        outputs: Names of tensors of the main graph whose values are wanted as they are.
        give: Called with the number of each sample and these values.
        jobs: Processes that share the samples; the result does not depend on it.
        progress: Called with the number of samples done.
        kernels: Kernels of UDOs.
        source: Where processes beside this one get them from.
        loop_timeout: Seconds that each loop may take.

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
        raise UsageError(
            "there are no calibration samples",
            where="samples",
            fix="add at least one, in the tools with --input_list LIST; 32 are usual",
        )
    keys = keys_of(model)
    return Calibration(
        {tensor: measured.found.get(keys[tensor], Statistics()) for tensor in tensors},
        {
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
