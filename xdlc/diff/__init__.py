"""Differences of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.diff.change import GROUPS, KINDS, NOT_IN_SOURCE, Change, kinds_of
    from xdlc.diff.report import Diff, diff

__all__ = ["GROUPS", "KINDS", "NOT_IN_SOURCE", "Change", "Diff", "diff", "kinds_of"]

_HOMES = {
    "Change": "xdlc.diff.change",
    "diff": "xdlc.diff.report",
    "Diff": "xdlc.diff.report",
    **dict.fromkeys(("GROUPS", "KINDS", "NOT_IN_SOURCE", "kinds_of"), "xdlc.diff.change"),
}
if not TYPE_CHECKING:  # checkers of types would take any name
    __getattr__ = names_of(__name__, _HOMES)
