"""Preparation of a model in partitions, a cache of them per SoC.

A tensor that leaves a partition of the main graph becomes an output of it, on whichever SoC it does: all
caches are of the same model.  Partitions of branches and loop bodies, which the host runs, need none.  The
compiler may fail on a partition whose ops HTP supports one by one; that partition is cut in two and tried
again, a few times, and then left to the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from xdlc import passes
from xdlc.container.cache_provenance import GraphFacts
from xdlc.errors import BackendError, ConstraintError, ProblemList, XdlcError, each_problem
from xdlc.ir import Graph, Model
from xdlc.ir.fingerprint import fingerprint
from xdlc.opdefs.control_flow import GRAPH_PARAMS, outer_graphs
from xdlc.prepare.htp.cache_records import ExistingCache, Selection, whole
from xdlc.prepare.htp.compile_jobs import CompileJobs, Outcome, Site, Step
from xdlc.prepare.htp.partition_plan import PartitionPlan, PlannedPartition, mark, plan_partitions
from xdlc.prepare.htp.support_query import SupportReport, around, query_support
from xdlc.prepare.htp.targets import Target
from xdlc.runtime.htp import compile_for
from xdlc.runtime.htp.partition_schedule import partition_graph
from xdlc.runtime.htp.process import stored_model
from xdlc.worker.process import ChildDiedError

CUTTING = 4
"""Times that a partition on which the compiler fails is cut in two, before it is left to the CPU."""
ROUNDS = 8
"""Times that a SoC is tried at most."""


@dataclass(slots=True)
class _State:
    """State of the partitioning for a SoC."""

    target: Target
    report: SupportReport
    cuts: dict[tuple[str, str], str] = field(default_factory=dict)
    plan: PartitionPlan | None = None
    outcome: Outcome | None = None


class PartitionJobs:
    """The partitions of a model for several SoCs, and the work of preparing them.

    Args:
        site: Has the model, which stays as it is.
        timeout: Time limit in seconds per SoC.
        strict: Whether HTP has to support all ops but those that run other graphs, branches and bodies aside.

    Attributes:
        model: A copy of the model with what crosses marked as outputs, once the work is done.
        marked: Names of the outputs that it has for that.
    """

    def __init__(
        self,
        site: Site,
        name: str,
        targets: Sequence[Target],
        existing: Mapping[str, ExistingCache],
        timeout: float,
        *,
        strict: bool = False,
    ) -> None:
        self._strict = strict
        self.model, self.marked = site.model, list[str]()
        self._source, self._name, self._site = site.model, name, site
        self._wanted = {target.name: target for target in targets}
        self._held, self._timeout = existing, timeout
        self._states: dict[str, _State] = {}
        self._failed: dict[str, XdlcError] = {}
        self._prints: dict[tuple[str, tuple[str, ...] | None, tuple[str, ...]], str] = {}

    def do(self, step: Step | None, total: int) -> None:
        """Query each SoC's HTP, partition and compile, several SoCs at a time."""
        self._query()
        for attempt in range(ROUNDS + 1):
            with ExitStack() as stack:
                selections = self._selections(stack)
                todo = [
                    state.target
                    for soc, state in self._states.items()
                    if state.outcome is None or state.outcome.selection.graphs != selections[soc].graphs
                ]
                if not todo:
                    return
                work = CompileJobs(self._name, todo, self._held, selections, self._timeout, self._site)
                work.do(step, total)
                for target, outcome in work.outcomes():
                    self._states[target.name].outcome = outcome
                for soc, error in work.failures().items():
                    if attempt == ROUNDS or not self._learn(soc, selections[soc], error, attempt):
                        self._failed[soc] = error
                        del self._states[soc]

    def outcomes(self) -> list[tuple[Target, Outcome]]:
        """Return the results of the SoCs that did not fail, in the order wanted."""
        found = [(soc, self._states[soc]) for soc in self._wanted if soc in self._states]
        return [(state.target, state.outcome) for _, state in found if state.outcome is not None]

    def failures(self) -> dict[str, XdlcError]:
        """Return the errors of failed SoCs by name, in the order of the request."""
        return {soc: self._failed[soc] for soc in self._wanted if soc in self._failed}

    def plans(self) -> tuple[PartitionPlan, ...]:
        """Return the partition plans of the SoCs that did not fail, in the order wanted."""
        found = (self._states[soc].plan for soc in self._wanted if soc in self._states)
        return tuple(plan for plan in found if plan is not None)

    def notices(self) -> list[str]:
        """Return lines on the partitions of the model and its additional outputs."""
        lines: dict[str, list[str]] = {}
        for plan in self.plans():
            for line in plan.lines():
                lines.setdefault(line, []).append(plan.soc)
        notices = [f"{', '.join(socs)}: {line}" for line, socs in lines.items()]
        for soc, state in self._states.items():
            for (_, op), reason in state.cuts.items():
                notices.append(
                    f"{soc}: xdlc splits a partition before {op!r}, because the compiler failed on it: "
                    f"{reason}"
                )
        if self.marked:
            names = ", ".join(map(repr, self.marked))
            notices.append(f"{len(self.marked)} tensor(s) between partitions are outputs now: {names}")
            notices += [
                f"{soc}: {cache.cache.name} is for the model without these outputs; prepare {soc} again"
                for soc, cache in self._held.items()
                if soc not in self._wanted
            ]
        return notices

    def _query(self) -> None:
        tasks = {
            soc: self._site.task(query_support, soc, timeout=self._timeout, name=self._name)
            for soc in self._wanted
        }
        for soc, answer in self._site.workers.each(tasks, self._name):
            if isinstance(answer, XdlcError):
                self._failed[soc] = answer
            elif isinstance(answer, Exception):
                raise answer
            elif self._strict and answer.blocking:
                self._failed[soc] = _all_of(answer.blocking, f"{self._name}: {soc}")
            else:
                self._states[soc] = _State(self._wanted[soc], answer)
        self._states = {soc: self._states[soc] for soc in self._wanted if soc in self._states}

    def _selections(self, stack: ExitStack) -> dict[str, Selection]:
        """Divide the model for each SoC; return the models to compile.

        They are stored until ``stack`` is left.
        """
        for soc, state in list(self._states.items()):
            state.plan = plan_partitions(self._source, soc, state.report.unsupported, state.cuts)
            if not state.plan.partitions:
                self._failed[soc] = _nothing(state, f"{self._name}: {soc}")
                del self._states[soc]
        plans = self.plans()
        self.model = self._source.clone()
        self.marked = mark(self.model, plans)
        stored: dict[tuple[PlannedPartition, ...], Selection] = {}
        for plan in plans:
            if plan.partitions not in stored:
                stored[plan.partitions] = self._stored(plan, stack)
        return {plan.soc: stored[plan.partitions] for plan in plans}

    def _stored(self, plan: PartitionPlan, stack: ExitStack) -> Selection:
        if plan.is_whole and not self.marked:
            return whole(self.model, self._site.path)
        graphs = {partition.name: self._graph(partition) for partition in plan.partitions}
        facts = {
            partition.name: GraphFacts(
                self._print(partition, graphs[partition.name]), partition.graph, partition.ops
            )
            for partition in plan.partitions
        }
        return Selection(stack.enter_context(stored_model(Model(graphs))), facts)

    def _graph(self, partition: PlannedPartition) -> Graph:
        graph = self.model.graphs[partition.graph]
        return graph if partition.ops is None else partition_graph(graph, partition.ops, partition.name)

    def _print(self, partition: PlannedPartition, graph: Graph) -> str:
        key = (partition.graph, partition.ops, tuple(tensor.name for tensor in graph.outputs))
        if key not in self._prints:
            self._prints[key] = fingerprint(graph)
        return self._prints[key]

    def _learn(self, soc: str, selection: Selection, error: XdlcError, attempt: int) -> bool:
        """Remove ops that fail to compile; return whether there are any."""
        state = self._states[soc]
        if state.plan is None or not _is_about_parts(error):
            return False
        blamed = self._blamed(state, error)
        outer = {graph.name for graph in outer_graphs(self._source)}
        if self._strict and any(partition.graph in outer for partition in blamed):
            return False
        for partition, reason in blamed.items():
            graph = self._source.graphs[partition.graph]
            ops = [op for op in graph.ops if partition.ops is None or op.name in partition.ops]
            names = _named(self._graph(partition), reason)
            found = [op for op in ops if op.name in names]
            if found:
                for op in found:
                    state.report.reject(partition.graph, op, names[op.name])
            elif attempt < CUTTING and len(ops) > 1:
                state.cuts[partition.graph, ops[len(ops) // 2].name] = reason.problem
            else:
                for op in ops:
                    state.report.reject(
                        partition.graph, op, f"the compiler fails on its partition: {reason.problem}"
                    )
        return bool(blamed)

    def _blamed(self, state: _State, error: XdlcError) -> dict[PlannedPartition, XdlcError]:
        """Return the partitions that do not compile even on their own, with the errors."""
        assert state.plan is not None
        if len(state.plan.partitions) == 1:
            return {state.plan.partitions[0]: error}
        failures: dict[PlannedPartition, XdlcError] = {}
        for partition in state.plan.partitions:
            try:
                compile_for(
                    Model({partition.name: self._graph(partition)}),
                    state.target.name,
                    state.target.options,
                    timeout=self._timeout,
                    name=self._name,
                    launch=self._site.server.launch,
                )
            except XdlcError as failure:
                if not _is_about_parts(failure):
                    return {}
                failures[partition] = failure
        return failures


def _nothing(state: _State, place: str) -> XdlcError:
    problems = [each for each in state.report.problems if each.op not in GRAPH_PARAMS]
    if problems:
        return _all_of(problems, place)
    reasons = {left.reason for left in state.report.unsupported.values() if left.type not in GRAPH_PARAMS}
    why = "; ".join(sorted(reasons)) or "the graph has no op that computes"
    return ConstraintError(
        f"HTP supports no partition of the graph: {why}",
        where=place,
        fix="run the model on the CPU, or choose another SoC",
    )


def _all_of(problems: Sequence[XdlcError], place: str) -> XdlcError:
    return problems[0] if len(problems) == 1 else ProblemList(problems, where=place)


def _is_about_parts(error: XdlcError) -> bool:
    """Return whether the compiler rejects its input, and may accept less."""
    if isinstance(error, ChildDiedError):
        return not error.is_late
    return all(isinstance(problem, BackendError | ConstraintError) for problem in each_problem(error))


def _named(partition: Graph, error: XdlcError) -> dict[str, str]:
    """Return the ops that an error names, and why; or ops around an inserted one."""
    names = [op.name for op in partition.ops]
    adapted = partition.clone()
    passes.run(adapted, passes.htp_query())
    inserted = {op.name: op for op in adapted.ops}
    problems: dict[str, str] = {}
    for problem in each_problem(error):
        node = problem.node
        if node in names:
            problems[node] = problem.problem
        elif node in inserted:
            problems.update((name, problem.problem) for name in around(inserted[node], adapted, names))
    return problems
