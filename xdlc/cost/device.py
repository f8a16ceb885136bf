"""Cost of a graph on a device: bytes and engines by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xdlc.cost.schematic import FILL, SPILL, Kernel, Traffic, read_schematic
from xdlc.errors import size
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.traits import macs, value_sources
from xdlc.options import spell
from xdlc.runtime.htp import CompileOptions, traced_compilation
from xdlc.runtime.htp.process import Launch, start
from xdlc.targets import Soc

DEAREST = 10
NO_FLOATS = 68
"""Architecture whose matrix unit computes no floats."""
_PORTS = "(inputs and outputs)"
_WEIGHTS, _STRIDED = "weights_to_vtcm", "SpaceToDepth"
"""Parts of names of kernels that read weights, and that rearrange values for a stride."""
_BLOCK = 32
"""Channels that stand together in VTCM."""
_DRAM_COSTS = 8
"""Bytes of VTCM traffic that a byte of DRAM traffic outweighs."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """Cost of an op on a device.

    Attributes:
        op: Its name, in HTP's form of the graph.
        nodes: Nodes of the source model that it comes from.
        fused: Names of ops that the compiler has computed with it.
        kernels: Kernels that it became, by engine.
        traffic: Bytes that they move.
        spilled: Bytes of them that go to DRAM because VTCM has no room.
        filled: Bytes of them that are read again.
        macs: Multiplications of it and of the ops fused with it.
        weights: Bytes of their static tensors, as stored in the DLC.
        reason: Why it moves what it moves, in words.
    """

    op: str
    type: str
    nodes: tuple[str, ...]
    fused: tuple[str, ...]
    kernels: Mapping[str, int]
    traffic: Traffic
    spilled: int
    filled: int
    macs: int
    weights: int
    reason: str


@dataclass(frozen=True)
class DeviceCost:
    """Cost of a graph on a device.

    Attributes:
        vtcm_mb: VTCM in MB that the compiler planned for.
        build: Build of the vendor's library.
        ops: Cost of each op, in the order of the graph; copies of inputs and outputs first.
        vector: Bytes of VTCM that kernels beside HMX and DMA read and write.
        vtcm_peak: Bytes of VTCM up to the last block in use.
        notes: What is remarkable, in words.
    """

    graph: str
    soc: str
    vtcm_mb: int
    build: str
    ops: tuple[OpCost, ...]
    vector: int
    vtcm_peak: int
    notes: tuple[str, ...]

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes that all kernels move."""
        return sum((op.traffic for op in self.ops), Traffic())

    @cached_property
    def kernels(self) -> Counter[str]:
        """Number of kernels by engine."""
        return sum((Counter(op.kernels) for op in self.ops), Counter[str]())

    @property
    def spilled(self) -> int:
        """Bytes that go to DRAM because VTCM has no room."""
        return sum(op.spilled for op in self.ops)

    def share(self, op: OpCost) -> float:
        """Return the mean of an op's shares of the traffic of DRAM and of VTCM, 0 to 1."""
        total = self.traffic
        return (op.traffic.dram / max(total.dram, 1) + op.traffic.vtcm / max(total.vtcm, 1)) / 2

    def dearest(self, most: int = DEAREST) -> list[OpCost]:
        """Return the ops that move most, by ``share``."""
        return sorted(self.ops, key=self.share, reverse=True)[:most]


def device_costs(
    model: Model,
    soc: Soc,
    options: CompileOptions,
    *,
    timeout: float = 1800,
    name: str = "model",
    path: Path | None = None,
    launch: Launch = start,
) -> list[DeviceCost]:
    """Return the cost of each graph of a model on a SoC.

    Args:
        options: What the caller chose about compiling.
        timeout: Seconds that compiling may take.
        path: A DLC that it is stored in; default: it is stored for this call.

    Raises:
        ConstraintError: If HTP refuses an op; a ProblemList of them if it refuses several.
        BackendError: If the library is missing, unknown or fails, or writes another format.
    """
    costs = []
    with traced_compilation(
        model, soc.name, options, timeout=timeout, name=name, path=path, launch=launch
    ) as traced:
        for graph in model.graphs.values():
            schematic = read_schematic(traced.files[graph.name], traced.build)
            ops = _op_costs(graph, traced.ops[graph.name], schematic.kernels, soc)
            vtcm = options.vtcm_mb or soc.vtcm_mb or 0
            costs.append(
                DeviceCost(
                    graph=graph.name,
                    soc=soc.name,
                    vtcm_mb=vtcm,
                    build=traced.build,
                    ops=ops,
                    vector=sum(
                        kernel.traffic.vtcm
                        for kernel in schematic.kernels
                        if kernel.engine not in ("HMX", "DMA")
                    ),
                    vtcm_peak=schematic.vtcm_peak,
                    notes=tuple(_notes(ops, soc)),
                )
            )
    return costs


def _op_costs(
    graph: Graph, compiled: Sequence[tuple[str, str, Sequence[str]]], kernels: Sequence[Kernel], soc: Soc
) -> tuple[OpCost, ...]:
    """Return the cost of each op of the compiled form that moves bytes."""
    by_op: dict[int | None, list[Kernel]] = {}
    for kernel in kernels:
        by_op.setdefault(kernel.op, []).append(kernel)
    ports = by_op.pop(None, [])
    costs = [_cost(_PORTS, "", (), (), ports, soc)] if ports else []
    parts = _parts(graph, {compiled[number][0] for number in by_op if number is not None})
    for number, own in sorted((number, own) for number, own in by_op.items() if number is not None):
        op, kind, nodes = compiled[number]
        costs.append(_cost(op, kind, tuple(nodes), parts.get(op, ()), own, soc))
    return tuple(costs)


def _parts(graph: Graph, costly: set[str]) -> dict[str, tuple[Op, ...]]:
    """Return the ops that run as part of each costly op, itself first, by name.

    An op without kernels runs as part of the op that reads its result, or else of the one that it reads.
    """
    parts: dict[str, list[Op]] = {op.name: [op] for op in graph.ops if op.name in costly}
    homes = {op: op.name for op in graph.ops if op.name in costly}
    for op in reversed(graph.ops):
        if op not in homes:
            readers = [reader for tensor in op.outputs for reader in graph.consumers(tensor)]
            home = next((homes[reader] for reader in readers if reader in homes), None)
            if home is not None:
                homes[op] = home
                parts[home].append(op)
    for op in graph.ops:
        if op not in homes:
            sources = [tensor.producer for tensor in op.inputs if tensor is not None]
            home = next((homes[source] for source in sources if source in homes), None)
            if home is not None:
                homes[op] = home
                parts[home].append(op)
    return {name: tuple(ops) for name, ops in parts.items()}


def _cost(
    name: str, kind: str, nodes: tuple[str, ...], ops: Sequence[Op], kernels: Sequence[Kernel], soc: Soc
) -> OpCost:
    traffic = sum((kernel.traffic for kernel in kernels), Traffic())
    spilled = sum(kernel.traffic.dram_write for kernel in kernels if kernel.operation == SPILL)
    filled = sum(kernel.traffic.dram_read for kernel in kernels if kernel.operation == FILL)
    engines = Counter(kernel.engine for kernel in kernels)
    static = {tensor for op in ops for tensor in op.inputs if tensor is not None and tensor.is_static}
    weights = sum(tensor.nbytes for tensor in static)
    work = sum(map(macs, ops))
    reason = _reason(name, ops, kernels, work, weights, soc)
    dearest = max(ops, key=macs, default=None)
    if dearest is not None and dearest is not ops[0]:
        reason = f"for {dearest.type} {dearest.name!r}: {reason}"
    fused = tuple(op.name for op in ops if op.name != name)
    return OpCost(name, kind, nodes, fused, engines, traffic, spilled, filled, work, weights, reason)


def _reason(
    name: str, ops: Sequence[Op], kernels: Sequence[Kernel], work: int, weights: int, soc: Soc
) -> str:
    """Return why an op moves what it moves, and what moves less, in words."""
    traffic = sum((kernel.traffic for kernel in kernels), Traffic())
    engines = {kernel.engine for kernel in kernels}
    out = sum(kernel.traffic.dram for kernel in kernels if kernel.operation in (SPILL, FILL))
    loaded = sum(kernel.traffic.dram_read for kernel in kernels if _WEIGHTS in kernel.operation)
    strided = sum(kernel.traffic.vtcm for kernel in kernels if _STRIDED in kernel.operation)
    is_float = any(tensor.dtype.is_float for op in ops for tensor in op.outputs)
    rounded = "; 8-bit values move half or less" if is_float else ""
    if name == _PORTS and not ops:
        return f"copies inputs and outputs, {size(traffic.dram)}"
    if out:
        fewer = "8-bit values" if is_float else "smaller maps"
        return f"values of the op do not fit into VTCM: {size(out)} go to DRAM and back; {fewer} fit"
    if work and "HMX" not in engines:
        if is_float and soc.arch == NO_FLOATS:
            return f"HVX computes the op, because HMX of v{soc.arch} has no floats; quantize the network"
        return f"HVX computes the op, not HMX, and moves {size(traffic.dram + traffic.vtcm)}"
    if loaded and 2 * loaded >= traffic.dram and traffic.dram * _DRAM_COSTS >= traffic.vtcm:
        stored = weights // 2 if is_float else weights  # HTP computes in float16
        if stored and loaded > 2 * stored:
            return f"reads {size(loaded)} for weights of {size(stored)}: HTP pads channels to {_BLOCK}"
        halved = "; 8-bit weights need half" if is_float else ""
        return f"reads {size(loaded)} of weights from DRAM{halved}"
    if strided and 2 * strided >= traffic.vtcm:
        return f"moves {size(strided)} to rearrange its input for the stride{rounded}"
    narrow = _narrow(ops)
    moved = size(traffic.dram + traffic.vtcm)
    if narrow is not None:
        channels, times = narrow
        what = f"moves {moved}; {channels} channels use the space of {_BLOCK}, {times:.0f} times as much"
        source = ops[0].inputs[0]
        if ops[0].type == "Transpose" and source is not None and source.producer is None:
            layout = spell("convert.desired_input_layout", {source.name: "NHWC"})
            return f"{what}; channels last need no Transpose: {layout}"
        return what
    if ops and _only_moves(ops[0]):
        return f"moves {moved} and computes nothing{rounded}"
    if 2 * traffic.dram > traffic.vtcm:
        return f"reads and writes {size(traffic.dram)} of values in DRAM{rounded}"
    largest = max(kernels, key=lambda kernel: kernel.traffic.dram + kernel.traffic.vtcm)
    return f"moves {moved}, most by {largest.operation} on {largest.engine}{rounded}"


def _narrow(ops: Sequence[Op]) -> tuple[int, float] | None:
    """Return few channels that are padded to more room, and how many times."""
    tensors = [tensor for op in ops[:1] for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    live = [tensor for tensor in tensors if not tensor.is_static and len(tensor.shape) == 4]
    if not live:
        return None
    largest = max(live, key=lambda tensor: tensor.size)
    channels = min(largest.shape[-1], live[-1].shape[-1])
    padded = -(-channels // _BLOCK) * _BLOCK / max(channels, 1)
    return (channels, padded) if padded >= 2 else None


def _only_moves(op: Op) -> bool:
    """Return whether an op passes values on, each once."""
    passed = [tensor for place in value_sources(op) if (tensor := op.inputs[place]) is not None]
    moved = sum(tensor.size for tensor in op.outputs)
    return bool(passed) and sum(tensor.size for tensor in passed) == moved


def _notes(ops: Sequence[OpCost], soc: Soc) -> list[str]:
    notes = []
    if any(op.macs for op in ops) and not any(op.kernels.get("HMX") for op in ops):
        why = (
            f"HMX of v{soc.arch} has no floats, and floats have 32 bits; quantize the network"
            if soc.arch == NO_FLOATS
            else "the vector unit computes all ops"
        )
        notes.append(f"no kernel runs on HMX, the matrix unit: {why}")
    spilling = [op for op in ops if op.spilled]
    if spilling:
        total = sum(op.spilled for op in spilling)
        worst = max(spilling, key=lambda op: op.spilled)
        notes.append(f"VTCM has no space for {total:,} bytes; they go to DRAM and back, most by {worst.op!r}")
    return notes
