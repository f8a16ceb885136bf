"""Encodings as lists of named entries: AIMET's format 1.0.0.

    {"version": "1.0.0",
     "activation_encodings": [{"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8,
                               "is_sym": false, "scale": [0.0078], "offset": [-128]}],
     "param_encodings": [...], "excluded_layers": []}

Offsets count from 0.  Channels are those of the output, blocks those of the input; scales of blocks
are flat, the blocks of a channel after one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdlc.errors import UsageError
from xdlc.quant.overrides.fields import Fields, shown
from xdlc.quant.overrides.format_0 import FLOAT_BITS, INTEGER_BITS, SECTIONS
from xdlc.quant.overrides.override import Grain, Override, Stated, normalised
from xdlc.runtime.export import aimet

VERSION = aimet.VERSION
_GRAINS = {
    "PER_TENSOR": Grain.TENSOR,
    "PER_CHANNEL": Grain.CHANNEL,
    "PER_BLOCK": Grain.BLOCK,
    "LPBQ": Grain.EXPANSION,
}
_NAMES = {grain: name for name, grain in _GRAINS.items()}


def entries(content: Fields) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the entries of a file: kind, name, and the entry."""
    for section, kind in SECTIONS.items():
        held = content.get(section)
        if held is not None and not isinstance(held, list):
            raise content.error(f"{section} is {shown(held)}, not a list", "write a list of entries")
        for index, value in enumerate(held or ()):
            yield kind, Fields(value, f"{content.where}: {section}[{index}]").text("name"), value


def read(kind: str, name: str, value: Any, where: str) -> Override:
    """Return the encoding of one tensor.

    Raises:
        UsageError: If the entry is not of this format.
    """
    row = Fields(value, where)
    dtype = str(row.get("dtype") or "INT").upper()
    if dtype in ("FLOAT", "FP"):
        return Override(name, kind, row.choice("bw", FLOAT_BITS), is_float=True, where=where)
    if dtype != "INT":
        raise row.error(f"dtype is {shown(row.get('dtype'))}", "write INT or FLOAT")
    grain = _GRAINS.get(str(row.get("enc_type") or "PER_TENSOR").upper())
    if grain is None:
        raise row.error(f"enc_type is {shown(row.get('enc_type'))}", f"use one of {', '.join(_GRAINS)}")
    if grain is not Grain.TENSOR and kind == "activation":
        raise row.error("is an activation with more than one scale", "write enc_type PER_TENSOR")
    return _expansion(kind, name, row) if grain is Grain.EXPANSION else _affine(kind, name, row, grain)


def _affine(kind: str, name: str, row: Fields, grain: Grain) -> Override:
    bits, symmetric = row.choice("bw", INTEGER_BITS), row.flag("is_sym")
    scales, low, high = (row.numbers(key) for key in ("scale", "min", "max"))
    offsets = row.wholes("offset")
    count = len(scales or low or ())
    if not count or any(len(given) not in (1, count) for given in (offsets, low, high) if given):
        raise row.error("scale and offset differ in length", "give one offset for each scale")
    if grain is Grain.TENSOR and count > 1:
        raise row.error(f"is PER_TENSOR with {count} scales", "write one scale, or enc_type PER_CHANNEL")
    size = positive(row, "block_size") if grain is Grain.BLOCK else None
    if scales is not None and offsets is not None and low is None and high is None:
        stated = Stated(bits, symmetric=symmetric, zero_is_signed=kind == "param")
        offsets = offsets * count if len(offsets) == 1 else offsets
        override = Override.of_scales(
            name, kind, stated, scales, offsets, grain=grain, block_size=size, where=row.where
        )
        if count > 1 and not override.symmetric:
            raise _asymmetric(row, bits)
        return override
    steps = [
        normalised(
            Stated(
                bits,
                _at(low, index),
                _at(high, index),
                _at(scales, index),
                None if offsets is None else offsets[index if len(offsets) > 1 else 0],
                symmetric,
                zero_is_signed=kind == "param",
            ),
            row.where,
        )
        for index in range(count)
    ]
    if count > 1 and not all(step.symmetric for step in steps):
        raise _asymmetric(row, bits)
    return Override.of(name, kind, bits, steps, grain=grain, block_size=size, where=row.where)


def _asymmetric(row: Fields, bits: int) -> UsageError:
    return row.error("has an offset that is not symmetric", f"write -{1 << (bits - 1)} for each channel")


def _at(values: list[float] | None, index: int) -> float | None:
    return None if values is None else values[index if len(values) > 1 else 0]


def positive(row: Fields, key: str) -> int:
    """Return a whole number above 0."""
    found = row.whole(key)
    if found < 1:
        raise row.error(f"{key} is {found}", "write a number from 1 on")
    return found


def _expansion(kind: str, name: str, row: Fields) -> Override:
    bits = row.choice("compressed_bw", (2, 4))
    wide = row.choice("bw", (8, 16))
    integers, scales, offsets = row.wholes("per_block_int_scale"), row.numbers("scale"), row.wholes("offset")
    halves = {0, -(1 << (bits - 1)), -(1 << (wide - 1))}
    if offsets is not None and not halves.issuperset(offsets):
        raise row.error("has offsets that are not symmetric", f"write -{1 << (wide - 1)} for each channel")
    return expansion(name, kind, row, bits, wide - bits, scales, integers)


def expansion(
    name: str,
    kind: str | None,
    row: Fields,
    bits: int,
    scale_bits: int,
    scales: list[float] | None,
    integers: list[int] | None,
) -> Override:
    """Return an encoding whose blocks have integer scales over one real scale per channel.

    Raises:
        UsageError: If the integers are no scales of blocks, or their number is no multiple of the channels.
    """
    if not scales or not integers or len(integers) % len(scales):
        raise row.error(
            f"has {len(integers or ())} scales of blocks for {len(scales or ())} channels",
            "give the same number of blocks to each channel",
        )
    if min(integers) < 1 or max(integers) > 1 << scale_bits:
        raise row.error(f"has scales of blocks that are not from 1 to {1 << scale_bits}", "correct them")
    steps = [normalised(Stated(bits, scale=scale, symmetric=True), row.where) for scale in scales]
    return Override.of(
        name,
        kind,
        bits,
        steps,
        grain=Grain.EXPANSION,
        block_size=positive(row, "block_size"),
        block_scales=tuple(integers),
        block_scale_bits=scale_bits,
        where=row.where,
    )


def write(overrides: Sequence[Override]) -> dict[str, Any]:
    """Return the content of a file."""
    content: dict[str, Any] = {"version": VERSION} | {section: [] for section in SECTIONS}
    sections = {kind: content[section] for section, kind in SECTIONS.items()}
    for override in overrides:
        sections[override.kind or "activation"].append({"name": override.name, **_entry(override)})
    content["excluded_layers"] = []
    return content


def _entry(override: Override) -> dict[str, Any]:
    kind = _NAMES[override.grain]
    if override.is_float:
        return {"enc_type": kind, "dtype": "FLOAT", "bw": override.bits}
    made = aimet.entry(kind, override.bits, override.scales, override.offsets, symmetric=override.symmetric)
    if override.block_size is not None:
        made["block_size"] = override.block_size
    if override.block_scales:
        wide = override.bits + override.block_scale_bits
        made |= {
            "bw": wide,
            "offset": [-(1 << (wide - 1))] * len(override.scales),
            "compressed_bw": override.bits,
            "per_block_int_scale": list(override.block_scales),
        }
    return made
