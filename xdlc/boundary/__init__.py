"""Inputs and outputs as callers have them: layouts, types, colours, scales and sizes, in front of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.boundary.applying import apply, settle
    from xdlc.boundary.options import Options, words
    from xdlc.boundary.ports import Port, Ports, requested, wishes

__all__ = ["Options", "Port", "Ports", "apply", "requested", "settle", "wishes", "words"]

_HOMES = {
    "Options": ".options",
    "Port": ".ports",
    "Ports": ".ports",
    "apply": ".applying",
    "requested": ".ports",
    "settle": ".applying",
    "wishes": ".ports",
    "words": ".options",
}
__getattr__ = names_of(__name__, _HOMES)
