"""Caches of a DLC and the devices that can use them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from xdlc.container import cache_provenance
from xdlc.container.cache_entry import CachedGraph, CachedTensor, read_entry
from xdlc.container.cache_provenance import CacheFacts
from xdlc.container.caches import Cache, caches, shared_weights
from xdlc.container.metadata import NO_CLOCK
from xdlc.errors import ConstraintError, ContainerError
from xdlc.ir import Graph, Model, Op
from xdlc.page.pictures import Run
from xdlc.targets import Soc


def cache_parts(model: Model, record: Mapping[str, Any]) -> dict[Op, str]:
    """Return for each op in a cache the name of the cache's graph that has it.

    Args:
        record: The cache, as ``cache_records`` describes it.
    """
    parts: dict[Op, str] = {}
    for cached in record.get("graphs", ()):
        graph = model.graphs.get(cached.get("source") or cached["name"] or "")
        names = cached.get("ops")
        inside = None if names is None else set(names)
        for op in graph.ops if graph is not None else ():
            if inside is None or op.name in inside:
                parts[op] = cached["name"]
    return parts


def partition_maps(model: Model) -> list[tuple[str, list[Run]]]:
    """Return where each graph runs by each cache: a title, and the runs of its ops."""
    maps = []
    for record in cache_records(model):
        parts = cache_parts(model, record)
        for graph in model.graphs.values():
            if any(op in parts for op in graph.ops):
                maps.append((f"{graph.name} on {record['soc'].lower()}", _runs(graph, parts)))
    return maps


def _runs(graph: Graph, parts: Mapping[Op, str]) -> list[Run]:
    groups = groupby(graph.ops, key=lambda op: (op in parts, parts.get(op, "")))
    return [Run("HTP" if is_htp else "CPU", [op.name for op in ops], part) for (is_htp, part), ops in groups]


def cache_records(model: Model) -> list[dict[str, Any]]:
    """Return the description of each HTP cache, its provenance by xdlc, and its size."""
    facts: dict[str, CacheFacts] = {}
    damage = None
    try:
        facts = cache_provenance.read(model)
    except ContainerError as error:
        damage = f"the provenance of the caches {error.problem}"
    return [_record(cache, model, facts.get(cache.name), damage) for cache in caches(model)]


def _record(cache: Cache, model: Model, facts: CacheFacts | None, damage: str | None) -> dict[str, Any]:
    parts = cache.name.split(".")
    shared = {name: model.records.get(name) for name in shared_weights(model, cache.name)}
    record: dict[str, Any] = {
        "record": cache.name,
        "soc": parts[2].upper() if len(parts) > 2 else "?",
        "bytes": None if cache.data is None else cache.data.nbytes,
        "described": cache.entry is not None,
        "problem": cache.problem,
        "shared_weights": [
            {"record": name, "bytes": None if data is None else data.nbytes} for name, data in shared.items()
        ],
    }
    if cache.entry is None:
        return record
    entry = read_entry(cache.entry)
    time = entry.time if entry.time and not entry.time.startswith(NO_CLOCK) else None
    record |= {
        "arch": None if entry.arch is None else f"v{entry.arch}",
        "soc_id": entry.soc_id,
        "build": entry.build,
        "core_api": entry.core_api,
        "backend_api": entry.backend_api,
        "blob_version": entry.blob_version,
        "blob_bytes": entry.blob_bytes,
        "made": time,
        "vtcm_mb": sorted({graph.vtcm_mb for graph in entry.graphs if graph.vtcm_mb is not None}),
        "noted": _noted(facts),
        "verified": None if facts is None or facts.verified is None else asdict(facts.verified),
        "graphs": [_graph(graph, facts) for graph in entry.graphs],
    }
    return record | ({"notes_damaged": damage} if damage else {})


def _noted(facts: CacheFacts | None) -> dict[str, Any] | None:
    """Return the provenance of a cache by xdlc: its version and the requested options."""
    if facts is None:
        return None
    options = ("vtcm_mb", "optimization_level", "num_hvx_threads", "dlbc")
    return {"xdlc": facts.xdlc, **{key: getattr(facts, key) for key in options}}


def _graph(graph: CachedGraph, facts: CacheFacts | None) -> dict[str, Any]:
    record = asdict(graph) | {
        "inputs": list(map(_tensor, graph.inputs)),
        "outputs": list(map(_tensor, graph.outputs)),
    }
    noted = facts.graphs.get(graph.name) if facts is not None and graph.name is not None else None
    if noted is not None:
        record |= {
            "hash": noted.fingerprint,
            "source": noted.source,
            "ops": None if noted.ops is None else list(noted.ops),
        }
    return record


def _tensor(tensor: CachedTensor) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": tensor.name,
        "shape": None if tensor.shape is None else list(tensor.shape),
        "dtype": tensor.dtype,
    }
    if tensor.scale is not None:
        record["encoding"] = {"kind": "tensor", "scale": tensor.scale, "offset": tensor.offset}
    return record


def cache_table(model: Model, devices: Sequence[str], sdk: str | None = None) -> dict[str, Any]:
    """Return for each cache whether it fits the model, and the SoCs that can use it.

    Args:
        devices: Names of SoCs; default: those that the caches were compiled for.
        sdk: Version of the devices' SDK; default: that of the vendor's package installed here.

    Raises:
        UsageError: If a SoC or the version is not known.
    """
    from xdlc.runtime.htp.cache_verdict import table

    socs, without = _socs(model, devices)
    rows = table(model, socs, sdk=sdk)
    return {
        "devices": [soc.name for soc in socs],
        "without_htp": without,
        "verdicts": [verdict.words() for verdict in rows],
    }


def _socs(model: Model, devices: Sequence[str]) -> tuple[list[Soc], list[str]]:
    """Return the SoCs to judge for, without repeats, and the reason for omitted ones."""
    from xdlc.runtime.htp.cache_verdict import device_soc, soc_of

    if not devices:
        made_for = (soc_of(cache, read_entry(cache.entry)) for cache in caches(model))
        return list(dict.fromkeys(soc for soc in made_for if soc is not None and soc.has_htp)), []
    socs: dict[Soc, None] = {}
    without: dict[str, None] = {}
    for name in devices:
        try:
            socs[device_soc(name)] = None
        except ConstraintError as error:
            without[error.problem] = None
    return list(socs), list(without)
