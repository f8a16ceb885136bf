"""Provenance of HTP caches: graphs and options of each, and its verification.

The vendor's description of a cache lacks both.  Record ``xdlc.caches``, JSON that the vendor's reader skips::

    {"version": 1,
     "caches": {"htp.cache.sm8650.0": {
         "xdlc": "0.5.0", "vtcm_mb": 8, "optimization_level": 2, "num_hvx_threads": null, "dlbc": false,
         "share_weights": false, "share_graph_weights": false, "arch_only": false, "content": "89ab..",
         "verified": {"soc": "sm8650", "build": "v2.51.0", "inputs": "seeded", "share": 1.0,
                      "judged": null, "compiled": false,
                      "outputs": {"y": {"sqnr": 61.5, "difference": 0.0021}}},
         "graphs": {"cnn": {"fingerprint": "0123..", "source": "cnn", "ops": null}}}}}

A cache without facts, like the vendor's, is of unknown graphs.  Records of older versions lack
``content``, the hash of the cache's bytes, ``verified``, and what they had no option for.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xdlc.container.metadata import read_json
from xdlc.errors import ContainerError
from xdlc.ir import Model, TensorData, raw_data
from xdlc.options import spell

RECORD = "xdlc.caches"
VERSION = 1
INPUTS = ("samples", "seeded")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_NUMBERS = ("vtcm_mb", "optimization_level", "num_hvx_threads")
_FLAGS = ("dlbc", "share_weights", "share_graph_weights", "arch_only")


def _error(problem: str, where: str) -> ContainerError:
    """Return an error of the record, which a new preparation replaces."""
    fix = f"prepare the model again, with {spell('overwrite_cache_records', True)}"
    return ContainerError(problem, where=where, fix=fix)


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Source of a cached graph.

    Attributes:
        fingerprint: Hash of the compiled graph or partition, see ``xdlc.ir.fingerprint``.
        source: Name of the graph in the model.
        ops: Names of the partition's ops, in order; None for the whole graph.
    """

    fingerprint: str
    source: str
    ops: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class OutputFigures:
    """Difference of an output between the emulation of a cache and the host.

    Attributes:
        sqnr: Ratio of signal and difference in dB.
        difference: Largest difference of an element.
    """

    sqnr: float
    difference: float


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of running a cache on the emulation and its graphs on the host.

    Attributes:
        soc: Name of the SoC that was emulated.
        build: Build of the vendor's library that emulated it.
        inputs: Origin of the inputs: one of ``INPUTS``.
        share: Part of the cache's ops that ran, 0 to 1.
        outputs: Figures by name of the output; none where only parts of the graph ran.
        judged: Part of the ops that were compared one by one; None where rounding explains all outputs.
        compiled: Whether the context that compiled the graphs ran, as for weights that graphs share; else
            the cache was loaded.
    """

    soc: str
    build: str
    inputs: str
    share: float
    outputs: Mapping[str, OutputFigures]
    judged: float | None = None
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """Sources and options of a cache.

    Attributes:
        graphs: Facts by the name that the graph has in the cache.
        vtcm_mb: Requested vector memory in MB; 0 for all of the SoC's, None for the library's choice.
        optimization_level: 1 to 3, or None for the library's choice.
        num_hvx_threads: Threads of the vector unit, or None for all.
        dlbc: Whether feature maps are compressed in memory.
        share_weights: Whether its weights are in records of their own.
        share_graph_weights: Whether its graphs have their common weights once.
        arch_only: Whether it was compiled for any SoC of its architecture.
        xdlc: Version of xdlc that made it.
        content: Hash of the cache and of weights that it shares, see ``content_hash``; None in records of
            older versions.
        verified: Result of its verification; None if it is not verified.
    """

    graphs: Mapping[str, GraphFacts]
    vtcm_mb: int | None
    optimization_level: int | None
    num_hvx_threads: int | None
    dlbc: bool
    xdlc: str
    share_weights: bool = False
    share_graph_weights: bool = False
    arch_only: bool = False
    content: str | None = None
    verified: Verification | None = None


def content_hash(data: TensorData, weights: Mapping[str, TensorData]) -> str:
    """Return the hexadecimal hash of a cache and of its weights in other records."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (data, *(weights[name] for name in sorted(weights))):
        digest.update(part.content())
        part.release()
    return digest.hexdigest()


def read(model: Model) -> dict[str, CacheFacts]:
    """Return the stored facts by the name of the cache's record.

    Raises:
        ContainerError: If the record is damaged.
    """
    data = model.records.get(RECORD)
    if data is None:
        return {}
    where = f"record {RECORD!r}"
    content = read_json(data.content(), {}, where)
    if content.get("version") != VERSION:
        raise _error(f"has version {content.get('version')!r}; only {VERSION} is supported", where)
    listed = _typed(content.get("caches"), dict, "'caches'", where)
    return {name: _cache(entry, f"{where}: cache {name!r}") for name, entry in listed.items()}


def write(model: Model, facts: Mapping[str, CacheFacts]) -> None:
    """Replace the facts of caches in a model; without facts, remove the record."""
    model.records.pop(RECORD, None)
    if facts:
        caches = {name: _words(facts[name]) for name in sorted(facts)}
        text = json.dumps({"version": VERSION, "caches": caches}, separators=(",", ":"))
        model.records[RECORD] = raw_data(text.encode())


def drop(model: Model, names: Collection[str]) -> None:
    """Remove the facts of removed caches.

    Raises:
        ContainerError: If the record is damaged.
    """
    if RECORD in model.records:
        held = read(model)
        if not held.keys().isdisjoint(names):
            write(model, {name: facts for name, facts in held.items() if name not in names})


def drop_damaged(model: Model) -> bool:
    """Remove the record if it cannot be read; return whether it was removed."""
    try:
        read(model)
    except ContainerError:
        del model.records[RECORD]
        return True
    return False


def _words(facts: CacheFacts) -> dict[str, Any]:
    return {
        **{key: getattr(facts, key) for key in ("xdlc", *_NUMBERS, *_FLAGS, "content")},
        "verified": None if facts.verified is None else asdict(facts.verified),
        "graphs": {name: asdict(graph) for name, graph in facts.graphs.items()},
    }


def _cache(value: Any, where: str) -> CacheFacts:
    entry = _typed(value, dict, "the entry", where)
    graphs = _typed(entry.get("graphs"), dict, "'graphs'", where)
    flags = dict.fromkeys(_FLAGS[1:], False) | entry
    values: dict[str, Any] = {key: _number(entry, key, where) for key in _NUMBERS}
    values |= {key: _typed(flags.get(key), bool, repr(key), where) for key in _FLAGS}
    return CacheFacts(
        {name: _graph(facts, f"{where}: graph {name!r}") for name, facts in graphs.items()},
        xdlc=_typed(entry.get("xdlc"), str, "'xdlc'", where),
        content=_hash(entry["content"], where) if entry.get("content") is not None else None,
        verified=_verification(entry.get("verified"), f"{where}: 'verified'"),
        **values,
    )


def _hash(value: Any, where: str) -> str:
    text: str = _typed(value, str, "a hash", where)
    if not _FINGERPRINT.fullmatch(text):
        raise _error(f"has the hash {text[:40]!r}, expected 32 hexadecimal digits", where)
    return text


def _verification(value: Any, where: str) -> Verification | None:
    if value is None:
        return None
    entry = _typed(value, dict, "the entry", where)
    soc, build, inputs = (_typed(entry.get(key), str, repr(key), where) for key in ("soc", "build", "inputs"))
    if inputs not in INPUTS:
        raise _error(f"has {inputs[:40]!r} at 'inputs', expected one of {', '.join(INPUTS)}", where)
    share, judged = _share(entry, "share", where), entry.get("judged")
    outputs = _typed(entry.get("outputs"), dict, "'outputs'", where)
    return Verification(
        soc,
        build,
        inputs,
        share,
        {name: _figures(each, where) for name, each in outputs.items()},
        None if judged is None else _share(entry, "judged", where),
        _typed(entry.get("compiled", False), bool, "'compiled'", where),
    )


def _figures(value: Any, where: str) -> OutputFigures:
    entry = _typed(value, dict, "an output", where)
    return OutputFigures(*(_real(entry.get(key), key, where) for key in ("sqnr", "difference")))


def _share(entry: Mapping[str, Any], key: str, where: str) -> float:
    share = _real(entry.get(key), key, where)
    if not 0 <= share <= 1:
        raise _error(f"has {share!r} at {key!r}, expected a number from 0 to 1", where)
    return share


def _real(value: Any, key: str, where: str) -> float:
    if type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e300:
        return float(value)
    raise _error(f"has {value!r:.40} at {key!r}, expected a finite number", where)


def _graph(value: Any, where: str) -> GraphFacts:
    entry = _typed(value, dict, "the entry", where)
    fingerprint = _hash(entry.get("fingerprint"), where)
    ops = entry.get("ops")
    if ops is not None:
        ops = tuple(_typed(name, str, "a name in 'ops'", where) for name in _typed(ops, list, "'ops'", where))
    return GraphFacts(fingerprint, _typed(entry.get("source"), str, "'source'", where), ops)


def _number(entry: Mapping[str, Any], key: str, where: str) -> int | None:
    value = entry.get(key)
    if value is None or (type(value) is int and 0 <= value < 1 << 32):
        return value
    raise _error(f"has {value!r:.40} at {key!r}, expected a number or null", where)


def _typed(value: Any, kind: type, place: str, where: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _error(f"has a {type(value).__name__} in the place of {place}, expected a {kind.__name__}", where)
