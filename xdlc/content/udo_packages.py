"""UDO packages of a model as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xdlc.container import udo
from xdlc.errors import XdlcError
from xdlc.ir import Model, Op, TensorData
from xdlc.ir.graph import is_udo
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementOp, TensorDef

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
    stored = {
        name.removeprefix(udo.DEFINITIONS): data
        for name, data in model.records.items()
        if name.startswith(udo.DEFINITIONS)
    }
    return [_package(name, used.get(name, {}), stored.get(name)) for name in sorted({*used, *stored})]


def _package(name: str, used: Mapping[str, list[Op]], data: TensorData | None) -> dict[str, Any]:
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
        }
        for kind in sorted({*used, *defined})
    ]
    return package


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
    """Return a backend's generation, like ``v68`` of ``DSP_V68``; empty without one."""
    head, _, tail = backend.partition("_V")
    return f"v{tail}" if head == "DSP" and tail.isdecimal() else ""


def _place(place: TensorDef, side: str, rows: Mapping[str, tuple[SupplementOp, ...]]) -> dict[str, Any]:
    added = list(_added(place.name, side, rows))
    types = {ANY: place.dtypes} if place.dtypes else {}
    types |= {core: dtypes for core, dtypes, _ in added if dtypes}
    layouts = {ANY: place.layout} if place.layout and place.layout != "BACKEND_SPECIFIC" else {}
    layouts |= {core: layout for core, _, layout in added if layout}
    record: dict[str, Any] = {
        "name": place.name,
        "dtypes": {core: [dtype.name for dtype in dtypes] for core, dtypes in types.items()},
        "rank": place.rank,
        "layouts": layouts,
        "mandatory": place.mandatory,
        "repeated": place.repeated,
        "static": place.is_static,
    }
    return record | ({"default": place.default} if place.default is not None else {})


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
