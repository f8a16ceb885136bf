"""A report as JSON: the fields of :class:`~xdlc.quant.report.model.QuantReport`."""

from __future__ import annotations

import json

from xdlc.quant.report.model import QuantReport


def as_json(report: QuantReport) -> str:
    """Return the report as JSON text in ASCII, ``schema`` first."""
    return json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n"
