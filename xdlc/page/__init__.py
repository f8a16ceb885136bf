"""Shell of reports that are one HTML file, which load nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

_ESCAPED = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}


def fill(package: str, data: Mapping[str, Any], *, title: str, summary: str) -> str:
    """Return a page made of ``page/page.html`` and ``page/page.js`` of a package.

    Args:
        package: Package that has the template and the script of the report.
        data: Figures that the script draws, as values of JSON.
        title: Title of the page, without marks of direction.
        summary: Text for browsers that run no scripts.
    """
    folder = resources.files(package) / "page"
    template, script = ((folder / name).read_text("utf-8") for name in ("page.html", "page.js"))
    style = (resources.files("xdlc.page") / "page.css").read_text("utf-8")
    parts = {
        "TITLE": html.escape(title),
        "SUMMARY": html.escape(summary),
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "DATA": json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPED),
    }
    # In one pass, so that nothing is looked for in what was put in.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: parts[match[1]], template)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
