"""Reporter of a quantization: measures, and writes HTML, JSON, CSV and text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from xdlc.errors import StorageError, UsageError
from xdlc.ir import Model
from xdlc.ir.files import csv_text, replace_text
from xdlc.options import spell
from xdlc.page import fill, printable
from xdlc.page.pictures import network
from xdlc.quant.advice import Advice, Phrase, Remedies
from xdlc.quant.report.measure import Progress, measure
from xdlc.quant.report.model import CLIP_WARN, OpReport, QuantReport, TensorReport
from xdlc.quant.samples import HELD_OUT, Sample, Samples, Source, is_held_out
from xdlc.quant.verdicts import LEAST_ROWS

COLUMNS = tuple(held.name for held in fields(TensorReport) if held.name not in ("histogram", "channels"))
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
    """Return the text of an HTML page with the report."""
    plain = report.as_json()
    figures = {
        **plain,
        "advice": list(advice(report)),
        "clip_warn": CLIP_WARN,
        "reached": report.reached,
        "picture": network(plain, style=False),
    }
    return fill(
        "xdlc.quant.report", figures, kind="Quantization report", name=report.model, summary=summary(report)
    )


def as_svg(report: QuantReport) -> str:
    """Return a picture of where accuracy and bytes go."""
    return network(report.as_json())


FORMS: dict[str, Callable[[QuantReport], str]] = {
    ".html": as_html,
    ".json": as_json,
    ".csv": as_csv,
    ".svg": as_svg,
}
"""Text of a report by suffix."""


def check_path(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a report's path after a check of the path.

    Raises:
        UsageError: If no form has the suffix.
        StorageError: If there is no such folder.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMS:
        raise UsageError(
            f"xdlc writes no report with the suffix {suffix!r}",
            where=os.fspath(path),
            fix=f"name a file that ends in {', '.join(FORMS)}",
        )
    if not Path(path).parent.is_dir():
        raise StorageError(
            "cannot be written: the folder does not exist", where=os.fspath(path), fix="make the folder"
        )
    return suffix


def write(report: QuantReport, path: str | os.PathLike[str]) -> None:
    """Write a report as HTML, JSON or CSV, by the suffix.

    An old file is replaced as a whole or not at all.

    Raises:
        UsageError: If the suffix is another, or the path is not a file.
        StorageError: If the file cannot be written.
    """
    replace_text(path, FORMS[check_path(path)](report))


class Reporter:
    """Makes a report of the quantization that gets it as ``report=``.

    Args:
        path: Where to write the report, ``.html``, ``.json`` or ``.csv``; None: nowhere, see ``result``.
        samples: Samples to measure with, none of them used to calibrate, as
            :func:`~xdlc.quant.samples.read_samples` takes them; default: ``report_list``, or every fifth of
            the calibration samples, measured under the ranges of the others.
        most: Most samples that are measured; of large networks it may be fewer.
        trials: Most tensors and weights to quantize alone; default: what a bounded amount of work allows.
        title: Name of the network in the report; default: the file that it was converted from.
        command: The command line; default: the API was called.

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
        command: Sequence[str] = (),
    ) -> None:
        if most < 1 or (trials is not None and trials < 0):
            raise UsageError(
                f"most must be at least 1 and trials at least 0; found most={most}, trials={trials}",
                where=spell("report"),
                fix="omit the argument, or pass a larger number",
            )
        if path is not None:
            check_path(path)
        self.result: QuantReport | None = None
        self._path, self.samples = path, samples
        self._most, self._trials, self._progress = most, trials, progress
        self._title, self._command = title, command
        self._given: Iterable[Sample] = ()
        self._is_own = False

    def begin(self, samples: Samples, *, is_own: bool) -> None:
        """Set the samples for measuring.

        Args:
            samples: Those of calibration, or ones that have not calibrated.
            is_own: Whether they are the latter.
        """
        self._given, self._is_own = samples, is_own

    def finish(self, remedies: Remedies, phrase: Phrase) -> None:
        """Measure a decided plan, and write the report.

        Args:
            remedies: What may help outputs, with the plan and its calibration.
            phrase: Writes advice.

        Raises:
            UsageError: If a sample does not fit the inputs, or there are no samples.
            StorageError: If the file cannot be written.
        """
        holds_out = remedies.calibration.holds_out
        held_out = not self._is_own and holds_out
        report = measure(
            remedies,
            self._chosen(holds_out),
            held_out=held_out,
            phrase=phrase,
            trials=self._trials,
            progress=self._progress,
        )
        if not self._is_own and not held_out:
            note = (
                f"xdlc measured calibration samples, because it holds out samples only of {HELD_OUT} or more"
            )
            report = replace(report, unmeasured=(*report.unmeasured, note), held_out=False)
        title = self._title or _source_of(remedies.plan.model) or report.model
        self.result = replace(report, model=title, command=tuple(self._command))
        if self._path is not None:
            write(self.result, self._path)

    def _chosen(self, holds_out: bool) -> Iterable[Sample]:
        takes_all = self._is_own or not holds_out
        given = enumerate(self._given)
        return islice((sample for number, sample in given if takes_all or is_held_out(number)), self._most)


def _source_of(model: Model) -> str:
    """Return the name of the file that a model was converted from, if known."""
    steps = model.metadata.get("history", ())
    named = [
        str(step["args"].get("input_network", "")) for step in steps if isinstance(step.get("args"), dict)
    ]
    return Path(next(filter(None, named), "")).name


FEW = 3
"""Most ops that are named as the ones that matter."""
STARVED = 0.01
"""Share of its range that a tensor's values take at most where that is why it is lost."""
CHOICES_OF_WIDTHS = {"accuracy", "min_sqnr", "max_sqnr_drop"}
"""Options that replace the ladder of ``accuracy``, and itself."""


def summary(report: QuantReport) -> list[str]:
    """Return about ten lines: verdict, worst tensors and ops, advice."""
    lines = [
        report.judgement,
        f"{report.samples} {'held-out' if report.held_out else 'calibration'} sample(s): "
        f"weights alone {_db(report.weights_only)}, activations alone {_db(report.activations_only)}",
    ]
    for title, rows in (("costs most", costliest(report)), ("largest own error", roughest(report))):
        lines += [f"{title}: {line}" for line in rows]
    return lines + [f"advice: {line}" for line in advice(report)]


def costliest(report: QuantReport) -> list[str]:
    """Return a line for each op whose quantization costs the outputs most.

    The worst is the first.
    """
    return [
        f"{printable(op.name)} ({printable(op.type)}): outputs at {_db(op.sensitivity)}{_part(op)}"
        for op in _rated(report)[:FEW]
    ]


def _rated(report: QuantReport) -> list[OpReport]:
    rated = [op for op in report.ops if op.sensitivity is not None]
    return sorted(rated, key=lambda op: op.sensitivity or 0.0)


def _part(op: OpReport) -> str:
    weights, acts = op.sensitivity_weights, op.sensitivity_activation
    if weights is None or acts is None:
        return ""
    return f", weights {_db(weights)}, activation {_db(acts)}"


def roughest(report: QuantReport) -> list[str]:
    """Return the tensors with the largest error of their own encoding, one line each."""
    found = [tensor for tensor in report.tensors if _is_rough(report, tensor)][:FEW]
    return [
        f"{printable(tensor.name)} ({tensor.role}, {tensor.stored}): {_db(tensor.isolated)}{_why(tensor)}"
        for tensor in found
    ]


def _is_rough(report: QuantReport, tensor: TensorReport) -> bool:
    return tensor.isolated is not None and tensor.isolated < report.warn_db


def _why(tensor: TensorReport) -> str:
    if tensor.clipped is not None and tensor.clipped > CLIP_WARN:
        return f", {tensor.clipped:.2%} clipped"
    if tensor.used is not None and tensor.used < 0.25:
        return f", values use {tensor.used:.1%} of its range"
    return ""


def advice(report: QuantReport) -> Iterator[str]:
    """Return advice as sentences that end with options, excluding options already set."""
    yield from map(printable, report.lost)
    yield from (printable(report.phrase(line)) for line in _advice(report))


def _advice(report: QuantReport) -> Iterator[str]:
    starved = [tensor for tensor in report.tensors if _is_starved(report, tensor)]
    for tensor in starved[:FEW]:
        yield Advice(
            f"{printable(tensor.name)} is lost, {_db(tensor.isolated)}{_why(tensor)}: use 16 bits",
            {"act_bitwidth_of": {tensor.op: 16}},
        )
    if report.reached is None:
        return
    # Those of other methods clip on purpose.
    clipped = [t for t in report.tensors if (t.clipped or 0.0) > CLIP_WARN and "min-max" in (t.source or "")]
    if report.doubt:
        yield f"the calibration samples are wrong: {report.doubt}"
    elif report.verdict in ("fair", "poor", "useless"):
        yield from _remedies(report)
    elif report.verdict != "good":
        yield f"pass at least {HELD_OUT * LEAST_ROWS} calibration samples: xdlc judges one of {HELD_OUT}"
    elif not report.lost and not starved and not clipped:
        yield f"outputs are at {_db(report.reached)}; nothing needs to be done"
    if clipped:
        yield f"{len(clipped)} tensor(s) clip more than {CLIP_WARN:.1%} of held-out values: use more samples"


def _is_starved(report: QuantReport, tensor: TensorReport) -> bool:
    """Return whether the range of an 8-bit tensor is far too large for its values."""
    if tensor.used is None or tensor.isolated is None or tensor.op is None or tensor.bits != 8:
        return False
    return tensor.role != "weight" and tensor.used < STARVED and tensor.isolated < report.alarm_db


def _remedies(report: QuantReport) -> Iterator[str]:
    """Yield remedies for a poor output."""
    weights, acts = report.weights_only, report.activations_only
    asked = report.options
    wide, ladder = asked.get("act_bitwidth") == "16", {"accuracy": "best"}
    few, share = _few_that_matter(report)
    names = [op.name for op in few]
    if few:
        yield f"{share:.0%} of the noise comes from {', '.join(map(printable, names))}: improve these first"
    narrow = [op.name for op in few if op.placement == "fixed" and op.act_bits == 8]
    alike = weights is None or acts is None or acts + 3 >= weights
    most = "weights and activations cost the same" if alike else "activations cost most"
    if weights is not None and acts is not None and weights + 3 < acts:
        yield Advice("weights cost most", _for_weights(asked))
    elif narrow:
        yield Advice(most, {"act_bitwidth_of": dict.fromkeys(narrow, 16)})
    elif not wide:
        yield Advice(most, {"act_bitwidth": 16} if asked.keys() & CHOICES_OF_WIDTHS else ladder)
    elif few:
        kept = [name for name in asked.get("float_ops", "").split(",") if name]
        yield Advice("activations have 16 bits", {"float_ops": [*kept, *names]})
    else:
        yield Advice("activations have 16 bits", _for_weights(asked))


def _for_weights(asked: Mapping[str, str]) -> dict[str, object]:
    """Return options for better weights than those of the report."""
    bits = int(asked.get("weights_bitwidth", "8"))
    if bits < 8:
        return {"weights_bitwidth": 8}
    if not asked.keys() & CHOICES_OF_WIDTHS:
        return {"accuracy": "best"}
    algorithms = [name for name in asked.get("algorithms", "").split(",") if name]
    more = next((name for name in ("seqmse", "adaround", "cle") if name not in algorithms), None)
    return (
        {"algorithms": [*algorithms, more]}
        if more is not None
        else {"act_bitwidth": 16, "weights_bitwidth": 16}
    )


def _few_that_matter(report: QuantReport) -> tuple[list[OpReport], float]:
    """Return the few ops that make most of the noise, if any, and their share.

    Noise of independent origins adds up.
    """
    total, share = _noise(report.sqnr), 0.0
    few: list[OpReport] = []
    for op in _rated(report)[:FEW]:
        share += _noise(op.sensitivity) / total if total else 0.0
        few.append(op)
        if share >= 0.5:
            return few, min(share, 1.0)
    return [], 0.0


def _noise(ratio: float | None) -> float:
    return 0.0 if ratio is None else 10.0 ** (-ratio / 10.0)


def _db(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1f} dB"
