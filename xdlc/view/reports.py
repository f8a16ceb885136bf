"""Reports of other tools as overlays: accuracy, cost, debugger.

Reports are files of strangers: their size and the form of each value are checked, and names that match
nothing are a notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xdlc.errors import ModelError, UsageError
from xdlc.ir import Model
from xdlc.ir.files import PathLike, read_bytes
from xdlc.json_fields import fits, json_value
from xdlc.view.findings import Findings, Ops, Place
from xdlc.view.graphs import FIRST_WRONG
from xdlc.view.overlays import Overlay, Value
from xdlc.view.statistics import Record, rounded

LARGEST = 1 << 28
"""Bytes of a report."""
MOST_VALUES = 1 << 23
"""Values of a report: one of 20,000 ops has 6 million."""
MOST_BARS = 256
_LARGEST_NUMBER = 1e300
MOST_DEVICES, MOST_OUTPUTS = 8, 40
MARKS = (10.0, 20.0)
"""Decibels below which errors are an alarm, and a warning."""
_TEXT = str | None
_OBJECT: Any = dict | None
_OP = {"name": str, "nodes": [str], "reason": _TEXT, "raised": _TEXT}
_QUANT = {
    "schema": int,
    "ops": [_OP],
    "outputs": [{"name": str, "task": _TEXT}],
    "tensors": [{"name": str, "role": str, "histogram": _OBJECT}],
}
_COST_OP = {
    "op": str,
    "nodes": [str],
    "fused": [str],
    "kernels": {"*": int},
    "traffic": {"*": int},
    "reason": str,
}
_COST = {
    "schema": int,
    "refused": [str],
    "devices": [
        {"graph": str, "soc": str, "vtcm_mb": int, "milliseconds": dict, "notes": [str], "ops": [_COST_OP]}
    ],
}
_DEBUG = {
    "schema": int,
    "reference": str,
    "candidate": str,
    "first_wrong": _TEXT,
    "tensors": [{"tensor": str, "op": str, "fault": str, "cumulative": _OBJECT, "isolated": _OBJECT}],
}


def report_findings(model: Model, paths: Iterable[PathLike]) -> Findings:
    """Return what reports say of a model.

    Args:
        paths: Reports of ``quantize``, ``cost`` and ``debug`` as JSON.

    Raises:
        UsageError: If a file is no such report.
        ModelError: If a report is damaged.
        StorageError: If a file cannot be read.
    """
    findings = Findings()
    for path in paths:
        add_report(findings, model, _read(path), os.fspath(path))
    return findings


def _read(path: PathLike) -> Any:
    data = read_bytes(path, LARGEST)
    where = os.fspath(path)
    if len(data) > LARGEST:
        raise ModelError(f"has more than {LARGEST} bytes", where=where, fix="pass a report of xdlc")
    try:
        return json_value(data.decode("utf-8"), MOST_VALUES)
    except ValueError as error:
        fix = "write the report with the suffix .json"
        raise UsageError(f"is not JSON: {error}", where=where, fix=fix) from error


def add_report(findings: Findings, model: Model, report: Any, where: str) -> None:
    """Add what a report says of a model to findings.

    Args:
        report: The report, as JSON values.

    Raises:
        UsageError: If it is no report of xdlc.
        ModelError: If a value has another form.
    """
    members = set(report) if isinstance(report, dict) else set()
    for needed, form, add in _KINDS:
        if needed <= members:
            if not fits(report, form) or report["schema"] != 1:
                fix = "write the report again with this version of xdlc"
                raise ModelError("the report has values of another form", where=where, fix=fix)
            add(findings, Ops(list(model.graphs.values())), report, os.path.basename(where))
            return
    raise UsageError(
        "xdlc does not know this report",
        where=where,
        fix="pass the JSON of `xdlc quantize --report`, `xdlc cost --json` or `xdlc debug --report`",
    )


class _Rows:
    """Rows of a report by the place of their ops."""

    def __init__(self, findings: Findings, ops: Ops, source: str) -> None:
        self.findings, self.ops, self.source = findings, ops, source
        self._count = self._unmatched = 0

    def place(self, name: str, graph: str | None = None) -> Place | None:
        """Return the place of an op, and count names that match none."""
        found = self.ops.find(name, graph)
        self._count += 1
        self._unmatched += found is None
        return found

    def note_unmatched(self) -> None:
        """Note how many names match no op."""
        if self._unmatched:
            self.findings.notices.append(
                f"{self.source}: {self._unmatched} of {self._count} names match no op of the model"
            )

    def add(self, key: str, title: str, help: str, values: Mapping[Place, Value], **settings: Any) -> None:
        """Add an overlay."""
        notes = self.ops.notes(settings.pop("texts", {}))
        columns = self.ops.columns(values)
        self.findings.overlays.append(
            Overlay(key, title, help, columns, notes=notes, source=self.source, **settings)
        )


def _number(value: Any) -> float | None:
    """Return a finite number of a report, rounded; None for all else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return rounded(float(value)) if is_number and abs(value) < _LARGEST_NUMBER else None


_QUANT_FIGURES = (
    ("cumulative", "error so far", "SQNR of the op's result in the quantized network."),
    ("isolated", "own error", "SQNR of the op's result if the op alone is quantized."),
    ("sensitivity", "cost for the outputs", "SQNR of the outputs if the op alone is quantized."),
)


def _add_quantization(findings: Findings, ops: Ops, report: Mapping[str, Any], source: str) -> None:
    rows = _Rows(findings, ops, source)
    figures: dict[str, dict[Place, Value]] = {key: {} for key, _, _ in _QUANT_FIGURES}
    reasons, parts = dict[Place, str](), dict[Place, str]()
    for op in report["ops"]:
        place = rows.place(str(op.get("name", "")))
        if place is not None:
            for key, values in figures.items():
                values[place] = _number(op.get(key))
            words = [op.get("reason"), op.get("raised") and f"widths: {op['raised']}"]
            if any(words):
                reasons[place] = "; ".join(filter(None, words))
            shares = {word: _number(op.get(f"sensitivity_{word}")) for word in ("weights", "activation")}
            parts[place] = ", ".join(
                f"{word} {share:.1f} dB" for word, share in shares.items() if share is not None
            )
    texts = {"cumulative": reasons, "sensitivity": {place: text for place, text in parts.items() if text}}
    stated = [_number(report.get(key)) for key in ("alarm_db", "warn_db")]
    marks = tuple(usual if mark is None else mark for mark, usual in zip(stated, MARKS, strict=True))
    for key, title, help in _QUANT_FIGURES:
        rows.add(
            key, f"SQNR: {title}", help, figures[key],
            unit="dB", low_is_bad=True, marks=marks, texts=texts.get(key, {}),
        )  # fmt: skip
    by_name = findings.activations.setdefault(0, {})
    for tensor in report["tensors"]:
        if tensor.get("role") in ("input", "activation", "output"):
            record = _activation(tensor)
            if record is not None:
                by_name[str(tensor.get("name", ""))] = record
    if isinstance(report.get("verdict"), str):
        findings.facts.append(("accuracy", report["verdict"]))
    for output in report["outputs"][:MOST_OUTPUTS]:
        judged, own = _number(output.get("judged")), _number(output.get("sqnr"))
        figure = own if judged is None else judged
        task = output.get("task") or ""
        words = [figure is not None and " dB" not in task and f"{figure:.1f} dB", task]
        if any(words):
            findings.facts.append((f"accuracy of {output.get('name', '')}", ", ".join(filter(None, words))))
    rows.note_unmatched()


def _activation(tensor: Mapping[str, Any]) -> Record | None:
    """Return the statistics of an activation; None if the report has no histogram."""
    histogram = tensor.get("histogram")
    if not isinstance(histogram, dict):
        return None
    low, width, counts = (
        _number(histogram.get("low")),
        _number(histogram.get("width")),
        histogram.get("counts"),
    )
    if low is None or width is None or not isinstance(counts, list) or len(counts) > MOST_BARS:
        return None
    numbers = [count for count in counts if isinstance(count, int) and 0 <= count < 1 << 53]
    if len(numbers) != len(counts):
        return None
    return {
        "low": _number(tensor.get("seen_low")),
        "high": _number(tensor.get("seen_high")),
        **dict.fromkeys(("mean", "std", "zeros")),
        "n": sum(numbers),
        "bars": [low, width, numbers],
        "of": "activations",
    }


def _add_cost(findings: Findings, ops: Ops, report: Mapping[str, Any], source: str) -> None:
    targets: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for device in report["devices"]:
        targets.setdefault((str(device.get("soc")), device.get("vtcm_mb", 0)), []).append(device)
    for (soc, vtcm), devices in list(targets.items())[:MOST_DEVICES]:
        _add_device(_Rows(findings, ops, source), devices, f"{soc}, {vtcm} MB")
    findings.problems += [(text, None, None) for text in report.get("refused", ())]


_DRAM = ("dram_read", "dram_write")


def _add_device(rows: _Rows, devices: Sequence[Mapping[str, Any]], name: str) -> None:
    """Add the overlays of one SoC and size of VTCM; it has a device for each graph."""
    dram, times, spilled = dict[Place, Value](), dict[Place, Value](), dict[Place, Value]()
    engines, texts = dict[Place, Value](), dict[Place, str]()
    for device in devices:
        estimate = device.get("milliseconds", {})
        total, reason = _number(estimate.get("value")), estimate.get("reason")
        if total is not None or isinstance(reason, str):
            text = reason if total is None else f"{total} ms"
            rows.findings.facts.append((f"estimated time on {name}", text))
        for op in device.get("ops", ()):
            title = str(op.get("op", ""))
            place = None if title.startswith("(") else rows.place(title, device.get("graph"))
            if place is None:
                continue
            traffic, kernels, share = op.get("traffic", {}), op.get("kernels", {}), _number(op.get("share"))
            dram[place] = _number(sum(traffic.get(key, 0) for key in _DRAM))
            spilled[place] = _number(op.get("spilled"))
            if total is not None and share is not None:
                times[place] = rounded(total * share)
            if kernels:
                engines[place] = _ENGINES.get(max(kernels, key=lambda each: kernels[each]), "other")
            texts[place] = str(op.get("reason", ""))
            for fused in op.get("fused", ()):
                joined = rows.place(fused, device.get("graph"))
                if joined is not None:
                    engines.setdefault(joined, "fused")
                    texts.setdefault(joined, f"the compiler computes it with {title}")
    key = name.replace(", ", ":").replace(" ", "")
    rows.add(
        f"dram:{key}", f"DRAM ({name})", "Bytes that the compiled op reads from DRAM and writes to it.",
        dram, unit="B", texts=texts,
    )  # fmt: skip
    rows.add(
        f"spilled:{key}", f"spilled ({name})", "Bytes that leave VTCM for lack of room.", spilled, unit="B"
    )
    rows.add(
        f"ms:{key}", f"time ({name})", "The op's share of the estimated time, by the bytes that it moves.",
        times, unit="ms",
    )  # fmt: skip
    colors = {
        "matrix unit": "c1",
        "vector unit": "c2",
        "DMA": "c3",
        "scalar": "c4",
        "other": "c5",
        "fused": "c6",
    }
    text = "Engine of most kernels of the compiled op."
    rows.add(f"engine:{key}", f"engine ({name})", text, engines, colors=colors, texts=texts)
    rows.note_unmatched()


_ENGINES = {"HMX": "matrix unit", "HVX": "vector unit", "DMA": "DMA", "scalar": "scalar"}


def _add_debug(findings: Findings, ops: Ops, report: Mapping[str, Any], source: str) -> None:
    rows = _Rows(findings, ops, source)
    values: dict[str, dict[Place, Value]] = {"cumulative": {}, "isolated": {}}
    classes, texts = dict[Place, Value](), dict[Place, str]()
    for row in report["tensors"]:
        place = rows.place(str(row.get("op", "")))
        if place is None:
            continue
        for key, column in values.items():
            column[place] = _number((row.get(key) or {}).get("db"))
        is_first = row.get("tensor") == report.get("first_wrong") is not None
        fault = str(row.get("fault", ""))
        classes[place] = "first wrong" if is_first else "wrong" if fault else "right"
        texts[place] = fault
        if is_first:
            findings.flag(place, FIRST_WRONG)
            own = _number((row.get("isolated") or {}).get("db"))
            figure = "" if own is None else f"own error {own:.1f} dB; "
            findings.problems.append((f"first wrong op: {figure}{fault}", *place))
    about = f"{report.get('candidate')} against {report.get('reference')}"
    findings.facts.append(("debug run", about))
    notes = {place: text for place, text in texts.items() if text}
    colors = {"first wrong": "alarm", "wrong": "warn", "right": "good"}
    rows.add(
        "debug", "wrong ops", f"Ops that compute other values: {about}.", classes, colors=colors, texts=notes
    )
    for key, title in (("cumulative", "error so far"), ("isolated", "own error")):
        rows.add(
            f"debug:{key}", f"debug run: {title}", f"SQNR of the result: {about}.", values[key],
            unit="dB", low_is_bad=True, marks=MARKS, texts=notes,
        )  # fmt: skip
    rows.note_unmatched()


_Add = Callable[[Findings, Ops, Mapping[str, Any], str], None]
_KINDS: tuple[tuple[set[str], Any, _Add], ...] = (
    ({"schema", "ops", "tensors", "outputs"}, _QUANT, _add_quantization),
    ({"schema", "static", "devices"}, _COST, _add_cost),
    ({"schema", "reference", "candidate", "tensors"}, _DEBUG, _add_debug),
)
