"""UDO packages of a model, as plain values and as lines of ``xdlc-info``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text
from xdlc.container import udo
from xdlc.container.udo import StoredKernel
from xdlc.errors import ContainerError, XdlcError
from xdlc.ir import Model, Op, TensorData
from xdlc.ir.graph import is_udo
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementOp, TensorDef

Kernels = dict[tuple[str, str], list[dict[str, Any]]]
SHOWN_VALUES = 16
ANY = "any"
"""Core of the types that a definition states for all cores."""


def packages(model: Model) -> list[dict[str, Any]]:
    """Return the UDO packages of a model by name, with their operations.

    A package without a record, as the vendor writes models, has the types of its ops alone.
    """
    used: dict[str, dict[str, list[Op]]] = {}
    for graph in model.graphs.values():
        for op in graph.ops:
            if is_udo(op):
                used.setdefault(op.package, {}).setdefault(op.type, []).append(op)
    known = {
        name.removeprefix(udo.DEFINITIONS): data
        for name, data in model.records.items()
        if name.startswith(udo.DEFINITIONS)
    }
    damaged: dict[str, ContainerError] = {}
    kernels = _kernels(udo.kernels(model, damaged))
    found = [_package(name, used.get(name, {}), known.get(name), kernels) for name in sorted({*used, *known})]
    for package in found:
        prefix = f"{udo.KERNELS}{package['name']}."
        problems = [str(problem) for record, problem in damaged.items() if record.startswith(prefix)]
        if problems:
            package["damaged_kernels"] = problems
    return found


def _package(
    name: str, used: Mapping[str, list[Op]], data: TensorData | None, kernels: Kernels
) -> dict[str, Any]:
    package: dict[str, Any] = {"name": name, "definition": data is not None}
    collection: Collection | None = None
    if data is not None:
        record = f"{udo.DEFINITIONS}{name}"
        try:
            collection = udo.definitions(Model(records={record: data}))[name]
        except XdlcError as error:
            package["problem"] = str(error)
    if collection is not None:
        package |= {"domain": collection.domain, "version": collection.version}
    defined = {} if collection is None else {opdef.name: opdef for opdef in collection.opdefs}
    package["types"] = [
        {
            "type": kind,
            "count": len(used.get(kind, ())),
            "ops": [op.name for op in used.get(kind, ())],
            **(_definition(defined[kind], collection) if kind in defined and collection else {}),
            "kernels": kernels.get((name, kind), []),
        }
        for kind in sorted({*used, *defined})
    ]
    return package


def _kernels(held: Sequence[StoredKernel]) -> Kernels:
    """Return what is shown of kernels, by package and type."""
    sharing = Counter(kernel.digest for kernel in held)
    found: Kernels = {}
    for kernel in held:
        shown = _kernel(kernel) | {"sharing": sharing[kernel.digest]}
        found.setdefault((kernel.package, kernel.type), []).append(shown)
    return found


def _kernel(held: StoredKernel) -> dict[str, Any]:
    kernel = held.kernel
    return {
        "record": held.record,
        "ops": list(held.ops),
        "name": kernel.name,
        "entry": kernel.entry,
        "arguments": kernel.arguments,
        "values": [_value(value) for value in kernel.values],
        "machine": kernel.machine,
        "tool": kernel.tool,
        "bytes": len(kernel.binary),
        "sha256": held.digest,
    }


def _value(value: Any) -> Any:
    """Return an argument of a kernel as JSON holds it; of a large array its type and shape."""
    if hasattr(value, "tolist"):
        if value.size > SHOWN_VALUES:
            return {"dtype": str(value.dtype), "shape": list(value.shape)}
        value = value.tolist()
    if isinstance(value, list):
        return [_value(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _definition(opdef: OpDef, collection: Collection) -> dict[str, Any]:
    rows = {
        table.backend: table.ops[opdef.name] for table in collection.supplements if opdef.name in table.ops
    }
    named = dict.fromkeys(
        [
            *opdef.backends,
            *(table.backend for table in collection.supplements if opdef.name in table.supported),
        ]
    )
    return {
        "cores": [name for name in named if not _arch(name)],
        "dsp_archs": [arch for name in named if (arch := _arch(name))],
        "replaces_native": opdef.use_default_translation,
        "inputs": [_place(place, "inputs", rows) for place in opdef.inputs],
        "outputs": [_place(place, "outputs", rows) for place in opdef.outputs],
        "params": [_param(place, rows) for place in opdef.params.values()],
    }


def _arch(backend: str) -> str:
    """Return the generation in a backend's name, like ``v68`` of ``DSP_V68``; empty if there is none."""
    head, _, tail = backend.partition("_V")
    return f"v{tail}" if head == "DSP" and tail.isdecimal() else ""


def _place(place: TensorDef, side: str, rows: Mapping[str, tuple[SupplementOp, ...]]) -> dict[str, Any]:
    added = list(_added(place.name, side, rows))
    types = {ANY: place.dtypes} if place.dtypes else {}
    types |= {core: dtypes for core, dtypes, _ in added if dtypes}
    layouts = {ANY: place.layout} if place.layout and place.layout != "BACKEND_SPECIFIC" else {}
    layouts |= {core: layout for core, _, layout in added if layout}
    found: dict[str, Any] = {
        "name": place.name,
        "dtypes": {core: [dtype.name for dtype in dtypes] for core, dtypes in types.items()},
        "rank": place.rank,
        "layouts": layouts,
        "mandatory": place.mandatory,
        "repeated": place.repeated,
        "static": place.is_static,
    }
    return found | ({"default": place.default} if place.default is not None else {})


def _added(
    name: str, side: str, rows: Mapping[str, tuple[SupplementOp, ...]]
) -> Iterator[tuple[str, tuple[Any, ...], str]]:
    """Yield core, types and layout of one tensor by each backend."""
    for core, alternatives in rows.items():
        for row in alternatives:
            held = getattr(row, side).get(name)
            if held is not None:
                yield core, held.dtypes, held.layout


def _param(place: ParamDef, rows: Mapping[str, tuple[SupplementOp, ...]]) -> dict[str, Any]:
    found = _place(place, "params", rows)
    for key in ("repeated", "static"):
        del found[key]
    return found | ({"enumeration": list(place.enumeration)} if place.enumeration else {})


NO_KERNEL = "none in this DLC: give --udo_package_path"


def package_lines(packages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of UDO packages: a table of their types, then inputs and outputs of each."""
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
    return (
        text.clean(held["type"]),
        str(held["count"]),
        cores or "?",
        "\n".join(_kernel_names(held)) or NO_KERNEL,
    )


def _kernel_names(held: Mapping[str, Any]) -> Iterator[str]:
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
        yield from _kernel_lines(kernel)


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


def _kernel_lines(kernel: Mapping[str, Any]) -> Iterator[str]:
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
