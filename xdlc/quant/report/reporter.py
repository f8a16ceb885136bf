"""Reporter of a quantization: chooses samples, measures, writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.quant.remedies import Remedies
from xdlc.quant.report.measure import Progress, measure
from xdlc.quant.report.model import QuantReport
from xdlc.quant.report.writing import check_path, write
from xdlc.quant.samples import HELD_OUT, Sample, Samples, Source, is_held_out

PathLike = str | os.PathLike[str]


class Reporter:
    """Makes a report of the quantization that it is given to as ``report=``.

    Args:
        path: Where to write the report, ``.html``, ``.json`` or ``.csv``; None: nowhere, see ``result``.
        samples: Samples to measure with, none of them used to calibrate, as
            :func:`~xdlc.quant.samples.read_samples` takes them; default: ``report_list``, or every fifth of
            the calibration samples, measured under the ranges of the others.
        most: Most samples that are measured; of large networks it may be fewer.
        trials: Most tensors and weights to quantize alone; default: what a bounded amount of work allows.
        title: Name of the network in the report; default: the file that it was converted from.

    Attributes:
        result: The report, after the quantization.
        samples: The argument.

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
        title: str = "",
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
        self._path, self.samples = path, samples
        self._most, self._trials, self._progress = most, trials, progress
        self._title = title
        self._given: Iterable[Sample] = ()
        self._is_own = False

    def begin(self, samples: Samples, *, is_own: bool) -> None:
        """Take the samples to measure with.

        Args:
            samples: Those of calibration, or ones that have not calibrated.
            is_own: Whether they are the latter.
        """
        self._given, self._is_own = samples, is_own

    def finish(self, remedies: Remedies, command: Sequence[str]) -> None:
        """Measure a decided plan, and write the report.

        Args:
            remedies: What may help outputs, with the plan and its calibration.
            command: The command line that advice adds options to; empty: the API was called.

        Raises:
            UsageError: If a sample does not fit the inputs, or there is none.
            StorageError: If the file cannot be written.
        """
        holds_out = remedies.calibration.holds_out
        held_out = not self._is_own and holds_out
        made = measure(
            remedies,
            self._chosen(holds_out),
            held_out=held_out,
            command=command,
            trials=self._trials,
            progress=self._progress,
        )
        if not self._is_own and not held_out:
            note = (
                f"measured with calibration samples: fewer than {HELD_OUT} were given, so none was held out"
            )
            made = replace(made, unmeasured=(*made.unmeasured, note))
        self.result = replace(made, model=self._title or _source_of(remedies.plan.model) or made.model)
        if self._path is not None:
            write(self.result, self._path)

    def _chosen(self, holds_out: bool) -> Iterable[Sample]:
        takes_all = self._is_own or not holds_out
        given = enumerate(self._given)
        return islice((sample for number, sample in given if takes_all or is_held_out(number)), self._most)


def _source_of(model: Model) -> str:
    """Return the name of the file that a model was converted from; empty: it is not known."""
    steps = model.metadata.get("history", ())
    named = [
        str(step["args"].get("input_network", "")) for step in steps if isinstance(step.get("args"), dict)
    ]
    return Path(next(filter(None, named), "")).name
