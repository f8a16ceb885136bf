"""Encodings in two sections: the vendor's quantization_overrides, and AIMET's formats 0.4.0 to 1.0.0.

    {"version": "0.6.1",
     "activation_encodings": {"name": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False",
                                        "min": -1.0, "max": 1.0, "scale": 0.0078, "offset": -128}]},
     "param_encodings": {"name": [{...}, ...]}}

    {"version": "1.0.0",
     "activation_encodings": [{"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8,
                               "is_sym": false, "scale": [0.0078], "offset": [-128]}],
     "param_encodings": [...], "excluded_layers": []}

Up to 0.6.1 a tensor has a row for each output channel, or one; AIMET's file for PyTorch has activations by
module instead of by name: ``{"conv1": {"input": {"0": {...}}, "output": {"0": {...}}}}``.  In 1.0.0 a row has
lists: channels are those of the output, blocks those of the input, the blocks of a channel after one another.
Offsets count from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import UsageError
from xdlc.quant.overrides.fields import Fields, shown
from xdlc.quant.overrides.modules import Port
from xdlc.quant.overrides.override import Grain, Override, Stated, normalised
from xdlc.runtime.export import aimet

SECTIONS = {"activation_encodings": "activation", "param_encodings": "param"}
INTEGER_BITS = (2, 4, 8, 16, 32)
FLOAT_BITS = (16, 32)


@dataclass(frozen=True, slots=True)
class Version:
    """Fields of a row in a version of the files.

    Attributes:
        name: Its name in a file.
        bits: Field of the bits.
        symmetric: Field of whether the offset is that of signed integers.
        integer: Word for integers in the field ``dtype``; empty: there is no such field, nor floats.
        floats: Words for floats, the first of which is written.
        by_name: Whether rows are lists by tensor name; else each row has a name, and lists of scales.
        has_arguments: Whether the file has ``quantizer_args``.
    """

    name: str
    bits: str = "bitwidth"
    symmetric: str = "is_symmetric"
    integer: str = "int"
    floats: tuple[str, ...] = ("float",)
    by_name: bool = True
    has_arguments: bool = False


VERSIONS = (
    Version("0.4.0", integer=""),
    Version("0.5.0"),
    Version("0.6.1", has_arguments=True),
    Version(aimet.VERSION, "bw", "is_sym", "INT", ("FLOAT", "FP"), by_name=False),
)
BY_NAME, LISTED = VERSIONS[-2:]
"""The versions that others are read as: fields that a version lacks are optional."""

_SIDES = {"input", "output"}
_GRAINS = {
    "PER_TENSOR": Grain.TENSOR,
    "PER_CHANNEL": Grain.CHANNEL,
    "PER_BLOCK": Grain.BLOCK,
    "LPBQ": Grain.EXPANSION,
}
_NAMES = {grain: name for name, grain in _GRAINS.items()}


def entries(version: Version, content: Fields) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the entries of a file: kind, name, and the rows or row."""
    for section, kind in SECTIONS.items():
        stated = content.get(section)
        if stated is None:
            continue
        if not isinstance(stated, dict if version.by_name else list):
            form = "an object" if version.by_name else "a list"
            raise content.error(f"{section} is {shown(stated)}, not {form}", f"write the entries as {form}")
        if isinstance(stated, list):
            for index, row in enumerate(stated):
                yield kind, Fields(row, f"{content.where}: {section}[{index}]").text("name"), row
            continue
        for name, rows in stated.items():
            if kind == "activation" and isinstance(rows, dict) and rows and rows.keys() <= _SIDES:
                yield from _ports(content, name, rows)
            else:
                yield kind, name, rows


def _ports(content: Fields, module: str, value: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the entries of a module."""
    for side, held in value.items():
        if not isinstance(held, dict) or not all(index.isascii() and index.isdigit() for index in held):
            raise content.error(
                f"{side} of module {module!r} is {shown(held)}, not an object",
                "write the entries by position",
            )
        for index, entry in held.items():
            yield "activation", Port(module, side, int(index[:9])), [entry]


def read(version: Version, kind: str, name: str, value: Any, where: str) -> Override:
    """Return the encoding of one tensor.

    Raises:
        UsageError: If the entry is not of this version.
    """
    rows = _rows_of(name, value, where) if version.by_name else [Fields(value, where)]
    first = rows[0]
    dtype = str(first.get("dtype") or version.integer).upper()
    if dtype in map(str.upper, version.floats):
        return Override(name, kind, first.choice(version.bits, FLOAT_BITS), is_float=True, where=where)
    if dtype != version.integer.upper():
        words = f"{version.integer} or {version.floats[0]}"
        raise first.error(f"dtype is {shown(first.get('dtype'))}", f"write {words}")
    return _by_rows(kind, name, rows, where) if version.by_name else _by_lists(kind, name, first)


def _rows_of(name: str, value: Any, where: str) -> list[Fields]:
    if not isinstance(value, list) or not value:
        raise UsageError(f"is {shown(value)}, not a list of encodings", where=where, fix="write [{...}]")
    if not name:
        raise UsageError("has no name", where=where, fix="write the tensor's name")
    places = [f"{where}[{index}]" for index in range(len(value))] if len(value) > 1 else [where]
    return [Fields(item, place) for item, place in zip(value, places, strict=True)]


def _by_rows(kind: str, name: str, rows: Sequence[Fields], where: str) -> Override:
    bits = rows[0].choice(BY_NAME.bits, INTEGER_BITS)
    if len(rows) > 1 and kind == "activation":
        raise UsageError(
            f"has {len(rows)} encodings; an activation has one",
            where=where,
            fix="write one encoding, or move the entry to param_encodings",
        )
    for row in rows[1:]:
        other = str(row.get("dtype") or BY_NAME.integer).lower()
        if row.choice(BY_NAME.bits, INTEGER_BITS) != bits or other != BY_NAME.integer:
            raise row.error("differs from the first channel in bits or dtype", "give all channels the same")
    steps = [normalised(_stated(row, bits), row.where) for row in rows]
    if len(rows) > 1 and not all(step.symmetric for step in steps):
        raise UsageError(
            "has a channel that is not symmetric; scales per channel have no offsets",
            where=where,
            fix="make all channels symmetric, or write one encoding for the tensor",
        )
    grain = Grain.CHANNEL if len(rows) > 1 else Grain.TENSOR
    return Override.of(name, kind, bits, steps, grain=grain, where=where)


def _stated(row: Fields, bits: int) -> Stated:
    return Stated(
        bits,
        row.number("min"),
        row.number("max"),
        row.number("scale"),
        row.whole("offset") if "offset" in row else None,
        row.flag(BY_NAME.symmetric),
    )


def _by_lists(kind: str, name: str, row: Fields) -> Override:
    grain = _GRAINS.get(str(row.get("enc_type") or "PER_TENSOR").upper())
    if grain is None:
        raise row.error(f"enc_type is {shown(row.get('enc_type'))}", f"use one of {', '.join(_GRAINS)}")
    if grain is not Grain.TENSOR and kind == "activation":
        raise row.error("is an activation with more than one scale", "write enc_type PER_TENSOR")
    return _expansion(kind, name, row) if grain is Grain.EXPANSION else _affine(kind, name, row, grain)


def _affine(kind: str, name: str, row: Fields, grain: Grain) -> Override:
    bits, symmetric = row.choice(LISTED.bits, INTEGER_BITS), row.flag(LISTED.symmetric)
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
    wide = row.choice(LISTED.bits, (8, 16))
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


def write(overrides: Sequence[Override], version: Version) -> dict[str, Any]:
    """Return the content of a file; what stays float is omitted where the version has no word for it.

    Raises:
        UsageError: If an encoding has scales per block, and the version has none.
    """
    form = dict if version.by_name else list
    content: dict[str, Any] = {"version": version.name} | {section: form() for section in SECTIONS}
    sections = {kind: content[section] for section, kind in SECTIONS.items()}
    for override in overrides:
        section = sections[override.kind or "activation"]
        if not version.by_name:
            section.append({"name": override.name, **_listed(override)})
        elif version.integer or not override.is_float:
            section[override.name] = _rows(override, version)
    if version.has_arguments:
        content["quantizer_args"] = _arguments(overrides)
    return content if version.by_name else content | {"excluded_layers": []}


def _rows(override: Override, version: Version) -> list[dict[str, Any]]:
    if override.grain not in (Grain.TENSOR, Grain.CHANNEL):
        raise UsageError(
            f"scales per block have no form in version {version.name}",
            where=f"tensor {override.name!r}",
            fix="export version 1.0.0 or 2.0.0",
        )
    head: dict[str, Any] = {version.bits: override.bits}
    if version.integer:
        head["dtype"] = version.floats[0] if override.is_float else version.integer
    steps = (1 << override.bits) - 1
    return [
        head
        | {
            version.symmetric: str(override.symmetric),
            "max": scale * (offset + steps),
            "min": scale * offset,
            "offset": offset,
            "scale": scale,
        }
        for scale, offset in zip(override.scales, override.offsets, strict=True)
    ] or [head]


def _arguments(overrides: Sequence[Override]) -> dict[str, Any]:
    """Return what the encodings have in common, as AIMET notes its arguments: the most frequent bits."""
    found: dict[str, Any] = {"dtype": "int"}
    for key, kind in (("activation_bitwidth", "activation"), ("param_bitwidth", "param")):
        bits = [entry.bits for entry in overrides if entry.kind == kind and not entry.is_float]
        if bits:
            found[key] = max(sorted(set(bits)), key=bits.count)
    params = [entry for entry in overrides if entry.kind == "param" and not entry.is_float]
    found["is_symmetric"] = str(any(entry.symmetric for entry in params))
    found["per_channel_quantization"] = str(any(entry.grain is Grain.CHANNEL for entry in params))
    return found


def _listed(override: Override) -> dict[str, Any]:
    kind = _NAMES[override.grain]
    if override.is_float:
        return {"enc_type": kind, "dtype": LISTED.floats[0], LISTED.bits: override.bits}
    made = aimet.entry(kind, override.bits, override.scales, override.offsets, symmetric=override.symmetric)
    if override.block_size is not None:
        made["block_size"] = override.block_size
    if override.block_scales:
        wide = override.bits + override.block_scale_bits
        made |= {
            LISTED.bits: wide,
            "offset": [-(1 << (wide - 1))] * len(override.scales),
            "compressed_bw": override.bits,
            "per_block_int_scale": list(override.block_scales),
        }
    return made
