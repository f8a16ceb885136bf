"""A report as CSV: one row a tensor, worst isolated ratio first.

Columns are the fields of :class:`~xdlc.quant.report.model.TensorReport` in their order, without histograms
and ranges of channels; lists are joined by spaces, what is not known is empty.
"""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import Any

from xdlc.quant.report.model import QuantReport, TensorReport

COLUMNS = tuple(held.name for held in fields(TensorReport) if held.name not in ("histogram", "channels"))


def as_csv(report: QuantReport) -> str:
    """Return the tensors of the report as CSV text with a line of column names."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for tensor in report.as_json()["tensors"]:
        rows.writerow([_cell(tensor[column]) for column in COLUMNS])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    # Spreadsheets run what begins like a formula; names come from strangers.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
