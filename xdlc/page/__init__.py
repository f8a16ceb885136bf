"""Shell of reports that are one HTML file, which load nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from xdlc.version import VERSION

_FILES = ("page.html", "page.css", "page.js", "svg.css")
_ESCAPED = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}


def fill(package: str, data: Mapping[str, Any], *, kind: str, name: str, summary: Iterable[str]) -> str:
    """Return a page whose content ``page.js`` of a package draws.

    The script has what ``page.js`` beside this file returns as ``Page``.

    Args:
        package: Package that has the script of the report.
        data: Figures that the script draws, as values of JSON; ``tool`` is added.
        kind: What the report is.
        name: What it is about.
        summary: Lines for browsers that run no scripts.
    """
    folder = resources.files("xdlc.page")
    template, style, shared, pictures = ((folder / file).read_text("utf-8") for file in _FILES)
    script = shared + (resources.files(package) / "page.js").read_text("utf-8")
    figures = {"tool": f"xdlc {VERSION}", **data}
    parts = {
        "TITLE": html.escape(printable(f"{kind}: {name}")),
        "NAME": html.escape(printable(name)),
        "KIND": html.escape(kind),
        "SUMMARY": html.escape("\n".join(map(printable, summary))),
        "STYLE": pictures + style,
        "STYLE_HASH": _hash(pictures + style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "DATA": json.dumps(figures, separators=(",", ":"), allow_nan=False).translate(_ESCAPED),
    }
    # In one pass, so that nothing is looked for in what was put in.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: parts[match[1]], template)


def printable(text: str) -> str:
    r"""Return a text with codes in place of characters that no terminal shows.

    Line breaks and marks of direction are such characters too.

    Example:
        >>> printable("a\tb")
        'a\\u0009b'
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
