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
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from xdlc.container.metadata import read_json
from xdlc.errors import ContainerError
from xdlc.ir import Model, TensorData, raw_data
from xdlc.json_fields import Fields, Node, Scope, Stop, shown
from xdlc.options import spell
from xdlc.records import record

RECORD = "xdlc.caches"
VERSION = 1
INPUTS = ("samples", "seeded")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_NUMBERS = ("vtcm_mb", "optimization_level", "num_hvx_threads")
_FLAGS = ("dlbc", "share_weights", "share_graph_weights", "arch_only")


@record(frozen=True)
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


@record(frozen=True)
class OutputFigures:
    """Difference of an output between the emulation of a cache and the host.

    Attributes:
        sqnr: Ratio of signal and difference in dB.
        difference: Largest difference of an element.
    """

    sqnr: float
    difference: float


@record(frozen=True)
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


@record(frozen=True)
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
    scope = Scope(f"record {RECORD!r}", ContainerError)
    content = read_json(data.content(), {}, scope.where)
    facts: dict[str, CacheFacts] = {}
    with suppress(Stop):
        record = Fields(Node(content), "the record", scope)
        version = record.value("version")
        if version != VERSION:
            record.report("version", f"has version {version!r:.40}; only {VERSION} is supported", "")
        record.require("caches", "{}")
        for name, node in record.members("caches").items():
            facts[name] = _cache(Fields(node, f"cache {shown(name)}", scope))
    if scope.problems:
        scope.problems[0].fix = f"prepare the model again, with {spell('overwrite_cache_records', True)}"
        raise scope.problems[0]
    return facts


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


def _cache(entry: Fields) -> CacheFacts:
    for name, example in (("graphs", "{}"), ("xdlc", '""')):
        entry.require(name, example)
    graphs = {
        name: _graph(Fields(node, f"graph {shown(name)}", entry.scope))
        for name, node in entry.members("graphs").items()
    }
    verified = entry.node("verified")
    values: dict[str, Any] = {key: _number(entry, key) for key in _NUMBERS}
    values |= {key: entry.flag(key) for key in _FLAGS}
    return CacheFacts(
        graphs,
        xdlc=entry.text("xdlc"),
        content=_hash(entry, "content") if "content" in entry else None,
        verified=None if verified is None else _verification(Fields(verified, "verified", entry.scope)),
        **values,
    )


def _number(entry: Fields, name: str) -> int | None:
    number = entry.whole(name)
    if number is not None and not 0 <= number < 1 << 32:
        entry.report(name, f"{name} of {entry.what} must be a number of 32 bits, found {number}", "")
    return number


def _hash(entry: Fields, name: str) -> str:
    digits = entry.text(name)
    if not _FINGERPRINT.fullmatch(digits):
        entry.report(name, f"{name} of {entry.what} is not 32 hexadecimal digits", "")
    return digits


def _graph(entry: Fields) -> GraphFacts:
    entry.require("source", '""')
    ops = entry.strings("ops") if "ops" in entry else None
    return GraphFacts(_hash(entry, "fingerprint"), entry.text("source"), ops)


def _verification(entry: Fields) -> Verification:
    for name in ("soc", "build", "inputs", "share", "outputs"):
        entry.require(name, '""')
    outputs = {}
    for name, node in entry.members("outputs").items():
        output = Fields(node, f"output {shown(name)}", entry.scope)
        for member in ("sqnr", "difference"):
            output.require(member, "1.0")
        outputs[name] = OutputFigures(output.number("sqnr") or 0.0, output.number("difference") or 0.0)
    return Verification(
        entry.text("soc"),
        entry.text("build"),
        entry.one_of("inputs", INPUTS),
        _share(entry, "share") or 0.0,
        outputs,
        _share(entry, "judged"),
        entry.flag("compiled"),
    )


def _share(entry: Fields, name: str) -> float | None:
    share = entry.number(name)
    if share is not None and not 0 <= share <= 1:
        entry.report(name, f"{name} of {entry.what} must be from 0 to 1, found {share}", "")
    return share
