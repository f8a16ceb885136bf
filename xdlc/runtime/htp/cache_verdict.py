"""Verdicts on a model's cache records on a device, and the choice of one.

The rules are the vendor's (public documentation of SNPE 2 and QAIRT): a record runs where architecture,
vector memory and SDK are at least what it was made with, if the outputs requested are its own.  In strict
mode it has to use the device fully: made for this very SoC and all of its vector memory.  xdlc adds two:
the graph is still the one that was compiled, and the record is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xdlc.container.cache_entry import CacheEntry, read_entry
from xdlc.container.caches import Cache, caches, shared_weights
from xdlc.errors import ConstraintError, UsageError, nearest_names
from xdlc.ir import Model
from xdlc.options import DEFAULT_SOC, spell
from xdlc.options.running import CACHE_MODES
from xdlc.runtime.htp.cache_validity import CacheValidity, Finding, Unchecked, float_ops, judge
from xdlc.runtime.htp.library import installed_sdk, read_version
from xdlc.runtime.htp.unsupported_op import without_htp
from xdlc.targets import Soc, all_socs, find_soc

PERMISSIVE, STRICT, ALWAYS_NEW = CACHE_MODES


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on a record and a device.

    Attributes:
        mode: Which of ``CACHE_MODES`` it was judged in.
        failed: The rules that the record breaks.
        unjudged: The rules that could not be judged, and why.
    """

    record: str
    device: str
    mode: str
    failed: tuple[Finding, ...]
    unjudged: tuple[Unchecked, ...]

    @property
    def usable(self) -> bool:
        """Whether no rule is broken."""
        return not self.failed

    @property
    def reason(self) -> str:
        """The broken rules with actual and accepted values; "" if there are none."""
        return "; ".join(map(str, self.failed))

    def words(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON."""
        return {**asdict(self), "usable": self.usable}


def verdicts(
    model: Model,
    device: str,
    *,
    outputs: Iterable[str] | None = None,
    mode: str = PERMISSIVE,
    sdk: str | None = None,
) -> list[Verdict]:
    """Return a verdict for each cache record of a model.

    Args:
        device: Name, alias or id of the device's SoC.
        outputs: Names of the tensors that are requested; default: the outputs of the model's main graph.
        mode: ``permissive``, ``strict``, or ``always_generate_new``, in which no record will do.
        sdk: Version of the device's SDK, like ``2.40``; default: that of the vendor's package installed here.

    Raises:
        UsageError: If the SoC, the mode, the version or an output is not known.
        ConstraintError: If the device has no HTP.
    """
    return table(model, [device_soc(device)], outputs=outputs, modes=[mode], sdk=sdk)


def table(
    model: Model,
    devices: Sequence[Soc],
    *,
    outputs: Iterable[str] | None = None,
    modes: Sequence[str] = (PERMISSIVE, STRICT),
    sdk: str | None = None,
) -> list[Verdict]:
    """Return verdicts by record (slowest), device and mode (fastest)."""
    for mode in modes:
        if mode not in CACHE_MODES:
            raise UsageError(
                f"there is no mode {mode!r}",
                fix=nearest_names(mode, CACHE_MODES) or f"use one of {', '.join(CACHE_MODES)}",
            )
    version = read_version(sdk) if sdk is not None else installed_sdk()
    fresh = CacheValidity(model, outputs)
    rows = []
    for cache in caches(model):
        entry = read_entry(cache.entry)
        made_for = soc_of(cache, entry)
        common = list(_of_record(model, cache, entry, fresh))
        for soc in devices:
            for mode in modes:
                found = [*_of_mode(mode), *common]
                if cache.entry is not None:
                    found += judge(entry, made_for, soc, version, strict=mode == STRICT)
                    found += fresh.judge_precision(cache.name, made_for, soc)
                rows.append(_verdict(cache.name, soc.name, mode, found))
    return rows


def lacking(model: Model, rows: Sequence[Verdict], devices: Sequence[Soc]) -> list[ConstraintError]:
    """Return a problem for each device that no record is usable on."""
    problems = []
    for device in devices:
        own = [row for row in rows if row.device == device.name]
        if any(row.usable for row in own):
            continue
        problem = f"none of {len(own)} cache(s) is usable" if own else "there is no cache"
        fix = f"prepare the model for this SoC: {spell('prepare.socs', [device.name])}"
        floats = 0 if device.fp16 else sum(float_ops(graph.ops) for graph in model.graphs.values())
        if floats:
            fix = f"quantize the model first: {floats} op(s) are in floating point; {device.name} has no FP16"
        problems.append(ConstraintError(f"{problem} on {device.name}", fix=fix, code="XD107"))
    return problems


def _of_record(
    model: Model, cache: Cache, entry: CacheEntry, fresh: CacheValidity
) -> Iterator[Finding | Unchecked]:
    """Yield the rules that a cache breaks on any device."""
    if cache.problem:
        yield Finding("record", cache.problem, "a complete record that cacheList describes")
    gone = [name for name in shared_weights(model, cache.name) if name not in model.records]
    if gone:
        yield Finding("record", f"no {', '.join(gone)} in the file", "all shared weights")
    if cache.entry is not None:
        yield from fresh.judge(cache, entry)


def _of_mode(mode: str) -> Iterator[Finding]:
    if mode == ALWAYS_NEW:
        yield Finding("mode", "a stored record", f"none: {ALWAYS_NEW} uses no record")


def _verdict(record: str, device: str, mode: str, findings: Sequence[Finding | Unchecked]) -> Verdict:
    return Verdict(
        record,
        device,
        mode,
        tuple(finding for finding in findings if isinstance(finding, Finding)),
        tuple(finding for finding in findings if isinstance(finding, Unchecked)),
    )


def soc_of(cache: Cache, entry: CacheEntry) -> Soc | None:
    """Return the SoC of a cache by its entry or its name, or None."""
    for soc in all_socs():
        if soc.id == entry.soc_id if entry.soc_id is not None else cache.soc in (soc.name, *soc.aliases):
            return soc
    return None


def device_soc(device: str) -> Soc:
    """Return the SoC of a device, which has an HTP.

    Raises:
        UsageError: If it is not known.
        ConstraintError: If it has no HTP, or its architecture is not known.
    """
    soc = find_soc(device)
    if not soc.arch:
        raise ConstraintError(
            f"the architecture of {soc.name}'s DSP is unknown, so xdlc cannot judge caches",
            fix="name another SoC; xdlc doctor lists the SoCs",
        )
    if not soc.has_htp:
        raise without_htp(soc)
    return soc


@dataclass(frozen=True, slots=True)
class Choice:
    """Caches that a device can run.

    Attributes:
        records: The caches that it can use, the best one first; without one it has to compile the model.
        verdicts: The verdict on each cache of the model on this device.
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
    """Return the cache that a device runs: its own, or the most capable.

    Args:
        soc: Name of the device's SoC; None for the one that the first usable cache was compiled for.
        outputs: Names of the tensors that are requested.
        mode: How caches are judged, see ``CACHE_MODES``.

    Raises:
        UsageError: If the SoC or the mode is not known.
        ConstraintError: If the SoC has no HTP.
    """
    entries = {cache.name: (cache, read_entry(cache.entry)) for cache in caches(model)}
    made_for = {name: soc_of(*cache) for name, cache in entries.items()}
    if soc is not None and not find_soc(soc).arch:
        device = find_soc(soc)
        notes = [f"{name}: the architecture of {device.name}'s DSP is unknown" for name in entries]
        return Choice(device.name, (), (), tuple(notes))
    devices = [device_soc(soc or DEFAULT_SOC)]
    if mode == ALWAYS_NEW:
        why = (f"{', '.join(entries)}: {ALWAYS_NEW} uses no record",) if entries else ()
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
    usable = [entries[row.record] for row in own if row.usable]
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
    """Return the error where a cache is required and none is usable.

    Args:
        failures: Why those that should be usable cannot be loaded.
        outputs: Names of the tensors that are requested.
    """
    reasons = "; ".join([*failures, *choice.reasons]) or "the model has no cache"
    fix = f"prepare the model for this SoC: {spell('prepare.socs', [choice.soc])}"
    if any(broken.rule == "outputs" for row in choice.verdicts for broken in row.failed):
        fix += f" {spell('set_output_tensors', outputs)}"
    return ConstraintError(f"no cache is usable on {choice.soc}: {reasons}", fix=fix, code="XD107")
