"""Pictures as SVG files with a dark form, which run no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from typing import Any

WIDTH = 1000
LEFT, RIGHT = 64, 20
Record = Mapping[str, Any]


def picture(width: float, height: float, title: str, body: Iterable[str], *, style: bool = True) -> str:
    """Return an SVG file.

    Args:
        title: What it shows, in words for those who do not see it.
        style: Whether it has its own style; without, the page around it has.
    """
    css = (resources.files("xdlc.page") / "svg.css").read_text("utf-8") if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" viewBox="0 0 {width:g} {height:g}" role="img" '
        + (f'width="{width:g}" height="{height:g}" ' if style else "")
        + f'aria-label="{shown(title)}"><title>{shown(title)}</title>'
        + (f"<style>{css}</style>" if style else "")
        + f"{''.join(body)}</svg>\n"
    )


def shown(words: str) -> str:
    """Return a text as XML; names come from strangers."""
    return escape("".join(c if c.isprintable() else "?" for c in words))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{shown(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, tip: str = "", radius: int = 0) -> str:
    """Return a rectangle, with words that a pointer shows."""
    inner = f"<title>{shown(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{max(height, 0.0):.1f}"' + (f' rx="{radius}"' if radius else "") + f">{inner}</rect>"
    )


def path(kind: str, d: str) -> str:
    """Return a path."""
    return f'<path class="{kind}" d="{d}"/>'


def kib(count: float) -> str:
    """Return a number of bytes in KiB or MiB."""
    return f"{count / 1024:.0f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"


def short(words: str, most: int) -> str:
    """Return a text with its middle cut out."""
    return words if len(words) <= most else f"{words[: most // 2 - 1]}…{words[-(most // 2) :]}"
