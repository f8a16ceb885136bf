"""Reporter of a quantization: chooses samples, measures, writes HTML, JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from xdlc.errors import StorageError, UsageError
from xdlc.ir import Model
from xdlc.ir.files import csv_text, replace_text
from xdlc.options import spell
from xdlc.quant.advice import Remedies
from xdlc.quant.report.measure import Progress, measure
from xdlc.quant.report.model import CLIP_WARN, QuantReport, TensorReport
from xdlc.quant.report.summary import advice, printable, summary
from xdlc.quant.samples import HELD_OUT, Sample, Samples, Source, is_held_out

COLUMNS = tuple(held.name for held in fields(TensorReport) if held.name not in ("histogram", "channels"))
_ESCAPED = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}
PathLike = str | os.PathLike[str]


def as_csv(report: QuantReport) -> str:
    """Return the tensors of the report as CSV text with a line of column names."""
    found = [[tensor[column] for column in COLUMNS] for tensor in report.as_json()["tensors"]]
    return csv_text([COLUMNS, *([_cell(value) for value in row] for row in found)])


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value


def as_json(report: QuantReport) -> str:
    """Return the report as JSON text in ASCII, ``schema`` first."""
    return json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n"


def as_html(report: QuantReport) -> str:
    """Return the report as the text of an HTML page."""
    style, script = _part("page.css"), _part("page.js")
    figures = {
        **report.as_json(),
        "advice": list(advice(report)),
        "clip_warn": CLIP_WARN,
        "reached": report.reached,
    }
    data = json.dumps(figures, separators=(",", ":"), allow_nan=False).translate(_ESCAPED)
    title = f"Quantization report: {report.model}"
    fields = {
        "TITLE": html.escape(printable(title)),
        "SUMMARY": html.escape("\n".join(summary(report))),
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "DATA": data,
    }
    # In one pass, so that nothing is looked for in what was put in.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: fields[match[1]], _part("page.html"))


def _part(name: str) -> str:
    return (resources.files("xdlc.quant.report") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


FORMS: dict[str, Callable[[QuantReport], str]] = {".html": as_html, ".json": as_json, ".csv": as_csv}
"""Text of a report by suffix."""


def check_path(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a report's path, after a look at whether the path can be one.

    Raises:
        UsageError: If no form has the suffix.
        StorageError: If there is no such folder.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMS:
        raise UsageError(
            f"no report has the suffix {suffix!r}",
            where=os.fspath(path),
            fix=f"name a file that ends in {', '.join(FORMS)}",
        )
    if not Path(path).parent.is_dir():
        raise StorageError(
            "cannot be written: there is no such folder", where=os.fspath(path), fix="make the folder first"
        )
    return suffix


def write(report: QuantReport, path: str | os.PathLike[str]) -> None:
    """Write a report as HTML, JSON or CSV, by the suffix; an old file is replaced as a whole or not at all.

    Raises:
        UsageError: If the suffix is another, or the path is no file.
        StorageError: If the file cannot be written.
    """
    replace_text(path, FORMS[check_path(path)](report))


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
                where=spell("report"),
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
