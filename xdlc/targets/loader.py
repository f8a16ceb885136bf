"""SoC tables, one TOML file for each generation of the DSP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.records import record

FIRST_HTP = 68
"""First generation whose DSP is an HTP."""
_DATA = Path(__file__).parent / "data"


@record(frozen=True)
class Arch:
    """Capabilities of a generation of the Hexagon DSP.

    Attributes:
        number: Like 75 for v75; 0 where the generation is not known.
        a8w8: 8-bit activations and weights.
        a8w4: 8-bit activations with 4-bit weights, by the emulation of SDK 2.51.
        per_channel: Weight encodings with one scale per channel.
        a16w8: 16-bit activations with 8-bit weights.
        a16w4: 16-bit activations with 4-bit weights.
        a16w2: 16-bit activations with 2-bit weights, by the emulation of SDK 2.51.
        a16w16: 16-bit activations with 16-bit weights; also 16-bit weights of LayerNorm and
            Batchnorm and a 16-bit second input of MatMul.
        lpbq: Block scales over channel scales on 4-bit weights.
        float_blocks: Integer weights with float scales per block in products of float16.
        fp16: Float graphs, by the vendor's documentation; ``Soc.fp16`` is what its compiler accepts.
        weight_sharing: One copy of the weights for several graphs of a cache.
        default_soc: SoC that the vendor's library (SDK 2.51) enters for the generation alone.
    """

    number: int
    a8w8: bool = False
    a8w4: bool = False
    per_channel: bool = False
    a16w8: bool = False
    a16w4: bool = False
    a16w2: bool = False
    a16w16: bool = False
    lpbq: bool = False
    float_blocks: bool = False
    fp16: bool = False
    bf16: bool = False
    weight_sharing: bool = False
    multi_core: bool = False
    default_soc: int | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """Name like ``v75``, or ``unknown``."""
        return f"v{self.number}" if self.number else "unknown"


@record(frozen=True)
class Soc:
    """A system on chip.

    Attributes:
        name: Lower-case name as in cache records, like ``sm8650``.
        id: ``soc_model`` of the QNN API; not the number that ``/sys/devices/soc0/soc_id`` holds.
        arch: Generation of its DSP, like 75 for v75; 0 if not known.
        vtcm_mb: Size of the HTP's fast memory in MB; None if not known.
        fp16: Whether the vendor's compiler accepts float graphs for it.
        hta: Whether it has a Hexagon Tensor Accelerator.
        aliases: Other names of the same id.  Marketing names are those of SNPE's list of devices
            (80-63442-2); SM8750, SM8850 and SC8380XP have their later names.
    """

    name: str
    id: int
    arch: int
    vtcm_mb: int | None = None
    fp16: bool = False
    hta: bool = False
    aliases: tuple[str, ...] = ()
    note: str = ""

    @property
    def has_htp(self) -> bool:
        """Whether its DSP is an HTP, for which graphs can be compiled."""
        return self.arch >= FIRST_HTP

    @property
    def capabilities(self) -> Arch:
        """Capabilities of its generation."""
        return find_arch(self.arch)


@cache
def _tables() -> tuple[dict[int, Arch], tuple[Soc, ...]]:
    import tomllib

    archs: dict[int, Arch] = {}
    socs: list[Soc] = []
    for path in sorted(_DATA.glob("*.toml")):
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        number = table["arch"]
        archs[number] = Arch(
            number,
            **table["capabilities"],
            default_soc=table.get("default_soc"),
            note=table.get("note", ""),
        )
        for entry in table["soc"]:
            aliases = tuple(entry.pop("aliases", ()))
            socs.append(Soc(arch=number, aliases=aliases, **entry))
    return archs, tuple(sorted(socs, key=lambda soc: soc.id))


def all_socs() -> tuple[Soc, ...]:
    """Return every known SoC by id."""
    return _tables()[1]


@cache
def arch_numbers() -> tuple[int, ...]:
    """Return the numbers of the known generations in order; the tables are not read."""
    return tuple(sorted(int(path.stem[1:]) for path in _DATA.glob("v*.toml")))


def all_archs() -> tuple[Arch, ...]:
    """Return every known generation, the unknown one first."""
    return tuple(arch for _, arch in sorted(_tables()[0].items()))


def one_of_each() -> Iterator[Soc]:
    """Yield the most capable SoC of each HTP architecture, the first of equals."""
    for arch in all_archs():
        socs = [soc for soc in all_socs() if soc.arch == arch.number and soc.has_htp]
        if socs:
            yield max(socs, key=lambda soc: (soc.fp16, soc.vtcm_mb or 0))


def find_arch(number: int) -> Arch:
    """Return a generation, like 75.

    Raises:
        UsageError: If it is not known.
    """
    archs = _tables()[0]
    if number not in archs:
        known = ", ".join(arch.name for arch in all_archs() if arch.number)
        raise UsageError(f"unknown DSP architecture v{number}", fix=f"use one of {known}")
    return archs[number]


def find_soc(name_or_id: str | int) -> Soc:
    """Return the SoC of a name in any case, an alias like a marketing name, or an id.

    Raises:
        UsageError: If no SoC has it, with the names that come closest.

    Example:
        >>> find_soc("SM8650").id, find_soc("57").name, find_soc("8 Gen 3").name
        (57, 'sm8650', 'sm8650')
    """
    word = str(name_or_id).strip().lower()
    for soc in all_socs():
        if not {word, f"snapdragon {word}"}.isdisjoint((soc.name, str(soc.id), *soc.aliases)):
            return soc
    names = [name for soc in all_socs() for name in (soc.name, *soc.aliases)]
    usual = "use the part's name, like sm8650 for Snapdragon 8 Gen 3 (adb shell getprop ro.soc.model)"
    fix = nearest_names(word, names, most=6) or usual
    fix = "name one SoC" if "," in word else fix
    raise UsageError(f"unknown SoC {name_or_id!r}", fix=fix, code="XD203")


CAPABILITIES = tuple(field.name for field in fields(Arch) if field.type == "bool")
"""Names of the capabilities of an ``Arch``."""
