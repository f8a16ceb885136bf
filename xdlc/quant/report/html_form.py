"""A report as one HTML page that needs nothing else: no network, no fonts, no other files.

The figures are in the page as JSON; its script draws them and puts text in as text only.  The page's
policy lets no other script or style run.  ``page/`` holds the parts.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources

from xdlc.quant.report.model import CLIP_WARN, QuantReport
from xdlc.quant.report.summary import advice, summary
from xdlc.quant.report.text import printable

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
