"""Fusions of HTP: ops computed with the op before, without rounding.

Found with the vendor's emulation (SDK 2.51, SM8650) on pairs of ops with 8-bit activations: the
result is that of the second op over unrounded values of the first, whatever encoding the tensor
between them has, and even if that tensor is an output of the graph.  Other pairs, like a
convolution and Sigmoid, Gelu or Elu, or an addition and Relu, round between.

A product of 8-bit values is rounded otherwise where an activation function follows
(:mod:`xdlc.runtime.htp_arithmetic`).  A partition that ends between two such ops would compute other
numbers than the whole graph does.  So it computes more than its own ops: the producers of what they read
unrounded, once more, and the ops that decide how its own results are rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.ir.partitions import entering, leaving, partition_of, sources
from xdlc.opdefs.traits import operation_name, traits


def with_producer(source: Tensor, function: str) -> bool:
    """Return whether an activation function reads its input unrounded.

    Args:
        source: The function's input.
        function: Its name, like ``Prelu``.
    """
    producer = source.producer
    return (
        producer is not None
        and producer.package == NATIVE_PACKAGE
        and function in traits(producer).fuses
        and source.dtype.is_fixed
        and source.dtype.bits == 8
    )


def reads_unrounded(op: Op) -> Tensor | None:
    """Return the input that HTP does not round before an activation, or None.

    Such an op and the one before give the same together only if nothing comes between them.
    """
    if op.package != NATIVE_PACKAGE or not op.inputs or op.inputs[0] is None or not op.outputs:
        return None
    source = op.inputs[0]
    function = operation_name(op)
    same = function != "Prelu" and source.encoding == op.outputs[0].encoding
    return source if not same and with_producer(source, function) else None


def shapes_product(op: Op) -> bool:
    """Return whether an op's result encoding decides the rounding before it.

    The product before is one of 8 bits.

    That of an ElementWiseNeuron does, whatever its operation; ops Sigmoid, Tanh, Elu and Gelu do not.
    """
    neuron = op.package == NATIVE_PACKAGE and op.type == "ElementWiseNeuron"
    return neuron or traits(op).activation


def gate_of(op: Op) -> Tensor | None:
    """Return the unrounded ``sigmoid(x)`` of a product ``x * sigmoid(x)``, or None."""
    if op.package != NATIVE_PACKAGE or operation_name(op) != "ElementWiseMultiply" or len(op.inputs) < 2:
        return None
    for gate, factor in (op.inputs[:2], op.inputs[1::-1]):
        producer = gate.producer if gate is not None else None
        if (
            gate is not None
            and producer is not None
            and producer.package == NATIVE_PACKAGE
            and operation_name(producer) == "Sigmoid"
            and producer.inputs[0] is factor
            and gate.dtype.is_fixed
            and gate.dtype.bits == 8
        ):
            return gate
    return None


@dataclass(frozen=True, slots=True)
class Bond:
    """Two ops that one section has to compute.

    Attributes:
        reader: What reads its result.
        unrounded: Whether it reads more than the result's quantized values.
        shaping: Whether it decides how the result is rounded.
    """

    producer: Op
    reader: Op
    unrounded: bool
    shaping: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a graph as a separate graph with the same results.

    Attributes:
        graph: Copies of them and of those lent by other partitions.
        lent: Ops of other partitions that it computes too.
        readers: Ops of other partitions that its graph has because they decide the rounding of their inputs;
            nothing reads their results.
    """

    ops: tuple[Op, ...]
    graph: Graph
    lent: tuple[Op, ...]
    readers: tuple[Op, ...]


def bonds(graph: Graph, *, stated: bool = False) -> list[Bond]:
    """Return the bonds between ops of a graph.

    Args:
        stated: Whether every value is rounded to its encoding, so that there are none; see
            :func:`xdlc.runtime.lower.lower`.
    """
    return [] if stated else [bond for op in graph.ops for bond in _bonds_to(op)]


def _bonds_to(reader: Op) -> Iterator[Bond]:
    if reader.package != NATIVE_PACKAGE or not reader.inputs or not reader.outputs:
        return
    for tensor in dict.fromkeys(reader.inputs):
        producer = None if tensor is None else tensor.producer
        if tensor is None or producer is None:
            continue
        unrounded = tensor is reads_unrounded(reader) or tensor is gate_of(reader)
        shaping = (
            producer.package == NATIVE_PACKAGE
            and traits(producer).macs in ("convolution", "dense")
            and tensor.dtype is UFIXED8
            and shapes_product(reader)
            and reader.outputs[0].encoding != tensor.encoding
        )
        if unrounded or shaping:
            yield Bond(producer, reader, unrounded, shaping)


def partitions_of(graph: Graph, runs: Sequence[Sequence[Op]], *, stated: bool = False) -> list[Partition]:
    """Return the partitions that a graph falls into.

    What enters a partition comes from the caller or leaves an earlier partition.

    Args:
        runs: Its ops, one run after the other.
        stated: Whether every value is rounded to its encoding.
    """
    positions = {op: position for position, op in enumerate(graph.ops)}
    needed: dict[Op, list[Op]] = {}
    shaping: dict[Op, list[Op]] = {}
    for bond in bonds(graph, stated=stated):
        if bond.unrounded:
            needed.setdefault(bond.reader, []).append(bond.producer)
        if bond.shaping:
            shaping.setdefault(bond.producer, []).append(bond.reader)
    whole = [sorted(_with_others(run, needed, shaping, positions), key=positions.__getitem__) for run in runs]
    reads = [{tensor.name for tensor in entering(ops)} for ops in whole]
    counts = Counter(name for names in reads for name in names)
    output_names = {tensor.name for tensor in graph.outputs}
    partitions = []
    for run, ops, names in zip(runs, whole, reads, strict=True):
        own = set(run)
        # what another partition reads, maybe with an op that is lent to it
        shared = {name for name, count in counts.items() if count > (name in names)}
        outputs = leaving(graph, run, output_names | shared)
        others = [op for op in ops if op not in own]
        read = {tensor for op in ops for tensor in op.inputs}
        lent = tuple([op for op in others if not read.isdisjoint(op.outputs)])
        readers = tuple([op for op in others if op not in lent])
        partitions.append(Partition(tuple(run), partition_of(graph, ops, outputs), lent, readers))
    return partitions


def _with_others(
    run: Iterable[Op],
    needed: Mapping[Op, Sequence[Op]],
    shaping: Mapping[Op, Sequence[Op]],
    positions: Mapping[Op, int],
) -> set[Op]:
    """Return the ops of a run, and other ops that it must compute."""
    own = list(run)
    last = max((positions[op] for op in own), default=-1)
    members = set(own)
    open_ops = own
    while open_ops:
        op = open_ops.pop()
        readers = [reader for reader in shaping.get(op, ()) if _is_ready(reader, op, positions, last)]
        for other in (*needed.get(op, ()), *readers):
            if other not in members:
                members.add(other)
                open_ops.append(other)
    return members


def _is_ready(reader: Op, producer: Op, positions: Mapping[Op, int], last: int) -> bool:
    """Return whether an op's other inputs are computed when a run ends."""
    others = sources(reader) - {producer}
    return all(positions.get(source, last + 1) <= last for source in others)
