"""Verdict of a SoC on the ops of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.errors import XdlcError
from xdlc.ir import Graph, Model
from xdlc.ir.graph import HOST_PACKAGE
from xdlc.runtime.htp.support import SocSupport, judge
from xdlc.targets import Soc
from xdlc.view.findings import Findings, Ops, Place
from xdlc.view.graphs import REFUSED
from xdlc.view.overlays import Overlay, Value

SUPPORTED, REFUSES, STAYS = "HTP supports it", "refused", "host"
NO_FLOATS = "XD104"
"""Code of the tables' error of float graphs on a SoC that has none; it names the first op alone."""


def verdict(model: Model, soc: Soc, *, tables_only: bool = False) -> Findings:
    """Return the verdict of the vendor's library on each op, or that of xdlc's tables.

    Args:
        tables_only: Whether to ask xdlc's tables even if the vendor's library is installed.

    Raises:
        BackendError: If the vendor's library is installed but fails.
    """
    return findings_of(model, soc.name, judge(model, soc, tables_only=tables_only))


def findings_of(model: Model, soc: str, support: SocSupport) -> Findings:
    """Return what a judge says of a SoC's support as findings."""
    graphs = list(model.graphs.values())
    ops, findings = Ops(graphs), Findings()
    values: dict[Place, Value] = {
        (number, place): STAYS if op.package == HOST_PACKAGE else SUPPORTED
        for number, graph in enumerate(graphs)
        for place, op in enumerate(graph.ops)
    }
    texts: dict[Place, str] = {}
    for error in support.refused:
        if error.node and (error.code != NO_FLOATS or support.is_vendors):
            continue
        findings.problems.append((f"{soc}: {error.problem}", None, None))
        for place in _about(error, graphs):
            values[place], texts[place] = REFUSES, _words(error)
    for (graph, name), error in support.ops.items():
        found = ops.find(name, graph)
        findings.problems.append((f"{soc}: {error.problem}", *(found or (None, None))))
        if found is not None:
            values[found], texts[found] = (STAYS if values[found] == STAYS else REFUSES), _words(error)
    for place, value in values.items():
        if value == REFUSES:
            findings.flag(place, REFUSED)
    findings.facts.append((f"verdict on {soc} by", support.judge))
    findings.problems += [(f"{soc}: {line}", None, None) for line in support.inner]
    findings.overlays.append(
        Overlay(
            "verdict",
            f"verdict of {soc}",
            f"Whether HTP of {soc} supports the op, by {support.judge}.",
            ops.columns(values),
            colors={SUPPORTED: "good", REFUSES: "alarm", STAYS: "warn"},
            notes=ops.notes(texts),
        )
    )
    return findings


def _about(error: XdlcError, graphs: Sequence[Graph]) -> Iterator[Place]:
    """Yield the places of the ops of an error about the whole model: floats, or all."""
    for number, graph in enumerate(graphs):
        for place, op in enumerate(graph.ops):
            is_float = any(tensor.dtype.is_float for tensor in op.outputs)
            if is_float or error.code != NO_FLOATS:
                yield number, place


def _words(error: XdlcError) -> str:
    return error.problem + (f"; fix: {error.fix}" if error.fix else "")
