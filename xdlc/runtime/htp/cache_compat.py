"""Rules of a cache on a device: architecture, vector memory, SoC, SDK."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdlc.container.cache_entry import CacheEntry
from xdlc.runtime.htp.library import find_version
from xdlc.targets import Soc

_SHOWN = 40


def judge(
    entry: CacheEntry, made_for: Soc | None, device: Soc, sdk: tuple[int, ...] | None, *, strict: bool
) -> Iterator[Finding | Unchecked]:
    """Yield the rules that a cache breaks on a device, and the unknown ones.

    Args:
        entry: The cache's description.
        made_for: The SoC that it was compiled for, if known.
        device: The device's SoC.
        sdk: Version of the device's SDK; None if not known.
        strict: Whether the cache has to use the device fully.
    """
    yield from _arch(entry, device, strict)
    yield from _vtcm(entry, made_for, device, strict)
    if strict and entry.soc_id != device.id:
        found = made_for.name if made_for else f"id {entry.soc_id}" if entry.soc_id is not None else "no id"
        yield Finding("soc", found, device.name)
    yield from _sdk(entry, sdk)


def _arch(entry: CacheEntry, device: Soc, strict: bool) -> Iterator[Finding]:
    name = device.capabilities.name
    accepted = name if strict else f"{name} or lower"
    if entry.arch is None:
        yield Finding("arch", "none stated", accepted)
    elif entry.arch > device.arch or (strict and entry.arch != device.arch):
        yield Finding("arch", f"v{entry.arch}", accepted)


def _vtcm(
    entry: CacheEntry, made_for: Soc | None, device: Soc, strict: bool
) -> Iterator[Finding | Unchecked]:
    if device.vtcm_mb is None:
        yield Unchecked("vtcm", f"the vector memory of {device.name} is not known")
        return
    needed = entry.vtcm_mb
    accepted = f"{device.vtcm_mb} MB" + (f", all that {device.name} has" if strict else " or less")
    if needed == 0:
        needed = made_for.vtcm_mb if made_for else None
        if needed is None:
            yield Unchecked("vtcm", "the record uses all of its SoC's vector memory, whose size is not known")
            return
    if needed is None:
        yield Finding("vtcm", "none stated", accepted)
    elif needed > device.vtcm_mb or (strict and needed != device.vtcm_mb):
        yield Finding("vtcm", f"{needed} MB", accepted)


def _sdk(entry: CacheEntry, sdk: tuple[int, ...] | None) -> Iterator[Finding | Unchecked]:
    if sdk is None:
        yield Unchecked("sdk", "no version of the device's SDK is given, and no vendor package is installed")
        return
    made_with = find_version(entry.build)
    if made_with is None:
        stated = "none" if entry.build is None else repr(entry.build[:_SHOWN])
        yield Unchecked("sdk", f"the record's build, {stated}, has no version")
    elif made_with[: len(sdk)] > sdk:
        yield Finding("sdk", ".".join(map(str, made_with)), f"{'.'.join(map(str, sdk))} or older")


RULES = {
    "record": "the record is whole and listed",
    "mode": "the mode allows stored records",
    "outputs": "the outputs requested are those of the record",
    "graph": "the model's graph is the one that was compiled",
    "arch": "the device's architecture is that of the record or a later one; strict: the same",
    "vtcm": "the device has the vector memory that the record plans for; strict: and no more",
    "soc": "strict: the record was compiled for the device's SoC",
    "sdk": "the device's SDK is that of the record or a later one",
    "fp16": "the device computes in the record's floating point",
}
"""Id of each rule, which stays as it is, and what it requires."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken.

    Attributes:
        rule: Its id, a key of ``RULES``.
        found: The value found.
        accepted: The values that would do.
    """

    rule: str
    found: str
    accepted: str

    def __str__(self) -> str:
        return f"{self.rule}: found {self.found}, accepted {self.accepted}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A rule that could not be judged.

    Attributes:
        rule: Its id, a key of ``RULES``.
        reason: What is not known.
    """

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"
