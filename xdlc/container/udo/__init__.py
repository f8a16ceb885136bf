"""Records of a DLC about operations that users define: their definitions, and kernels for them.

A file may come from anyone: everything is checked when it is read, and nothing of it is executed here.
"""

from __future__ import annotations

from xdlc.container.udo.definition_records import DEFINITIONS, add_definitions, definition, definitions
from xdlc.container.udo.kernel_records import (
    BINARIES,
    KERNELS,
    StoredKernel,
    add_kernel,
    kernels,
    same_kernel,
)

__all__ = [
    "BINARIES",
    "DEFINITIONS",
    "KERNELS",
    "StoredKernel",
    "add_definitions",
    "add_kernel",
    "definition",
    "definitions",
    "is_about_udo",
    "kernels",
    "same_kernel",
]


def is_about_udo(name: str) -> bool:
    """Return whether a record is one of those that this package reads and writes."""
    return name.startswith((DEFINITIONS, KERNELS, BINARIES))
