"""Compile targets: SoCs or whole architectures, each with the compiler's options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdlc.errors import ConstraintError, UsageError
from xdlc.options import spell
from xdlc.runtime.htp import CompileOptions
from xdlc.runtime.htp.unsupported_op import without_htp
from xdlc.targets import FIRST_HTP, Soc, all_socs, arch_numbers, find_arch, find_soc

_USUAL = CompileOptions(optimization_level=2)


@dataclass(frozen=True, slots=True)
class Target:
    """A SoC to compile for.

    Attributes:
        options: The compiler's options for it.
    """

    soc: Soc
    options: CompileOptions

    @property
    def name(self) -> str:
        """Name of the SoC."""
        return self.soc.name


def targets(
    socs: Sequence[str],
    archs: Sequence[str | int] = (),
    options: CompileOptions = _USUAL,
) -> list[Target]:
    """Return the compile targets, in the order of the SoCs.

    A cache runs on SoCs of its architecture and later ones that have as much VTCM as it plans for.  One
    for an architecture is therefore compiled for the architecture only, and plans for the smallest VTCM
    of all its SoCs that are known: it runs on each of them, on the larger ones slower than a cache of
    their own.  Its record is named after the SoC that the vendor's library enters into it.

    Args:
        socs: Names or ids of SoCs.
        archs: Architectures like ``v73`` or 73, instead of SoCs.
        options: Options of all; VTCM of 0 and None mean all that the SoC has.

    Raises:
        UsageError: If one is not known, none or both kinds are given, or an option does not fit.
        ConstraintError: If one has no HTP.
    """
    if archs and (socs or options.vtcm_mb is not None):
        other = "SoCs" if socs else spell("vtcm_override")
        raise UsageError(
            f"{spell('htp_archs')} and {other} exclude each other",
            fix="pass only architectures, or only SoCs",
        )
    if options.share_weights and options.share_graph_weights:
        raise UsageError(
            f"{spell('share_weights')} and {spell('share_graph_weights')} exclude each other",
            fix="pass only one of the two options",
        )
    if not socs and not archs:
        raise UsageError("no SoC is named", fix="name SoCs, like sm8550,sm8650", code="XD202")
    chosen = dict(_of_archs(archs)) if archs else dict(_of_socs(socs, options.vtcm_mb))
    return [
        Target(soc, replace(options, vtcm_mb=vtcm_mb, arch_only=bool(archs)))
        for soc, vtcm_mb in chosen.items()
    ]


def _of_socs(names: Sequence[str], vtcm: int | None) -> Iterator[tuple[Soc, int]]:
    for soc in map(find_soc, names):
        if not soc.has_htp:
            raise without_htp(soc)
        if vtcm and soc.vtcm_mb and vtcm > soc.vtcm_mb:
            raise UsageError(
                f"{soc.name} has {soc.vtcm_mb} MB of VTCM, not {vtcm} MB",
                fix=f"give at most {soc.vtcm_mb} MB, or omit {spell('vtcm_override')}",
            )
        yield soc, vtcm or soc.vtcm_mb or 0


def _of_archs(archs: Sequence[str | int]) -> Iterator[tuple[Soc, int | None]]:
    for given in archs:
        number = _number(given)
        arch = find_arch(number)
        if number < FIRST_HTP:
            raise ConstraintError(
                f"{arch.name} has no HTP: it is the architecture of an older DSP",
                fix="omit the architecture; HTP starts with v68",
            )
        socs = [soc for soc in all_socs() if soc.arch == number]
        sizes = [soc.vtcm_mb for soc in socs if soc.vtcm_mb]
        yield find_soc(arch.default_soc or socs[0].id), min(sizes, default=None)


def _number(given: str | int) -> int:
    text = str(given).strip().lower().removeprefix("v")
    if not (text.isascii() and text.isdecimal() and len(text) < 4):
        known = ",".join(f"v{number}" for number in arch_numbers() if number >= FIRST_HTP)
        raise UsageError(f"{given!r} is not an architecture", fix=f"use one of {known}")
    return int(text)
