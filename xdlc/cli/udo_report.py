"""What ``xdlc-info`` prints of operations that users define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text
from xdlc.cli.udo_inspection import ANY

NO_KERNEL = "none in this DLC: give --udo_package_path"


def package_lines(packages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that show users' packages: a table of their types, then what each takes and gives."""
    for package in packages:
        yield ""
        facts = [f"{key} {text.clean(package[key])}" for key in ("domain", "version") if package.get(key)]
        words = f"  ({', '.join(facts)})" if facts else ""
        yield f"user-defined operations of package {text.clean(package['name'])}{words}"
        if "problem" in package:
            yield f"  definitions cannot be read: {text.clean(package['problem'])}"
        elif not package["definition"]:
            yield "  the DLC holds no definitions of it: types, parameters and datatypes are those of its ops"
        for problem in package.get("damaged_kernels", ()):
            yield f"  a kernel cannot be read: {text.clean(problem)}"
        yield from text.table(
            ("type", "ops", "cores", "kernel"), list(map(_row, package["types"])), (28, 5, 24)
        )
        for held in package["types"]:
            yield from _type(held)


def _row(held: Mapping[str, Any]) -> tuple[str, ...]:
    cores = ", ".join(map(text.clean, held.get("cores", ())))
    if held.get("dsp_archs"):
        cores += f"\n{', '.join(held['dsp_archs'])}"
    return text.clean(held["type"]), str(held["count"]), cores or "?", "\n".join(_kernels(held)) or NO_KERNEL


def _kernels(held: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a type's kernels, each with the number of its ops where it has not all."""
    ops: dict[str, int] = {}
    for kernel in held["kernels"]:
        name = f"{text.clean(kernel['name'])}, {text.clean(kernel['machine'])}"
        ops[name] = ops.get(name, 0) + len(kernel["ops"])
    for name, count in ops.items():
        yield name if count == held["count"] else f"{name} ({count} of {held['count']} ops)"


def _type(held: Mapping[str, Any]) -> Iterator[str]:
    if "inputs" not in held and not held["kernels"]:
        return
    replaces = "  (replaces the operation of QNN)" if held.get("replaces_native") else ""
    yield f"  {text.clean(held['type'])}{replaces}"
    rows = [
        (title, text.clean(place["name"]), _types(place), _traits(place))
        for title, side in (("input", "inputs"), ("output", "outputs"), ("param", "params"))
        for place in held.get(side, ())
    ]
    yield from text.columns(rows)
    for kernel in held["kernels"]:
        yield from _kernel(kernel)


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


def _kernel(kernel: Mapping[str, Any]) -> Iterator[str]:
    values = [
        f"{letter}={text.param(value)}"
        for letter, value in zip(kernel["arguments"], kernel["values"], strict=True)
    ]
    shared = f", stored once for {kernel['sharing']} kernels" if kernel["sharing"] > 1 else ""
    yield f"    kernel {text.clean(kernel['name'])}, runs with --allow_embedded_kernels only"
    yield from text.columns(
        [
            ("entry", text.clean(kernel["entry"])),
            ("arguments", "  ".join(values) or "none"),
            ("ops", ", ".join(map(text.clean, kernel["ops"])) or "none"),
            ("machine", text.clean(kernel["machine"])),
            ("tool", text.clean(kernel["tool"])),
            ("size", f"{text.size(kernel['bytes'])} ({kernel['bytes']} bytes){shared}"),
            ("sha256", kernel["sha256"]),
        ],
        " " * 6,
    )
