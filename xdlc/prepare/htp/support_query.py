"""Which ops of a model a SoC's HTP leaves to the CPU, and why."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from xdlc import passes
from xdlc.errors import ConstraintError, XdlcError
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.passes.narrow_integers import misfits
from xdlc.runtime.dynamic_dims import keeps_on_host, open_problem
from xdlc.runtime.htp import Refused, refusals
from xdlc.runtime.htp.host_only import fix_of, is_host_only, why_host
from xdlc.runtime.htp.process import Launch, start
from xdlc.runtime.htp.unsupported_op import in_words
from xdlc.runtime.htp.validator_log import FIXED_EXTENTS


@dataclass(frozen=True, slots=True)
class Left:
    """An op that stays on the CPU.

    Attributes:
        graph: Name of its graph.
        op: Its name.
        type: Its type.
        reason: Why, in words.
    """

    graph: str
    op: str
    type: str
    reason: str


@dataclass(slots=True)
class Answer:
    """What a SoC's HTP says about a model.

    Attributes:
        refused: The ops that it does not take, by graph and name.
        problems: The same as the errors of a model that is to run on HTP as a whole.
    """

    refused: dict[tuple[str, str], Left] = field(default_factory=dict)
    problems: list[XdlcError] = field(default_factory=list)

    def refuse(self, graph: str, op: Op, reason: str) -> None:
        """Add an op, unless there is a reason for it already."""
        self.refused.setdefault((graph, op.name), Left(graph, op.name, op.type, reason))


def ask(
    model: Model, path: str | os.PathLike[str], soc: str, *, timeout: float, name: str, launch: Launch = start
) -> Answer:
    """Ask a SoC's HTP about every op of the graphs that no others run.

    Args:
        model: The model.
        path: A DLC with it.
        soc: Name of the SoC.
        timeout: Seconds to wait.
        name: What messages call the model.
        launch: Starts the child process.

    Raises:
        BackendError: If the library is missing, unknown, or fails.
    """
    answer = Answer()
    place = f"{name}: {soc}"
    unbound = open_problem(model)
    if unbound is not None:
        unbound.where = place
        answer.problems.append(unbound)
    graphs = {graph.name: graph for graph in outer_graphs(model)}
    adapted = {key: graph.clone() for key, graph in graphs.items()}
    for key, graph in adapted.items():
        passes.run(graph, passes.HTP_ASKED)
        ops = {op.name: op for op in graphs[key].ops}
        for op in graph.ops:
            if is_host_only(op) and op.name in ops:
                problem = _host_only(answer, key, ops[op.name], place)
                if unbound is None or not keeps_on_host(op):
                    answer.problems.append(problem)
        for misfit in misfits(graphs[key]):
            answer.refuse(key, ops[misfit.node or ""], misfit.problem)
            misfit.where = f"{place}: {misfit.where}"
            answer.problems.append(misfit)
    skip = [
        (graph.name, op.name)
        for graph in model.graphs.values()
        for op in graph.ops
        if graph.name not in graphs or (graph.name, op.name) in answer.refused
    ]
    found = refusals(path, soc, timeout=timeout, skip=skip, name=name, launch=launch)
    for refused in found:
        for op in _blamed(refused, graphs[refused.graph], adapted[refused.graph]):
            answer.refuse(refused.graph, op, refused.problem)
    answer.problems += in_words(
        [each for each in found if unbound is None or each.problem != FIXED_EXTENTS], place
    )
    return answer


def _host_only(answer: Answer, graph: str, op: Op, place: str) -> ConstraintError:
    """Refuse an op that only the host has, and return the problem that a whole model has with it."""
    problem = f"runs on the host only: {why_host(op)}"
    answer.refuse(graph, op, problem)
    return ConstraintError(
        problem,
        where=f"{place}: graph {graph!r}: op {op.name!r} ({op.type})",
        fix=fix_of(op),
        node=op.name,
        op=op.type,
    )


def _blamed(refused: Refused, graph: Graph, adapted: Graph) -> Iterator[Op]:
    """Yield the op that is refused, or those around one that only HTP's form of the graph has."""
    ops = {op.name: op for op in graph.ops}
    if refused.op in ops:
        yield ops[refused.op]
        return
    inserted = next((op for op in adapted.ops if op.name == refused.op), None)
    yield from (ops[name] for name in around(inserted, adapted, ops)) if inserted is not None else ()


def around(inserted: Op, adapted: Graph, known: Iterable[str]) -> list[str]:
    """Return the names of the nearest known ops before an inserted one, or else of those behind it."""
    names = set(known)
    before = {t.producer.name for t in inserted.inputs if t is not None and t.producer is not None} & names
    behind = {op.name for tensor in inserted.outputs for op in adapted.consumers(tensor)} & names
    return sorted(before or behind)
