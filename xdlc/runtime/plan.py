"""Execution plans of graphs with control flow and UDOs, which need sessions.

The ops between these are put into as few partitions as their order allows, each a session of its own;
values are passed from step to step in the form of graph inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xdlc.errors import XdlcError, each_problem, raise_all
from xdlc.ir import Graph, Model, Op, Role, Tensor
from xdlc.ir.graph import is_udo
from xdlc.ir.names import place_of
from xdlc.ir.partitions import leaving, levels, partition_of
from xdlc.ir.quantization import float_data, unpacked
from xdlc.opdefs.control_flow import IF, Loop, called, is_control_flow
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.runtime.engine import Engine, contiguous
from xdlc.runtime.lower import Lowered, as_float, check_outputs, lower
from xdlc.runtime.steps import (
    Array,
    Branch,
    Observer,
    Plan,
    Repeat,
    SessionStep,
    Step,
    UdoStep,
    accumulators,
    iteration,
    truth,
)

if TYPE_CHECKING:
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.udo.kernels import Kernels

SMALL = 1 << 20  # bytes of all tensors of a partition
Refine = Callable[[Lowered], None]


Accelerator = Callable[[Graph], list[tuple[Step | None, Sequence[Op]]]]
"""Returns the ops of a graph, or of an iteration, in groups that run in turn.

Each group is beside the step that runs it, which is None for the CPU.
"""


def whole_plan(lowered: Lowered, *, threads: int | None = None, spins: bool = True) -> Plan:
    """Return the plan that runs a lowered graph in one session.

    Raises:
        BackendError: If onnxruntime refuses the graph.
    """
    plan = Plan(lowered.graph, lowered.outputs)
    plan.steps.append(SessionStep(Engine(lowered, threads=threads, spins=spins)))
    return plan


def came_quantized(model: Model) -> bool:
    """Return whether the encodings of a model come from its source model.

    The source rounds every value that has one, and so does the host then, where HTP would not: what was
    converted computes what the source computes.
    """
    history = model.metadata.get("history", ())
    tools = [entry.get("tool", "") for entry in history if isinstance(entry, dict)]
    return any(tool.startswith("xconv-") for tool in tools) and "xdlc-quant" not in tools


def has_halves(model: Model) -> bool:
    """Return whether floats are stored as float16, whose rounding the host predicts.

    A source of float16 is computed as its own engine does, in float32.
    """
    history = model.metadata.get("history", ())
    steps = [entry.get("args") for entry in history if isinstance(entry, dict)]
    return any(isinstance(args, dict) and args.get("float_bitwidth") == "16" for args in steps)


def make_plan(
    graph: Graph,
    graphs: Mapping[str, Graph],
    *,
    quantized: bool = True,
    outputs: Iterable[str] | None = None,
    threads: int | None = None,
    spins: bool = True,
    refine: Refine | None = None,
    observer: Observer | None = None,
    stated: bool = False,
    halves: bool = False,
    kernels: Kernels | None = None,
    profiler: Profiler | None = None,
    accelerator: Accelerator | None = None,
) -> Plan:
    """Return the plan of a graph.

    Args:
        graphs: The graphs that it may run, by name.
        quantized: Whether fixed-point tensors are rounded to their encodings.
        outputs: Names of tensors to output in addition to the graph's outputs.
        threads: Threads of one op; default: one per core.
        spins: Whether idle threads of a graph that one session runs wait busily.
        refine: Called with each partition of ``graph`` once it is lowered; may add nodes and outputs.
        observer: What looks at values of ``graph`` and those that it runs.
        stated: Whether every fixed-point tensor is rounded, see :func:`xdlc.runtime.lower.lower`.
        halves: Whether results of float16 are rounded, likewise.
        profiler: Collects the times of ops.
        accelerator: Runs partitions of ``graph`` and of those that it runs; default: none.

    Raises:
        ConstraintError: If an op that runs other graphs breaks a rule of control flow.
        UnsupportedOp: If there is no kernel for a UDO.
        XdlcError: What lowering and opening the partitions raises, all of it together.
    """
    if accelerator is None and not any(map(_is_step, graph.ops)):
        lowered = lower(graph, quantized=quantized, outputs=outputs, stated=stated, halves=halves)
        if refine is not None:
            refine(lowered)
        plan = Plan(graph, lowered.outputs)
        step = _observed(lowered, observer, profiler, threads=threads, spins=spins)
        plan.steps += [step] if step is not None else []
        return plan
    raise_all(verify_control_flow({graph.name: graph, **graphs}, graph))
    extra = check_outputs(graph, outputs)
    maker = _Maker(graphs, quantized, threads, stated, halves, observer, kernels, profiler, accelerator)
    plan = maker.plan(graph, extra, refine)
    raise_all(maker.problems)
    return plan


def _is_step(op: Op) -> bool:
    """Return whether an op is a step of its own."""
    return is_control_flow(op) or is_udo(op)


@dataclass
class _Maker:
    """Makes plans of graphs with sub-graphs, one per graph, and collects problems."""

    graphs: Mapping[str, Graph]
    quantized: bool
    threads: int | None
    stated: bool
    halves: bool
    observer: Observer | None
    kernels: Kernels | None
    profiler: Profiler | None
    accelerator: Accelerator | None
    problems: list[XdlcError] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)

    def plan(self, graph: Graph, outputs: Iterable[str] = (), refine: Refine | None = None) -> Plan:
        plan = Plan(graph, outputs)
        whole: list[tuple[Step | None, Sequence[Op]]] = [(None, list(graph.ops))]
        for step, ops in whole if self.accelerator is None else self.accelerator(graph):
            if step is not None:
                plan.steps.append(step)
            else:
                self._add_host(plan, ops, refine)
        read = {held for op in graph.ops if is_control_flow(op) for held in op.inputs if held is not None}
        for tensor in (*read, *(graph.tensors[name] for name in plan.outputs if name in graph.tensors)):
            if tensor.is_static and tensor.name not in plan.constants:
                plan.constants[tensor.name] = constant(tensor)
        return plan

    def _add_host(self, plan: Plan, ops: Sequence[Op], refine: Refine | None) -> None:
        numbers = levels(ops, lambda source, op: _is_step(source))
        layers: list[tuple[list[Op], list[Op]]] = [
            ([], []) for _ in range(max(numbers.values(), default=0) + 1)
        ]
        for op, level in numbers.items():
            layers[level][_is_step(op)].append(op)
        for natives, others in layers:
            outputs = leaving(plan.graph, natives, plan.outputs)
            if outputs:
                self._add_session(plan, partition_of(plan.graph, natives, outputs), refine)
            for op in others:
                if is_udo(op):
                    self._add_custom(plan, op, refine)
                else:
                    plan.steps.append(self._caller(op))

    def _add_session(self, plan: Plan, partition: Graph, refine: Refine | None) -> None:
        try:
            lowered = lower(partition, quantized=self.quantized, stated=self.stated, halves=self.halves)
            if refine is not None:
                refine(lowered)
                plan.outputs += [name for name in lowered.outputs if name not in partition.tensors]
            threads = self.threads or (1 if _is_small(partition) else None)
            step = _observed(lowered, self.observer, self.profiler, threads=threads, spins=False)
            if step is not None:
                plan.steps.append(step)
        except XdlcError as problem:
            self.problems.extend(each_problem(problem))

    def _add_custom(self, plan: Plan, op: Op, refine: Refine | None) -> None:
        try:
            plan.steps.append(UdoStep.of(op, self.kernels, self.profiler, quantized=self.quantized))
            if refine is not None or self.observer is not None:
                self._add_session(plan, results_of(op), refine)
        except XdlcError as problem:
            self.problems.extend(each_problem(problem))

    def _caller(self, op: Op) -> Step:
        first, second = called(op)
        if op.type == IF:
            known = op.inputs[0]
            if known is not None and known.is_static:  # the other branch is not even opened
                first = second = first if truth(known.numpy(), place_of(op)) else second
            return Branch(op, self._called(first), self._called(second))
        cond, body = self.graphs[first], self.graphs[second]
        counts = Loop.of(op, body)
        grown = accumulators(cond, body, counts)
        graph, names = iteration(cond, body, grown)
        plan = self.plan(graph, names)
        places = [plan.outputs.index(name) for name in names]
        return Repeat(op, counts, self._called(first), plan, places, grown)

    def _called(self, name: str) -> Plan:
        if name not in self.plans:
            self.plans[name] = self.plan(self.graphs[name])
        return self.plans[name]


def _observed(
    lowered: Lowered,
    observer: Observer | None,
    profiler: Profiler | None,
    *,
    threads: int | None,
    spins: bool = True,
) -> SessionStep | None:
    """Return the step that runs a lowered graph; None if it has no outputs."""
    own = set(lowered.outputs)
    if observer is not None:
        observer.refine(lowered)
    if not lowered.outputs:
        return None
    added = tuple(name for name in lowered.outputs if name not in own)
    return SessionStep(Engine(lowered, threads=threads, spins=spins, profiler=profiler), observer, added)


def _is_small(graph: Graph) -> bool:
    """Return whether a partition moves too little for threads of its own."""
    return sum(tensor.nbytes for tensor in graph.tensors.values()) < SMALL


def constant(tensor: Tensor) -> Array:
    """Return static data in the form of graph inputs."""
    data = float_data(tensor) if as_float(tensor.dtype) else unpacked(tensor)
    return contiguous(data.numpy()).reshape(tensor.shape)


def results_of(op: Op) -> Graph:
    """Return a graph without ops whose inputs are an op's outputs, for observers."""
    assert op.graph is not None
    partition = Graph(op.graph.name)
    for tensor in op.outputs:
        partition.add_input(replace(tensor, role=Role.NATIVE, producer=None))
    return partition
