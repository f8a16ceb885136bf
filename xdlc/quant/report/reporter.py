"""Reporter of a quantization: chooses samples, measures, writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.quant.job import Job
from xdlc.quant.report.measure import Progress, measure
from xdlc.quant.report.model import QuantReport
from xdlc.quant.report.writing import check_path, write
from xdlc.quant.samples import HELD_OUT, Sample, Samples, Source, is_held_out
from xdlc.quant.states import in_order

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels

PathLike = str | os.PathLike[str]


class Reporter:
    """Makes a report of the quantization that it is given to as ``report=``.

    Args:
        path: Where to write the report, ``.html``, ``.json`` or ``.csv``; None: nowhere, see ``result``.
        samples: Samples to measure with, none of them used to calibrate, as
            :func:`~xdlc.quant.samples.read_samples` takes them; default: every fifth of the calibration
            samples, measured under the ranges of the others.
        most: Most samples that are measured; of large networks it may be fewer.
        trials: Most tensors and weights to quantize alone; default: what a bounded amount of work allows.
        progress: Called with the number of runs done and of all.

    Attributes:
        result: The report, after the quantization.

    Raises:
        UsageError: If the path has another suffix, or a number makes no sense.
    """

    def __init__(
        self,
        path: PathLike | None = None,
        samples: Source | None = None,
        *,
        most: int = 32,
        trials: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if most < 1 or (trials is not None and trials < 0):
            raise UsageError(
                f"most={most}, trials={trials}",
                where="report",
                fix="measure at least one, and try none or more",
            )
        if path is not None:
            check_path(path)
        self.result: QuantReport | None = None
        self._path, self._samples = path, samples
        self._most, self._trials, self._progress = most, trials, progress
        self._given: Samples | None = None
        self._own: Iterator[Sample] = iter(())

    @property
    def reads_again(self) -> bool:
        """Whether calibration samples are read once more for the report."""
        return self._samples is None

    def begin(self, samples: Samples, model: Model, kernels: Kernels | None) -> None:
        """Take the calibration samples, and look at the first of the reporter's own before the work begins.

        Raises:
            UsageError: If the reporter's own samples do not fit the graph.
        """
        self._given = samples
        if self._samples is None:
            return
        source = iter(in_order(self._samples, model, kernels))
        first = next(source, None)
        if first is None:
            raise UsageError("no held-out samples were given", where="report", fix="give at least one sample")
        _check(first, model.main)
        self._own = chain([first], source)

    def finish(self, job: Job) -> None:
        """Measure a decided job, and write the report.

        Raises:
            UsageError: If a sample does not fit the inputs, or there is none.
            StorageError: If the file cannot be written.
        """
        held_out = self._samples is None and job.holds_out
        made = measure(
            job, self._chosen(job), held_out=held_out, trials=self._trials, progress=self._progress
        )
        if self._samples is None and not held_out:
            note = (
                f"measured with calibration samples: fewer than {HELD_OUT} were given, so none was held out"
            )
            made = replace(made, unmeasured=(*made.unmeasured, note))
        self.result = made
        if self._path is not None:
            write(self.result, self._path)

    def _chosen(self, job: Job) -> Iterable[Sample]:
        if self._samples is not None or self._given is None:
            return islice(self._own, self._most)
        given = enumerate(self._given)
        return islice((sample for n, sample in given if is_held_out(n) or not job.holds_out), self._most)


def _check(sample: Sample, graph: Graph) -> None:
    from xdlc.runtime.cpu import feed

    for tensor in graph.inputs:
        place = f"held-out sample 0: input {tensor.name!r}"
        if tensor.name not in sample:
            raise UsageError(
                "is missing", where=place, fix=f"give an array of shape {list(tensor.shape)}, {tensor.dtype}"
            )
        try:
            feed(tensor, sample[tensor.name])
        except UsageError as error:
            error.where = place
            raise
