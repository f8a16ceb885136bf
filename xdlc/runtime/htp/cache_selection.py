"""Which cache record of a model a device runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdlc.container.cache_entry import CacheEntry, read_entry
from xdlc.container.caches import Cache, caches
from xdlc.errors import ConstraintError
from xdlc.ir import Model
from xdlc.runtime.htp.cache_verdict import ALWAYS_NEW, Verdict, device_soc, soc_of, table
from xdlc.targets import Soc, find_soc

DEFAULT_SOC = "sm8650"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a device runs.

    Attributes:
        soc: Name of the device's SoC.
        records: The caches that it can use, the best one first; without one it has to compile the model.
        verdicts: What is to say about each cache of the model on this device.
        notes: Why caches were not even judged.
    """

    soc: str
    records: tuple[Cache, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """Why caches are not used, a sentence for each."""
        return [*self.notes, *(f"{row.record}: {row.reason}" for row in self.verdicts if not row.usable)]


def choose(model: Model, soc: str | None, *, outputs: Sequence[str], mode: str) -> Choice:
    """Return what a device runs: of the caches it can use, the one made for it, or else the most capable.

    Args:
        model: The model.
        soc: Name of the device's SoC; None for the one that the first usable cache was compiled for.
        outputs: Names of the tensors that are asked for.
        mode: How caches are judged, see ``verdict.MODES``.

    Raises:
        UsageError: If the SoC or the mode is not known.
        ConstraintError: If the SoC has no HTP.
    """
    held = {cache.name: (cache, read_entry(cache.entry)) for cache in caches(model)}
    made_for = {name: soc_of(*cache) for name, cache in held.items()}
    if soc is not None and not find_soc(soc).arch:
        device = find_soc(soc)
        notes = [f"{name}: the architecture of {device.name}'s DSP is not known" for name in held]
        return Choice(device.name, (), (), tuple(notes))
    devices = [device_soc(soc or DEFAULT_SOC)]
    if mode == ALWAYS_NEW:
        why = (f"{', '.join(held)}: {ALWAYS_NEW} takes no record",) if held else ()
        return Choice(devices[0].name, (), (), why)
    if soc is None:
        natives = dict.fromkeys(native for native in made_for.values() if native and native.has_htp)
        devices = [*natives, *(device for device in devices if device not in natives)]
    rows = table(model, devices, outputs=outputs, modes=[mode])
    device = devices[-1]
    if soc is None:
        names = (_name(made_for[row.record]) for row in rows if row.usable and _is_own(row, made_for))
        device = find_soc(next(names, DEFAULT_SOC))
    own = tuple(row for row in rows if row.device == device.name)
    usable = [held[row.record] for row in own if row.usable]
    usable.sort(key=lambda cache: _rank(cache, device), reverse=True)
    return Choice(device.name, tuple(cache for cache, _ in usable), own)


def _is_own(row: Verdict, made_for: dict[str, Soc | None]) -> bool:
    return _name(made_for[row.record]) == row.device


def _name(soc: Soc | None) -> str:
    return soc.name if soc else ""


def _rank(cache: tuple[Cache, CacheEntry], device: Soc) -> tuple[bool, int, int]:
    soc = soc_of(*cache)
    entry = cache[1]
    return soc == device, entry.arch or 0, entry.vtcm_mb or (soc.vtcm_mb if soc else 0) or 0


def refuse_to_compile(
    choice: Choice, failures: Sequence[str] = (), outputs: Sequence[str] = ()
) -> ConstraintError:
    """Return the error of a caller who wants a cache and nothing else.

    Args:
        choice: What is to say about the caches.
        failures: Why those that should be usable cannot be loaded.
        outputs: Names of the tensors that are asked for.
    """
    reasons = "; ".join([*failures, *choice.reasons]) or "there is none"
    flags = f"--htp_socs {choice.soc}"
    if any(broken.rule == "outputs" for row in choice.verdicts for broken in row.failed):
        flags += f" --set_output_tensors {','.join(outputs)}"
    return ConstraintError(
        f"no cache is usable on {choice.soc}: {reasons}",
        fix=f"prepare the model for it: xdlc-graph-prepare {flags}",
    )
