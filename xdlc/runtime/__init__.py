"""Execution of IR graphs: on the host's CPU, or by the vendor's emulation of its accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession as CpuSession
    from xdlc.runtime.lowered import Lowered as Lowered
    from xdlc.runtime.ops import known_types as known_types
    from xdlc.runtime.ops import lowering as lowering

__all__ = ["CpuSession", "Lowered", "known_types", "lowering"]

_HOMES = {
    "CpuSession": ".cpu",
    "Lowered": ".lowered",
    "known_types": ".ops",
    "lowering": ".ops",
}


__getattr__ = names_of(__name__, _HOMES)
