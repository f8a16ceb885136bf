"""Shell of pages that are one HTML file, which load nothing from outside."""

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

_ESCAPED = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&"}


def fill(package: str, data: Mapping[str, Any], *, kind: str, name: str, summary: Iterable[str]) -> str:
    """Return a page of a report whose content ``page.js`` of a package draws.

    The script has what ``report.js`` beside this file returns as ``Page``.

    Args:
        package: Package that has the script of the report.
        data: Figures that the script draws, as values of JSON; ``tool`` is added.
        summary: Lines for browsers that run no scripts.
    """
    figures = {"tool": f"xdlc {VERSION}", **data}
    return assemble(
        parts("xdlc.page", "report.html"),
        style=parts("xdlc.page", "svg.css", "base.css", "report.css"),
        script=parts("xdlc.page", "base.js", "report.js") + parts(package, "page.js"),
        data=json.dumps(figures, separators=(",", ":"), allow_nan=False).translate(_ESCAPED),
        kind=kind,
        name=name,
        summary=summary,
    )


def parts(package: str, *files: str) -> str:
    """Return the texts of files of a package, joined in order."""
    return "".join((resources.files(package) / file).read_text("utf-8") for file in files)


def assemble(
    body: str,
    *,
    style: str,
    script: str,
    data: str,
    kind: str,
    name: str,
    summary: Iterable[str],
    policy: str = "",
) -> str:
    """Return a page whose policy allows its own style and script alone.

    Args:
        body: Body of the page with a place in double braces for each part.
        data: What the script draws, as text without marks of HTML.
        summary: Lines for browsers that run no scripts.
        policy: Further sources of scripts, and further directives.
    """
    places = {
        "TITLE": html.escape(printable(f"{kind}: {name}")),
        "NAME": html.escape(printable(name)),
        "KIND": html.escape(kind),
        "SUMMARY": html.escape("\n".join(map(printable, summary))),
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "DATA": data,
        "POLICY": policy,
    }
    # In one pass, so that nothing is looked for in what was put in.
    return re.sub(
        r"\{\{([A-Z_]+)\}\}", lambda match: places[match[1]], parts("xdlc.page", "head.html") + body
    )


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
