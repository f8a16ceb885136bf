"""Execution of IR graphs on the host's CPU or the vendor's emulation.

Since 1.29, onnxruntime for Linux sends reports of its use to a collector and keeps an identifier under the
home folder.  Its variable ORT_DISABLE_TELEMETRY, read when the library is loaded, prevents both; its call
``disable_telemetry_events`` comes too late.  The variable is set for this process and its children, unless
the user has set it otherwise.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession as CpuSession
    from xdlc.runtime.lower import Lowered as Lowered
    from xdlc.runtime.ops import known_types as known_types
    from xdlc.runtime.ops import lowering as lowering

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = ["CpuSession", "Lowered", "known_types", "lowering"]

_HOMES = {
    "CpuSession": ".cpu",
    "Lowered": ".lower",
    "known_types": ".ops",
    "lowering": ".ops",
}


__getattr__ = names_of(__name__, _HOMES)
