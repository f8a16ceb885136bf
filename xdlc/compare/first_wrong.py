"""First wrong op between two engines, by the error of each op alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xdlc.compare.engines import Engine, HostEngine, Values
from xdlc.compare.figures import EXACT, Difference, Figures
from xdlc.ir import Graph, Model, Op, Role, ScaleOffset, Tensor
from xdlc.runtime.htp_fusion import bonds, shapes_product

MEMORY = 384 << 20
"""Bytes of values that are held at a time, of all that compute."""
_COPIES = 3
"""Values of a tensor that are held: both engines', and the op's alone."""
FLOATS, HALVES, FIXED = 60.0, 40.0, 24.0
"""Least SQNR in dB of a right op: in float32, in float16, and of fixed point that came from floats."""

Metric = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor in two engines.

    Attributes:
        tensor: Its name.
        op: Name of the op that computes it.
        type: Type of that op.
        nodes: Source nodes of all ops since the tensors that the engines share.
        dtype: Stored type.
        cumulative: Difference of the candidate from the reference.
        isolated: Difference of the ops alone: on inputs of one engine; None where they do not run alone.
        least: SQNR in dB below which the ops alone are wrong.
    """

    tensor: str
    op: str
    type: str
    nodes: tuple[str, ...]
    dtype: str
    cumulative: Figures
    isolated: Figures | None
    least: float

    @property
    def is_wrong(self) -> bool:
        """Whether the ops alone compute other values."""
        return self.isolated is not None and self.isolated.db < self.least


@dataclass(frozen=True, slots=True)
class Segment:
    """Ops between tensors that both engines share, with the one that they compute.

    Attributes:
        tensor: The tensor that they compute.
        ops: The ops, in order.
        inputs: Names of the shared tensors that they read, inputs of the graph included.
    """

    tensor: Tensor
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]


def segments(graph: Graph, shared: Collection[str]) -> list[Segment]:
    """Return the segment of each shared tensor that ops compute, in order."""
    names = set(shared)
    inputs = {tensor.name for tensor in graph.inputs}
    places = {op: number for number, op in enumerate(graph.ops)}
    parts: list[Segment] = []
    for op in graph.ops:
        for tensor in op.outputs:
            if tensor.name in names:
                ops, entering = {op: None}, dict[str, None]()
                waiting = [op]
                while waiting:
                    for source in waiting.pop().inputs:
                        if source is None or source.is_static:
                            continue
                        if source.name in names or source.name in inputs:
                            entering[source.name] = None
                        elif source.producer is not None and source.producer not in ops:
                            ops[source.producer] = None
                            waiting.append(source.producer)
                ordered = tuple(sorted(ops, key=lambda member: places[member]))
                parts.append(Segment(tensor, ordered, tuple(entering)))
    return parts


def unrounded(graph: Graph) -> set[str]:
    """Return the names of tensors that only count after the op that reads them.

    HTP does not round them, or they have the encoding of the activation function, which cuts them off.
    """
    names = {tensor.name for bond in bonds(graph) if bond.unrounded for tensor in bond.producer.outputs}
    for op in graph.ops:
        source = op.inputs[0] if op.inputs else None
        if source is None or not source.dtype.is_fixed or not shapes_product(op):
            continue
        if graph.sole_consumer(source) is op and source.encoding == op.outputs[0].encoding:
            names.add(source.name)
    return names


def grouped(graph: Graph, parts: Sequence[Segment], most: int = MEMORY) -> Iterator[list[Segment]]:
    """Iterate over groups of segments within a number of bytes, one at least."""
    group: list[Segment] = []
    names: set[str] = set()
    total = 0
    for part in parts:
        fresh = {part.tensor.name, *part.inputs} - names
        size = sum(4 * graph.tensors[name].size for name in fresh)
        if group and total + size > most:
            yield group
            group, names, total = [], set(), 0
            fresh = {part.tensor.name, *part.inputs}
            size = sum(4 * graph.tensors[name].size for name in fresh)
        group.append(part)
        names |= fresh
        total += size
    if group:
        yield group


def apart(graph: Graph, parts: Sequence[Segment]) -> tuple[Graph, dict[str, str]]:
    """Return a graph of segments, and the input for each tensor that they share.

    An op that is part of several segments is computed for each.
    """
    result = Graph(graph.name)
    entries = {name: f"{name}:fed" for part in parts for name in part.inputs}
    for name, entry in entries.items():
        tensor = graph.tensors[name]
        result.add_input(replace(tensor, name=entry, role=Role.INPUT, producer=None))
    statics: dict[Tensor, Tensor] = {}
    for number, part in enumerate(parts):
        twins: dict[Tensor, Tensor] = {}
        fed = {graph.tensors[name]: result.tensors[entries[name]] for name in part.inputs}

        def source(
            tensor: Tensor,
            fed: dict[Tensor, Tensor] = fed,
            twins: dict[Tensor, Tensor] = twins,
        ) -> Tensor:
            if tensor in fed:
                return fed[tensor]
            if tensor.is_static:
                return statics.setdefault(tensor, replace(tensor, role=Role.STATIC, producer=None))
            return twins[tensor]

        for op in part.ops:
            for tensor in op.outputs:
                is_result = tensor is part.tensor
                name = tensor.name if is_result else f"{tensor.name}:{number}"
                twins[tensor] = replace(tensor, name=name, role=Role.NATIVE, producer=None)
            outputs = [twins[tensor] for tensor in op.outputs]
            inputs = [None if tensor is None else source(tensor) for tensor in op.inputs]
            result.append(
                Op(
                    op.type,
                    inputs,
                    outputs,
                    op.params,
                    name=f"{op.name}:{number}",
                    package=op.package,
                    origin=op.origin,
                )
            )
        result.add_output(twins[part.tensor])
    return result, entries


def compare(
    reference: Engine,
    candidate: Engine,
    model: Model,
    samples: Callable[[], Iterable[Values]],
    *,
    least: float | None = None,
    metric: Metric | None = None,
    memory: int = MEMORY,
) -> list[Row]:
    """Return a row for each tensor that both engines have, in the order of the ops.

    Cumulative figures compare what both computed from the same feeds.  For isolated ones this machine
    computes the ops alone: as the candidate does, on the reference's inputs, where the candidate is of this
    machine; else as the model states, on the candidate's own inputs, and the candidate's result is judged.

    Args:
        reference: The engine that counts as right.
        candidate: The engine that is judged.
        model: The candidate's model, whose main graph has the tensors.
        samples: Returns feeds, each time from the first on.
        least: SQNR in dB below which an op alone is wrong; default: by type of its result.
        metric: Called with reference and candidate of a tensor; returns a number that the figures have.
        memory: Bytes of values that are held at a time, of all that compute.

    Raises:
        XdlcError: As the engines raise it.
    """
    graph = model.main
    shared = set(reference.names) & set(candidate.names) - unrounded(graph)
    rows: list[Row] = []
    for group in grouped(graph, segments(graph, shared), memory // _COPIES):
        rows += _rows(reference, candidate, model, samples, group, least, metric)
    return rows


def _rows(
    reference: Engine,
    candidate: Engine,
    model: Model,
    samples: Callable[[], Iterable[Values]],
    group: Sequence[Segment],
    least: float | None,
    metric: Metric | None,
) -> list[Row]:
    """Return the rows of a group; its values and session end with the call."""
    graph = model.main
    own = {tensor.name for tensor in graph.inputs}
    judged = candidate if isinstance(candidate, HostEngine) else HostEngine(model)
    by_reference = judged is candidate
    names = list(dict.fromkeys(name for part in group for name in (*part.inputs, part.tensor.name)))
    asked = [name for name in names if name not in own]
    alone, entries = apart(graph, group)
    others = {name: other for name, other in model.graphs.items() if other is not graph}
    session = judged.session(Model({alone.name: alone, **others}, model.metadata), ())
    cumulative = {part.tensor.name: Difference(metric) for part in group}
    isolated = {part.tensor.name: Difference(metric) for part in group}
    for number, feeds in enumerate(samples()):
        first = {**feeds, **reference.values(feeds, asked, number)}
        second = {**feeds, **candidate.values(feeds, asked, number)}
        source = first if by_reference else second
        results = session.run({entry: source[name] for name, entry in entries.items()})
        for part in group:
            name = part.tensor.name
            cumulative[name].add(first[name], second[name])
            if by_reference:
                isolated[name].add(first[name], results[name])
            else:
                isolated[name].add(results[name], second[name])
        del first, second, source, results  # before the next sample takes memory
    return [
        _row(part, cumulative[part.tensor.name], isolated[part.tensor.name], least, by_reference)
        for part in group
    ]


def _row(part: Segment, cumulative: Difference, isolated: Difference, least: float | None, fed: bool) -> Row:
    op = part.ops[-1] if part.tensor.producer is None else part.tensor.producer
    nodes = dict.fromkeys(node for member in part.ops for node in member.origin.nodes)
    limit = _least(part.tensor, isolated, fed) if least is None else least
    return Row(
        part.tensor.name,
        op.name,
        op.type,
        tuple(nodes),
        part.tensor.dtype.name,
        cumulative.figures(),
        isolated.figures(),
        limit,
    )


def _least(tensor: Tensor, isolated: Difference, fed: bool) -> float:
    """Return the SQNR in dB that a right op has.

    Fixed point may be one step off, on average; it need not be nearer than floats.

    Args:
        fed: Whether the op was fed with the reference's inputs, which it has rounded first.
    """
    encoding = tensor.encoding
    if not tensor.dtype.is_fixed:
        whole = FLOATS if fed else HALVES
        return whole if tensor.dtype.name == "float32" else HALVES
    limit = FIXED if fed else HALVES
    if isinstance(encoding, ScaleOffset) and isolated.count and isolated.power:
        step = 10.0 * math.log10(isolated.power / isolated.count / encoding.scale**2)
        limit = min(limit, step)
    return max(limit, -EXACT)


def first_wrong(rows: Iterable[Row]) -> Row | None:
    """Return the first row whose ops are wrong alone, or None."""
    return next((row for row in rows if row.is_wrong), None)
