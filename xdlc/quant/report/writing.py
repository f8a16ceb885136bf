"""Files of a report: HTML, JSON and CSV."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from xdlc.errors import StorageError, UsageError
from xdlc.ir.files import csv_text, replace_text
from xdlc.quant.report.model import CLIP_WARN, QuantReport, TensorReport
from xdlc.quant.report.summary import advice, printable, summary

COLUMNS = tuple(held.name for held in fields(TensorReport) if held.name not in ("histogram", "channels"))


def as_csv(report: QuantReport) -> str:
    """Return the tensors of the report as CSV text with a line of column names."""
    found = [[tensor[column] for column in COLUMNS] for tensor in report.as_json()["tensors"]]
    return csv_text([COLUMNS, *([_cell(value) for value in row] for row in found)])


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value


def as_json(report: QuantReport) -> str:
    """Return the report as JSON text in ASCII, ``schema`` first."""
    return json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n"


_ESCAPED = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}


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
