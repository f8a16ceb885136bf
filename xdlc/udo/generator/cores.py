"""Processors of the libraries of a package."""

from __future__ import annotations

import re
from dataclasses import dataclass

CPU, GPU, DSP_LEGACY, DSP = "CPU", "GPU", "DSP_LEGACY", "DSP"
"""Groups of processors that share their templates; the legacy DSPs are v60, v65 and v66."""

_DSP = re.compile(r"DSP_V(\d{2})")
_FIRST_HTP = 68


@dataclass(frozen=True, slots=True, order=True)
class Core:
    """A processor.

    Attributes:
        order: Place among the others.
        name: ``CPU``, ``GPU``, ``DSP_V68``; folders are called so.
        group: Which templates it takes.
        kind: ``CPU``, ``GPU`` or ``DSP``.
        arch: Of a DSP: ``v68``.
        suffix: What names of libraries have for it: ``Cpu``, ``Gpu``, ``Dsp``.
    """

    order: int
    name: str
    group: str
    kind: str
    arch: str = ""

    @property
    def suffix(self) -> str:
        return self.kind.capitalize()

    @property
    def one_op_a_library(self) -> bool:
        """Whether a library of it holds one operation only."""
        return self.group == DSP_LEGACY


def core_of(backend: str) -> Core | None:
    """Return the processor of a backend, or None if packages are not made for it.

    A DSP without a version is a v60, HTP without one is v68: the oldest of their kind.

    Example:
        >>> core_of("DSP_V66").group, core_of("HTP").name, core_of("LPAI")
        ('DSP_LEGACY', 'DSP_V68', None)
    """
    name = backend.upper()
    if name == "CPU":
        return Core(0, name, CPU, CPU)
    if name == "GPU":
        return Core(1, name, GPU, GPU)
    name = {"DSP": "DSP_V60", "HTP": "DSP_V68", "HTP_FP16": "DSP_V68"}.get(name, name)
    match = _DSP.fullmatch(name)
    if match is None:
        return None
    version = int(match[1])
    return Core(version, name, DSP if version >= _FIRST_HTP else DSP_LEGACY, "DSP", f"v{version}")


def cores_of(backend: str) -> tuple[Core, ...]:
    """Return the processors of a backend: ``DSP`` alone means those before HTP and HTP.

    Example:
        >>> [core.name for core in cores_of("DSP")], [core.name for core in cores_of("DSP_V73")]
        (['DSP_V60', 'DSP_V68'], ['DSP_V73'])
    """
    names = ("DSP_V60", "DSP_V68") if backend.upper() == "DSP" else (backend,)
    return tuple(core for core in map(core_of, names) if core is not None)
