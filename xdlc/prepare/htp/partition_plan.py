"""Partition plans of a model, one per SoC, and their extra outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.opdefs.control_flow import CONDITION, Role, has_control_flow, outer_graphs, reachable, roles
from xdlc.options import spell
from xdlc.prepare.htp.partitioner import crossings, partition
from xdlc.prepare.htp.support_query import CpuFallback
from xdlc.runtime.htp.partition_schedule import partition_name

MOST_NAMED = 8
_CONDITION = "the host runs conditions of loops"
_SMALL = "runs faster on the CPU than with copies to HTP and back"


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A graph of a cache.

    Attributes:
        name: Its name in the cache.
        graph: Name of the model's graph that it is, or is partition of.
        ops: Names of its ops, in order; None denotes the whole graph.
        count: Number of its ops.
    """

    name: str
    graph: str
    ops: tuple[str, ...] | None
    count: int


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Partition plan of a model for the HTP of one SoC.

    Attributes:
        soc: Name of the SoC.
        partitions: Graphs of its cache, in the order in which they run.
        left: Ops that stay on the CPU, in order.
        roles: What each branch and loop body is, by the name of its graph, like ``body of 'loop'``.
    """

    soc: str
    partitions: tuple[PlannedPartition, ...]
    left: tuple[CpuFallback, ...]
    roles: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether the cache holds the graphs as they are."""
        return not self.left and all(partition.ops is None for partition in self.partitions)

    @property
    def cached(self) -> int:
        """Number of ops in the cache."""
        return sum(partition.count for partition in self.partitions)

    def lines(self) -> list[str]:
        """Return how many ops are cached, and what stays on the CPU, and why."""
        ops = self.cached + len(self.left)
        lines = [f"{self.cached} of {ops} ops are cached, in {len(self.partitions)} partition(s)"]
        inner = [graph for graph, role in self.roles.items() if not role.startswith(CONDITION)]
        for graph in inner[:MOST_NAMED]:
            cached = sum(partition.count for partition in self.partitions if partition.graph == graph)
            count = cached + sum(left.graph == graph for left in self.left)
            lines.append(f"{self.roles[graph]}: {cached} of {count} ops are cached")
        reasons: dict[tuple[str, str], list[CpuFallback]] = {}
        for left in self.left:
            if left.graph not in self.roles or left.graph in inner[:MOST_NAMED]:
                reasons.setdefault((self.roles.get(left.graph, ""), left.reason), []).append(left)
        for (role, reason), ops_left in reasons.items():
            types = Counter(left.type for left in ops_left)
            kinds = ", ".join(f"{count} {kind}" for kind, count in types.items())
            named = ", ".join(repr(left.op) for left in ops_left[:MOST_NAMED])
            more = f" and {len(ops_left) - MOST_NAMED} more" if len(ops_left) > MOST_NAMED else ""
            place = f"{role}: " if role else ""
            lines.append(f"{place}left to the CPU: {kinds} ({named}{more}): {reason}")
        if len(inner) > MOST_NAMED:
            others = f"{len(inner) - MOST_NAMED} more branches and bodies"
            lines.append(f"and {others}, which {spell('check')} lists")
        return lines


def plan_partitions(
    model: Model,
    soc: str,
    refused: Mapping[tuple[str, str], CpuFallback],
    cuts: Collection[tuple[str, str]] = (),
) -> PartitionPlan:
    """Return the partition plan of a model for a SoC.

    Args:
        soc: Name of the SoC.
        refused: The ops that its HTP does not support, by graph and name.
        cuts: Graph and name of ops before which the partition that holds them is cut in two.
    """
    partitions: list[PlannedPartition] = []
    left: list[CpuFallback] = []
    role_of = roles(model.graphs)
    done, names = set[str](), set(model.graphs)
    for outer in outer_graphs(model):
        family = [graph for graph in reachable(outer, model.graphs) if graph.name not in done]
        done.update(graph.name for graph in family)
        taken = {graph: _taken(graph, refused, role_of) for graph in family}
        if len(taken[outer]) == len(outer):
            numbered = {outer: dict.fromkeys(outer.ops, 0)}
        else:
            arrays = {
                graph: [op for op in ops if not _is_inner_scalar(op, role_of)] for graph, ops in taken.items()
            }
            numbered = partition(arrays)
            if not any(numbered.values()):
                numbered = partition(taken)
        for graph, numbers in numbered.items():
            groups = _groups(graph, numbers, cuts)
            if len(groups) == 1 and len(groups[0]) == len(graph) and graph is outer:
                partitions.append(PlannedPartition(graph.name, graph.name, None, len(graph)))
                continue
            for number, ops in enumerate(groups):
                name = partition_name(graph.name, number, names)
                names.add(name)
                partitions.append(PlannedPartition(name, graph.name, tuple(op.name for op in ops), len(ops)))
            for op in graph.ops:
                if (graph.name, op.name) in refused:
                    left.append(refused[graph.name, op.name])
                elif op not in numbers:
                    is_condition = graph.name in role_of and role_of[graph.name][0] == CONDITION
                    reason = _CONDITION if is_condition else _SMALL
                    left.append(CpuFallback(graph.name, op.name, op.type, reason))
    named = {name: f"{role} of {caller.name!r}" for name, (role, caller) in role_of.items()}
    return PartitionPlan(soc, tuple(partitions), tuple(left), named)


def _taken(graph: Graph, refused: Collection[tuple[str, str]], found: Mapping[str, Role]) -> list[Op]:
    """Return the ops for HTP; none of a condition, which the host computes."""
    if graph.name in found and found[graph.name][0] == CONDITION:
        return []
    return [op for op in graph.ops if (graph.name, op.name) not in refused]


def _is_inner_scalar(op: Op, found: Mapping[str, Role]) -> bool:
    """Return whether an op of a branch or body has single numbers only."""
    inner = op.graph is not None and op.graph.name in found
    return inner and all(tensor is None or tensor.size <= 1 for tensor in (*op.inputs, *op.outputs))


def _groups(graph: Graph, numbers: Mapping[Op, int], cuts: Collection[tuple[str, str]]) -> list[list[Op]]:
    """Return the ops of each partition, in order."""
    by_number: dict[int, list[Op]] = {}
    for op in graph.ops:
        if op in numbers:
            by_number.setdefault(numbers[op], []).append(op)
    groups: list[list[Op]] = []
    for _, ops in sorted(by_number.items()):
        groups.append([])
        for op in ops:
            if (graph.name, op.name) in cuts and groups[-1]:
                groups.append([])
            groups[-1].append(op)
    return groups


def mark(model: Model, plans: Sequence[PartitionPlan]) -> list[str]:
    """Make what leaves a partition of any plan an output; return the names.

    The outputs that were there stay first; the others follow in the order of the ops.  A graph with ``If`` or
    ``While`` keeps its outputs: the vendor's runtime, which wants them marked, does not run it.
    """
    marked: list[str] = []
    for graph in outer_graphs(model):
        if has_control_flow(graph):
            continue
        crossing = set().union(*(_crossing(graph, plan) for plan in plans))
        for op in list(graph.ops):
            for tensor in op.outputs:
                if tensor in crossing and not graph.is_output(tensor):
                    graph.add_output(tensor)
                    marked.append(tensor.name)
    return marked


def _crossing(graph: Graph, plan: PartitionPlan) -> set[Tensor]:
    number = {
        name: index
        for index, partition in enumerate(plan.partitions)
        if partition.graph == graph.name
        for name in partition.ops or ()
    }
    return set(crossings(graph, {op: number[op.name] for op in graph.ops if op.name in number}))
