"""Runtimes that support an op, by the definitions of operations."""

from __future__ import annotations

from xdlc.ir import HOST_PACKAGE, Op
from xdlc.ir.graph import is_udo
from xdlc.opdefs.verify import accepts

RUNTIMES = {"A": "hta", "D": "htp", "G": "gpu", "C": "cpu"}
"""Letter of a runtime: AIP, DSP, GPU, CPU; and the supplement of the OpDefs that lists its support."""


def runtimes(op: Op) -> str:
    """Return the letters of the runtimes that support an op in its present form.

    Ops of package ``xdlc`` run on the host alone, and those of users where their package has a kernel.
    """
    if op.package == HOST_PACKAGE:
        return "host"
    if is_udo(op):
        return "UDO"
    return " ".join(letter for letter, name in RUNTIMES.items() if accepts(name, op)) or "-"
