"""A report on its way along a quantization: holds samples out, measures, writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from xdlc.errors import UsageError
from xdlc.ir import Graph
from xdlc.quant.job import Job
from xdlc.quant.report.measure import Progress, measure
from xdlc.quant.report.model import QuantReport
from xdlc.quant.report.write import check_path, write
from xdlc.quant.samples import Sample, Samples, Source, read_samples

PathLike = str | os.PathLike[str]


class Reporter:
    """Makes a report of the quantization that it is given to as ``report=``.

    Args:
        path: Where to write the report, ``.html``, ``.json`` or ``.csv``; None: nowhere, see ``result``.
        samples: Samples to measure with, none of them used to calibrate, as
            :func:`~xdlc.quant.samples.read_samples` takes them; default: some of the calibration samples
            are held out.
        every: How many samples are calibrated with for each that is held out, and one more.
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
        every: int = 5,
        most: int = 32,
        trials: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if every < 2 or most < 1 or (trials is not None and trials < 0):
            raise UsageError(
                f"every={every}, most={most}, trials={trials}",
                where="report",
                fix="hold out every second sample or fewer, measure at least one, and try none or more",
            )
        if path is not None:
            check_path(path)
        self.result: QuantReport | None = None
        self._path, self._samples = path, samples
        self._every, self._most, self._trials, self._progress = every, most, trials, progress
        self._given: Samples | None = None
        self._own: Iterator[Sample] = iter(())

    @property
    def reads_again(self) -> bool:
        """Whether calibration samples are read once more for the report."""
        return self._samples is None

    def calibrating(self, samples: Samples, graph: Graph) -> Samples:
        """Return the samples to calibrate with: all but those held out.

        Raises:
            UsageError: If the reporter's own samples do not fit the graph; looked for before the work begins.
        """
        self._given = samples
        if self._samples is None:
            return Samples(_Part(samples, self._every, held_out=False))
        source = iter(read_samples(self._samples, graph))
        first = next(source, None)
        if first is None:
            raise UsageError("no held-out samples were given", where="report", fix="give at least one sample")
        _check(first, graph)
        self._own = chain([first], source)
        return samples

    def finish(self, job: Job) -> None:
        """Measure a decided job, and write the report.

        Raises:
            UsageError: If a sample does not fit the inputs, or there is none.
            StorageError: If the file cannot be written.
        """
        chosen, note = self._held_out()
        made = measure(job, chosen, trials=self._trials, progress=self._progress)
        self.result = made if note is None else replace(made, unmeasured=(*made.unmeasured, note))
        if self._path is not None:
            write(self.result, self._path)

    def _held_out(self) -> tuple[Iterable[Sample], str | None]:
        if self._samples is not None or self._given is None:
            return islice(self._own, self._most), None
        part = _Part(self._given, self._every, held_out=True)
        if any(True for _ in part):
            return islice(part, self._most), None
        note = f"measured with calibration samples: fewer than {self._every} were given, so none was held out"
        return self._given.first(self._most), note


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


class _Part:
    """Those of some samples that are held out, or those that are not; can be read again."""

    def __init__(self, samples: Samples, every: int, *, held_out: bool) -> None:
        self._samples, self._every, self._held_out = samples, every, held_out

    def __iter__(self) -> Iterator[Sample]:
        for index, sample in enumerate(self._samples):
            if (index % self._every == self._every - 1) is self._held_out:
                yield sample
