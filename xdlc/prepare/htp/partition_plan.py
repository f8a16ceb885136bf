"""Partition plans: parts of a model for the HTP of a SoC, by a cost model.

There are as few partitions as possible.  Those whose computation does not make up for the copies to HTP and
back go to the CPU.  Branches and loop bodies are divided in the same way, as if they ran once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.partitions import components, levels
from xdlc.opdefs.control_flow import CONDITION, Role, has_control_flow, outer_graphs, reachable, roles
from xdlc.opdefs.traits import macs, traits
from xdlc.options import spell
from xdlc.prepare.htp.support_query import CpuFallback
from xdlc.runtime.htp.partition_schedule import partition_name

CALL = 1 << 16
"""Cost of starting a partition, in bytes copied to HTP: about what takes as long to copy."""
AT_ONCE = 8
"""One in this many unprofitable partitions is dropped at a time, at least one."""


def stages(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    """Return the number of the partition of each op that HTP supports.

    An op waits for a further partition only if a path from a supported op to it has one that is not.
    """
    numbers = levels(
        graph.ops,
        lambda source, op: op in taken and source not in taken,
        lambda op: 0 if op in taken else -1,
    )
    return {op: number for op, number in numbers.items() if op in taken}


def move_later(graph: Graph, numbers: dict[Op, int]) -> None:
    """Move ops to later partitions if that does not increase traffic.

    Args:
        numbers: The number of each taken op's partition; changed in place.
    """
    for op in reversed(list(graph.ops)):
        if op not in numbers:
            continue
        readers = [reader for tensor in op.outputs for reader in graph.consumers(tensor)]
        if not readers or not all(reader in numbers for reader in readers):
            continue
        now, later = numbers[op], min(numbers[reader] for reader in readers)
        if later == now:
            continue
        before = _crossing_bytes(graph, op, numbers)
        numbers[op] = later
        if _crossing_bytes(graph, op, numbers) > before:
            numbers[op] = now


def _crossing_bytes(graph: Graph, op: Op, numbers: dict[Op, int]) -> int:
    """Return the bytes around an op that cross from a partition to elsewhere."""
    tensors = {tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None and not tensor.is_static}
    return sum(tensor.nbytes for tensor in tensors if leaves(graph, tensor, numbers))


def leaves(graph: Graph, tensor: Tensor, numbers: dict[Op, int]) -> bool:
    """Return whether a tensor is computed in a partition and read outside of it.

    Graph outputs do not count, so that marking such tensors as outputs has no effect here.
    """
    if tensor.producer is None or tensor.producer not in numbers:
        return False
    own = numbers[tensor.producer]
    return any(numbers.get(reader, -1) != own for reader in graph.consumers(tensor))


def crossings(graph: Graph, numbers: dict[Op, int]) -> list[Tensor]:
    """Return the tensors that leave the partitions, in the order of the ops."""
    return [tensor for op in graph.ops for tensor in op.outputs if leaves(graph, tensor, numbers)]


def connected(graph: Graph, numbers: Mapping[Op, int]) -> list[list[Op]]:
    """Return the connected components of partitions; static tensors join none."""

    def pairs() -> Iterator[tuple[Op, Op]]:
        for tensor in graph.tensors.values():
            first: dict[int, Op] = {}
            producer = () if tensor.producer is None else (tensor.producer,)
            for op in () if tensor.is_static else (*producer, *graph.consumers(tensor)):
                if op in numbers:
                    yield first.setdefault(numbers[op], op), op

    return components((op for op in graph.ops if op in numbers), pairs())


def work(op: Op) -> int:
    """Return the operations of an op: multiply-accumulates, or one per result element.

    Moving and copying counts as none, as the copy to HTP already is one.
    """
    return 0 if traits(op).copies else macs(op) or sum(tensor.size for tensor in op.outputs)


def partition(taken: Mapping[Graph, Collection[Op]]) -> dict[Graph, dict[Op, int]]:
    """Return the partition of each op on HTP, for a graph and its sub-graphs.

    Components with fewer operations than bytes to copy between CPU and HTP for them go to the CPU, and so do
    partitions that do not make up for starting them besides.  If that would be all of a graph, the latter
    stay; if nothing would be left of any graph, all stay that compute anything.

    Args:
        taken: The ops that HTP supports, of each graph.
    """
    kept = {graph: _gainful(graph, ops, CALL) or _gainful(graph, ops, 0) for graph, ops in taken.items()}
    if not any(kept.values()):
        for graph, ops in taken.items():
            parts = connected(graph, _numbers(graph, ops))
            kept[graph] = _numbers(graph, {op for each in parts if any(map(work, each)) for op in each})
    return kept


def _gainful(graph: Graph, taken: Collection[Op], least: int) -> dict[Op, int]:
    kept = set(taken)
    while True:
        numbers = _numbers(graph, kept)
        costly = _costly(graph, numbers, least)
        if not costly:
            return numbers
        kept.difference_update(costly)


def _numbers(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    numbers = stages(graph, taken)
    move_later(graph, numbers)
    return numbers


def _costly(graph: Graph, numbers: dict[Op, int], least: int) -> list[Op]:
    """Return the ops of unprofitable components, or of the worst partitions.

    Without them others may be joined, so that few are dropped at a time: one, or of very many an eighth.
    """
    gains: dict[int, int] = {}
    members: dict[int, list[Op]] = {}
    costly: list[Op] = []
    for component in connected(graph, numbers):
        gain = sum(map(work, component)) - _over(graph, component, numbers)
        if gain < 0:
            costly += component
        gains[numbers[component[0]]] = gains.get(numbers[component[0]], 0) + gain
        members.setdefault(numbers[component[0]], []).extend(component)
    if costly or not gains:
        return costly
    low = sorted((number for number in gains if gains[number] < least), key=lambda number: gains[number])
    return [op for number in low[: max(1, len(low) // AT_ONCE)] for op in members[number]]


def _over(graph: Graph, component: Iterable[Op], numbers: dict[Op, int]) -> int:
    """Return the bytes that are copied from the CPU to a component and back."""
    read: set[Tensor] = set()
    results: set[Tensor] = set()
    for op in component:
        read.update(op.computed)
        for tensor in op.outputs:
            readers = graph.consumers(tensor)
            if not readers or any(reader not in numbers for reader in readers):
                results.add(tensor)
    outside = (tensor for tensor in read if tensor.producer is None or tensor.producer not in numbers)
    return sum(tensor.nbytes for tensor in (*outside, *results))


MOST_NAMED = 8
_CONDITION = "the CPU runs the conditions of loops"
_SMALL = "runs faster on the CPU, without copies to HTP and back"


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A graph of a cache.

    Attributes:
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
        """Whether the cache contains the complete graphs."""
        return not self.left and all(partition.ops is None for partition in self.partitions)

    @property
    def cached(self) -> int:
        """Number of ops in the cache."""
        return sum(partition.count for partition in self.partitions)

    def lines(self) -> list[str]:
        """Return lines: the number of cached ops, and ops on the CPU with reasons."""
        ops = self.cached + len(self.left)
        lines = [f"HTP runs {self.cached} of {ops} ops, in {len(self.partitions)} partition(s)"]
        inner = [graph for graph, role in self.roles.items() if not role.startswith(CONDITION)]
        for graph in inner[:MOST_NAMED]:
            cached = sum(partition.count for partition in self.partitions if partition.graph == graph)
            count = cached + sum(left.graph == graph for left in self.left)
            lines.append(f"{self.roles[graph]}: HTP runs {cached} of {count} ops")
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
            lines.append(f"{place}the CPU runs {kinds} ({named}{more}): {reason}")
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
    """Make tensors that leave a partition of any plan outputs; return their names.

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
