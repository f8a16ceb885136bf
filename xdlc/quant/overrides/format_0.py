"""Encodings by tensor name: the vendor's quantization_overrides, and AIMET's formats 0.4.0, 0.5.0 and 0.6.1.

    {"version": "0.6.1",
     "activation_encodings": {"name": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False",
                                        "min": -1.0, "max": 1.0, "scale": 0.0078, "offset": -128}]},
     "param_encodings": {"name": [{...}, ...]}}

``dtype`` is there from 0.5.0 on, ``quantizer_args`` from 0.6.1.  A list of several is one scale per
output channel.  AIMET's file for PyTorch has activations by module instead of by name:
``{"conv1": {"input": {"0": {...}}, "output": {"0": {...}}}}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdlc.errors import UsageError
from xdlc.quant.overrides.fields import Fields, shown
from xdlc.quant.overrides.modules import Port
from xdlc.quant.overrides.override import Grain, Override, Stated, normalised

SECTIONS = {"activation_encodings": "activation", "param_encodings": "param"}
VERSIONS = ("0.4.0", "0.5.0", "0.6.1")
INTEGER_BITS = (2, 4, 8, 16, 32)
FLOAT_BITS = (16, 32)
_SIDES = {"input", "output"}


def entries(content: Fields) -> Iterator[tuple[str, str, Any]]:
    """Iterate over the entries of a file: kind, name, and what is held for it."""
    for section, kind in SECTIONS.items():
        held = content.get(section)
        if held is not None and not isinstance(held, dict):
            raise content.error(
                f"{section} is {shown(held)}, not an object", "write the entries by tensor name"
            )
        for name, value in (held or {}).items():
            if kind == "activation" and isinstance(value, dict) and value and value.keys() <= _SIDES:
                yield from _ports(content, name, value)
            else:
                yield kind, name, value


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


def read(kind: str, name: str, value: Any, where: str) -> Override:
    """Return the encoding of one tensor.

    Raises:
        UsageError: If the entry is not of this format.
    """
    if not isinstance(value, list) or not value:
        raise UsageError(f"is {shown(value)}, not a list of encodings", where=where, fix="write [{...}]")
    if not name:
        raise UsageError("has no name", where=where, fix="write the tensor's name")
    places = [f"{where}[{index}]" for index in range(len(value))] if len(value) > 1 else [where]
    rows = [Fields(item, place) for item, place in zip(value, places, strict=True)]
    first = rows[0]
    dtype = str(first.get("dtype") or "int").lower()
    if dtype not in ("int", "float"):
        raise first.error(f"dtype is {shown(first.get('dtype'))}", "write int or float")
    if dtype == "float":
        return Override(name, kind, first.choice("bitwidth", FLOAT_BITS), is_float=True, where=where)
    bits = first.choice("bitwidth", INTEGER_BITS)
    if len(rows) > 1 and kind == "activation":
        raise UsageError(
            f"has {len(rows)} encodings; an activation has one",
            where=where,
            fix="write one encoding, or move the entry to param_encodings",
        )
    for row in rows[1:]:
        if row.choice("bitwidth", INTEGER_BITS) != bits or str(row.get("dtype") or "int").lower() != "int":
            raise row.error("differs from the first channel in bits or dtype", "give all channels the same")
    steps = [normalised(_stated(row, bits), row.where) for row in rows]
    if len(rows) > 1 and not all(step.symmetric for step in steps):
        raise UsageError(
            "has a channel that is not symmetric; scales per channel take no offsets",
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
        row.flag("is_symmetric"),
    )


def write(overrides: Sequence[Override], version: str) -> dict[str, Any]:
    """Return the content of a file; what stays float is omitted in 0.4.0, which has no word for it.

    Raises:
        UsageError: If an encoding has scales per block.
    """
    content: dict[str, Any] = {"version": version} | {section: {} for section in SECTIONS}
    sections = {kind: content[section] for section, kind in SECTIONS.items()}
    for override in overrides:
        if override.is_float and version == "0.4.0":
            continue
        sections[override.kind or "activation"][override.name] = _rows(override, version)
    if version == "0.6.1":
        content["quantizer_args"] = _arguments(overrides)
    return content


def _rows(override: Override, version: str) -> list[dict[str, Any]]:
    if override.grain not in (Grain.TENSOR, Grain.CHANNEL):
        raise UsageError(
            f"scales per block have no form in version {version}",
            where=f"tensor {override.name!r}",
            fix="export version 1.0.0 or 2.0.0",
        )
    head: dict[str, Any] = {"bitwidth": override.bits}
    if version != "0.4.0":
        head["dtype"] = "float" if override.is_float else "int"
    steps = (1 << override.bits) - 1
    return [
        head
        | {
            "is_symmetric": str(override.symmetric),
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
