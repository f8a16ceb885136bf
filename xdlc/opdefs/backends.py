"""Names of backends in UDO configurations, and which supplements apply to which.

QNN separates DSP (v65, v66) and HTP (v68 and later); SNPE calls all of them DSP and adds the architecture,
one for each generation of ``xdlc.targets``.  A supplement of a wider name applies to the narrower ones:
``DSP`` to all, ``HTP`` to ``DSP_V68`` and later and to ``HTP_FP16``.  The narrower counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdlc.errors import nearest_names
from xdlc.targets import FIRST_HTP, arch_numbers

_ARCHS = (60, *arch_numbers())
OLD_DSPS = tuple(f"DSP_V{arch}" for arch in _ARCHS if arch < FIRST_HTP)
NEW_DSPS = tuple(f"DSP_V{arch}" for arch in _ARCHS if arch >= FIRST_HTP)
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
    """Return the names whose supplements apply to a backend, the strongest first.

    Example:
        >>> chain("DSP_V73"), chain("DSP_V66"), chain("CPU")
        (('DSP_V73', 'HTP', 'DSP'), ('DSP_V66', 'DSP'), ('CPU',))
    """
    return (backend, *_WIDER.get(backend, ()))


def overlap(a: str, b: str) -> bool:
    """Return whether one of two backends includes the other.

    Example:
        >>> overlap("HTP", "DSP_V68"), overlap("DSP_V68", "HTP"), overlap("HTP", "DSP_V66")
        (True, True, False)
    """
    return a in chain(b) or b in chain(a)


def is_dsp(backend: str) -> bool:
    """Return whether a backend runs on a Hexagon processor, as DSP or HTP."""
    return "DSP" in chain(backend) or backend == "HTP_MCP"


def is_fixed_point(backend: str) -> bool:
    """Return whether fixed point costs a backend less than floats.

    Example:
        >>> is_fixed_point("DSP_V66"), is_fixed_point("CPU"), is_fixed_point("HTP_FP16")
        (True, False, False)
    """
    return backend != "HTP_FP16" and (is_dsp(backend) or backend in ("LPAI", "AIC"))


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
