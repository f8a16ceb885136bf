"""Support query: ops that a SoC's HTP leaves to the CPU, with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xdlc import passes
from xdlc.errors import XdlcError
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.control_flow import is_control_flow, outer_graphs
from xdlc.passes.narrow_integers import misfits
from xdlc.runtime.dynamic_dims import keeps_on_host, open_problem
from xdlc.runtime.htp import RefusedOp, unsupported_ops
from xdlc.runtime.htp.process import Launch, start
from xdlc.runtime.htp.unsupported_op import host_problem, is_host_only, problems_of
from xdlc.runtime.htp.validator_log import FIXED_DIMS


@dataclass(frozen=True, slots=True)
class CpuFallback:
    """An op that falls back to the CPU."""

    graph: str
    op: str
    type: str
    reason: str


@dataclass(slots=True)
class SupportReport:
    """Support of a model by a SoC's HTP.

    Attributes:
        unsupported: The ops that it does not support, by graph and name.
        blocking: Those of a model that is to run on HTP as a whole: of the graphs that no others run, and
            without ``If`` and ``While``, whose graphs the host runs one by one.
    """

    unsupported: dict[tuple[str, str], CpuFallback] = field(default_factory=dict)
    problems: list[XdlcError] = field(default_factory=list)
    blocking: list[XdlcError] = field(default_factory=list)

    def reject(self, graph: str, op: Op, reason: str) -> None:
        """Add an unsupported op, unless it has a reason already."""
        self.unsupported.setdefault((graph, op.name), CpuFallback(graph, op.name, op.type, reason))


def query_support(
    model: Model, path: str | os.PathLike[str], soc: str, *, timeout: float, name: str, launch: Launch = start
) -> SupportReport:
    """Query a SoC's HTP on every op of a model.

    Raises:
        BackendError: If the library is missing, unknown, or fails.
    """
    report = SupportReport()
    place = f"{name}: {soc}"
    unbound = open_problem(model)
    if unbound is not None:
        unbound.where = place
        report.problems.append(unbound)
    graphs = model.graphs
    outer = {graph.name for graph in outer_graphs(model)}
    adapted = {key: graph.clone() for key, graph in graphs.items()}
    for key, graph in adapted.items():
        passes.run(graph, passes.htp_query())
        ops = {op.name: op for op in graphs[key].ops}
        host = [
            (op, host_problem(key, ops[op.name])) for op in graph.ops if is_host_only(op) and op.name in ops
        ]
        wide = [(ops[misfit.node or ""], misfit) for misfit in misfits(graphs[key])]
        for op, problem in (*host, *wide):
            report.reject(key, ops[op.name], problem.problem)
            if unbound is not None and keeps_on_host(op):
                continue
            problem.where = f"{place}: {problem.where}"
            report.problems.append(problem)
            if key in outer and not is_control_flow(op):
                report.blocking.append(problem)
    skip = list(report.unsupported)
    found = unsupported_ops(path, soc, timeout=timeout, skip=skip, name=name, launch=launch)
    for unsupported in found:
        for op in _sources(unsupported, graphs[unsupported.graph], adapted[unsupported.graph]):
            report.reject(unsupported.graph, op, unsupported.problem)
    listed = [each for each in found if unbound is None or each.problem != FIXED_DIMS]
    report.problems += problems_of(listed, place)
    report.blocking += problems_of([each for each in listed if each.graph in outer], place)
    return report


def _sources(unsupported: RefusedOp, graph: Graph, adapted: Graph) -> Iterator[Op]:
    """Yield the op, or the original ops around an op that exists only in HTP's form."""
    ops = {op.name: op for op in graph.ops}
    if unsupported.op in ops:
        yield ops[unsupported.op]
        return
    inserted = next((op for op in adapted.ops if op.name == unsupported.op), None)
    yield from (ops[name] for name in around(inserted, adapted, ops)) if inserted is not None else ()


def around(inserted: Op, adapted: Graph, known: Iterable[str]) -> list[str]:
    """Return the nearest known ops before an inserted one, or else after it."""
    names = set(known)
    before = {t.producer.name for t in inserted.inputs if t is not None and t.producer is not None} & names
    after = {op.name for tensor in inserted.outputs for op in adapted.consumers(tensor)} & names
    return sorted(before or after)
