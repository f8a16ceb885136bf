"""The viewer as one HTML file that loads nothing from outside."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from xdlc.page import assemble, parts
from xdlc.page.svg import short

SCRIPTS = (
    *("place.js", "layout.js", "net.js", "scene.js", "colors.js", "pens.js", "paint.js"),
    *("pane.js", "panel.js", "outline.js", "strip.js", "sheet.js", "app.js"),
)
LONGEST = 200
"""Characters of a text for browsers that run no scripts."""


def page(content: Mapping[str, Any]) -> str:
    """Return a page that shows the graphs of one file, or of two side by side.

    Args:
        content: What ``xdlc.view.content`` makes, as values of JSON.
    """
    packed = gzip.compress(packed_json(content), compresslevel=9, mtime=0)
    return assemble(
        parts("xdlc.view", "page/view.html"),
        style=style(),
        script=script() + parts("xdlc.view", "page/main.js"),
        data=base64.b64encode(packed).decode("ascii"),
        kind="Graph",
        name=" and ".join(short(side["file"], LONGEST) for side in content["sides"]),
        summary=_summary(content),
    )


def packed_json(content: Mapping[str, Any]) -> bytes:
    """Return a content as JSON without spaces."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def script() -> str:
    """Return the script of the viewer: ``View.start(content)`` draws into ``#view``."""
    return parts("xdlc.page", "base.js") + parts("xdlc.view", *(f"page/{file}" for file in SCRIPTS))


def style() -> str:
    """Return the style of the viewer."""
    return parts("xdlc.page", "base.css") + parts("xdlc.view", "page/view.css")


def _summary(content: Mapping[str, Any]) -> Iterator[str]:
    for side in content["sides"]:
        yield f"{short(side['file'], LONGEST)}: {short(side['kind'], LONGEST)}, {side['bytes']:,} bytes"
        for label, text in side["facts"]:
            yield f"{short(label, LONGEST)}: {short(text, LONGEST)}"
        for graph in side["graphs"]:
            yield f"graph {short(graph['name'], LONGEST)}: {len(graph['ops']):,} operations"
    for line in (content["diff"] or {"summary": ()})["summary"]:
        yield short(line, LONGEST)
