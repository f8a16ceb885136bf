"""Names of backends in configurations of user-defined operations, and which supplements speak for which.

QNN tells DSP (v65, v66) from HTP (v68 and later); SNPE calls all of them DSP and adds the architecture.
A supplement of a wider name speaks for the narrower ones: ``DSP`` for all, ``HTP`` for ``DSP_V68`` and
later and for ``HTP_FP16``.  Where both say something of a tensor, the narrower one counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdlc.errors import nearest_names

OLD_DSPS = tuple(f"DSP_V{arch}" for arch in (60, 65, 66))
NEW_DSPS = tuple(f"DSP_V{arch}" for arch in (68, 69, 73, 75, 79, 81))
NAMES = (
    "CPU", "GPU", "DSP", *OLD_DSPS, *NEW_DSPS, "HTP", "HTP_FP16", "HTP_MCP", "HTA", "LPAI", "AIC", "SAVER",
)  # fmt: skip
"""All names of backends."""

_WIDER = {
    **dict.fromkeys(OLD_DSPS, ("DSP",)),
    **dict.fromkeys(NEW_DSPS, ("HTP", "DSP")),
    "HTP": ("DSP",),
    "HTP_FP16": ("HTP", "DSP"),
}


def chain(backend: str) -> tuple[str, ...]:
    """Return the names whose supplements speak for a backend, the one that counts most first.

    Example:
        >>> chain("DSP_V73"), chain("DSP_V66"), chain("CPU")
        (('DSP_V73', 'HTP', 'DSP'), ('DSP_V66', 'DSP'), ('CPU',))
    """
    return (backend, *_WIDER.get(backend, ()))


def overlap(a: str, b: str) -> bool:
    """Return whether one of two names includes the other.

    Example:
        >>> overlap("HTP", "DSP_V68"), overlap("DSP_V68", "HTP"), overlap("HTP", "DSP_V66")
        (True, True, False)
    """
    return a in chain(b) or b in chain(a)


def is_dsp(backend: str) -> bool:
    """Return whether a backend runs on a Hexagon processor, as DSP or HTP."""
    return "DSP" in chain(backend) or backend == "HTP_MCP"


def unknown(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names that are none of a backend, each with a fix.

    Example:
        >>> unknown(["CPU", "Htp"])
        [('Htp', 'nearest: HTP, HTA')]
    """
    return [
        (name, nearest_names(name, NAMES, most=2) or f"use one of {', '.join(NAMES)}")
        for name in names
        if name not in NAMES
    ]
