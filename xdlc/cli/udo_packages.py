"""UDO packages of a model as lines of ``xdlc-info``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text
from xdlc.content.udo_packages import ANY


def package_lines(packages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of UDO packages: tables of types, inputs and outputs."""
    for package in packages:
        yield ""
        facts = [f"{key} {text.clean(package[key])}" for key in ("domain", "version") if package.get(key)]
        words = f"  ({', '.join(facts)})" if facts else ""
        yield f"user-defined operations of package {text.clean(package['name'])}{words}"
        if "problem" in package:
            yield f"  definitions cannot be read: {text.clean(package['problem'])}"
        elif not package["definition"]:
            yield "  the DLC has no definitions of this package; these lines describe its ops in the model"
        yield from text.table(("type", "ops", "cores"), list(map(_row, package["types"])), (28, 5))
        for held in package["types"]:
            yield from _type(held)


def _row(held: Mapping[str, Any]) -> tuple[str, ...]:
    cores = ", ".join(map(text.clean, held.get("cores", ())))
    if held.get("dsp_archs"):
        cores += f"\n{', '.join(held['dsp_archs'])}"
    return text.clean(held["type"]), str(held["count"]), cores or "?"


def _type(record: Mapping[str, Any]) -> Iterator[str]:
    if "inputs" not in record:
        return
    replaces = "  (replaces the operation of QNN)" if record.get("replaces_native") else ""
    yield f"  {text.clean(record['type'])}{replaces}"
    rows = [
        (title, text.clean(place["name"]), _types(place), _traits(place))
        for title, side in (("input", "inputs"), ("output", "outputs"), ("param", "params"))
        for place in record.get(side, ())
    ]
    yield from text.columns(rows)


def _types(place: Mapping[str, Any]) -> str:
    parts = [
        ("" if core == ANY else f"{text.clean(core)} ") + "|".join(names)
        for core, names in place["dtypes"].items()
    ]
    return "; ".join(parts) or "?"


def _traits(place: Mapping[str, Any]) -> str:
    words = ["any rank" if place["rank"] is None else f"rank {place['rank']}" if place["rank"] else "scalar"]
    words += [
        layout if core == ANY else f"{text.clean(core)} {layout}" for core, layout in place["layouts"].items()
    ]
    words += [name for name in ("static", "repeated") if place.get(name)]
    words += [] if place["mandatory"] else ["optional"]
    if place.get("enumeration"):
        words.append("one of " + "|".join(map(text.clean, place["enumeration"])))
    if place.get("default") is not None:
        words.append(f"default {text.short(text.clean(place['default']))}")
    return ", ".join(words)
