"""First wrong op between two engines, by the error of each op alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc.compare.engines import Engine, HostEngine, Values
from xdlc.compare.figures import EXACT, Difference, Figures
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Op,
    Role,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.data import Array, ArrayData
from xdlc.ir.quantization import quantized_limits, scale_and_offset, to_float, to_quantized
from xdlc.runtime.htp_fusion import bonds, shapes_product
from xdlc.runtime.plan import came_quantized

FLOATS, HALVES, FIXED = 60.0, 40.0, 24.0
"""Least SQNR in dB of a right op: in float32, in float16, and of fixed point that came from floats."""
WEIGHTS = 8.0
"""Decibels by which an error may exceed that of weights that are off by up to half a step at random."""
CLIPPED = 4.0
"""Most noise of an encoding, over that of as many steps across all values."""
COVERED = 0.8
"""Share of the values' range that an encoding covers where samples differ from those of calibration."""
BIAS = 0.45
"""Largest mean error of an op in steps; rounding down makes 0.5, RmsNorm on HTP 0.43."""
_LEAST_VALUES = 16
_WEIGHT_BYTES = 2


@dataclass(slots=True)
class Alone:
    """Differences of a tensor whose ops run alone.

    Attributes:
        whole: What is judged, as a whole.
        weights: Of ops in floats, with the stored weights, from the reference.
        noise: Of ops with weights that are off at random, from those with the stored ones.
        range: Of the nearest values of the encoding from exact ones.
        steps: Of the results from the nearest ones to exact values of the same rounded inputs.
    """

    tensor: Tensor
    whole: Difference
    weights: Difference = field(default_factory=Difference)
    noise: Difference = field(default_factory=Difference)
    range: Difference = field(default_factory=Difference)
    steps: Difference = field(default_factory=Difference)


def noisy(graph: Graph) -> Graph:
    """Return a copy of a graph with float weights that are off by up to half a step."""
    import numpy as np

    from xdlc.ir.dtype import FLOAT32

    copy, random = graph.clone(), np.random.default_rng(0)
    forms = ScaleOffset | AxisScaleOffset | BlockScaleOffset | BlockwiseExpansion
    for tensor in copy.tensors.values():
        if tensor.data is None or not tensor.dtype.is_fixed or not isinstance(tensor.encoding, forms):
            continue
        if tensor.dtype.numpy.itemsize <= _WEIGHT_BYTES:
            values = to_float(tensor.numpy(), tensor.encoding, where=tensor.name)
            scale, _ = scale_and_offset(tensor.encoding, tensor.shape, where=tensor.name)
            values += random.uniform(-0.5, 0.5, tensor.shape).astype(np.float32) * scale
            tensor.data, tensor.dtype, tensor.encoding = ArrayData(values), FLOAT32, None
    return copy


def nearest(values: Array, tensor: Tensor) -> Array:
    """Return the nearest values that a tensor can hold."""
    if not tensor.dtype.is_fixed or tensor.encoding is None or values.dtype.kind != "f":
        return values
    import numpy as np

    with np.errstate(invalid="ignore"):  # NaN
        return to_float(to_quantized(values, tensor), tensor.encoding, where=tensor.name)


def fault(alone: Alone, *, is_inner: bool) -> tuple[str, float]:
    """Return what rounding does not explain, or an empty text, and the least dB.

    Args:
        is_inner: Whether other results than that of the tensor are rounded, too.
    """
    tensor, weights = alone.tensor, alone.weights.figures().db
    expected = alone.noise.figures().db
    least = FLOATS if expected == EXACT else min(HALVES, expected - WEIGHTS)
    if weights < least:
        return (
            f"in floats the op is {weights:.1f} dB from the reference, but rounded weights explain only "
            f"{least:.1f} dB",
            least,
        )
    if not isinstance(tensor.encoding, ScaleOffset):
        return fault_below(alone.whole, FIXED)
    scale, levels = tensor.encoding.scale, 2**tensor.dtype.bits - 1
    low, high = min(alone.range.extremes[0], 0.0), max(alone.range.extremes[1], 0.0)
    step = max(scale, (high - low) / levels)
    first, last = (scale * (code + tensor.encoding.offset) for code in quantized_limits(tensor))
    least = alone.range.db_of(CLIPPED * step**2 / 12)
    if min(high, last) - max(low, first) >= COVERED * (high - low):
        least = min(least, FIXED)
    if alone.range.figures().db < least:
        return f"values span {low:.4g} to {high:.4g}, but the encoding {first:.4g} to {last:.4g}", least
    return _fault_of_steps(alone.steps, tensor, FIXED if is_inner else HALVES)


def fault_of_results(difference: Difference, tensor: Tensor, *, by_reference: bool) -> tuple[str, float]:
    """Return what one rounding does not explain, or an empty text, and the least dB.

    Args:
        difference: Of results from those of the same inputs.
        by_reference: Whether inputs were those of the reference, which the op has rounded first.
    """
    if tensor.dtype.is_fixed:
        return _fault_of_steps(difference, tensor, FIXED if by_reference else HALVES)
    return fault_below(difference, FLOATS if by_reference and tensor.dtype.name == "float32" else HALVES)


def fault_below(difference: Difference, least: float) -> tuple[str, float]:
    """Return a clause if an SQNR is below the least one, and the least one in dB."""
    least = max(least, -EXACT)
    return ("" if difference.figures().db >= least else f"xdlc expects at least {least:.1f} dB"), least


def _fault_of_steps(difference: Difference, tensor: Tensor, most: float) -> tuple[str, float]:
    """Return what a step on average does not explain; from ``most`` dB on all is."""
    if not isinstance(tensor.encoding, ScaleOffset):
        return fault_below(difference, most)
    bias = difference.bias / tensor.encoding.scale
    if abs(bias) > BIAS and difference.count >= _LEAST_VALUES and difference.figures().db < most:
        return f"{bias:+.2f} steps off on average", most
    return fault_below(difference, min(most, difference.db_of(tensor.encoding.scale**2)))


MEMORY = 384 << 20
"""Bytes of values that are held at a time, of all that compute."""
_COPIES, _FIXED_COPIES = 3, 6
"""Values of a tensor that are held: both engines', the op's alone, and with fixed point those in floats."""

TOGETHER = 15.0
"""Decibels by which ops that are wrong together are worse where no value between them is an output."""

Metric = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor in two engines.

    Attributes:
        op: Name of the op that computes it.
        nodes: Source nodes of all ops since the tensors that the engines share.
        cumulative: Difference of the candidate from the reference.
        isolated: Difference of the ops alone: on inputs of one engine; None where they do not run alone.
        least: SQNR in dB below which the ops alone are wrong.
        fault: What is wrong of the ops alone; empty if they are right.
    """

    tensor: str
    op: str
    type: str
    nodes: tuple[str, ...]
    dtype: str
    cumulative: Figures
    isolated: Figures | None
    least: float
    fault: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the ops alone compute other values."""
        return bool(self.fault)


@dataclass(frozen=True, slots=True)
class Segment:
    """Ops between tensors that both engines share, with the one that they compute.

    Attributes:
        tensor: The tensor that they compute.
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
    entries = {name: graph.unique_name(f"{name}:fed") for part in parts for name in part.inputs}
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
                name = tensor.name if is_result else graph.unique_name(f"{tensor.name}:{number}")
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
    copies = _FIXED_COPIES if _explains(candidate, model) else _COPIES
    groups = list(grouped(graph, segments(graph, shared), memory // copies))
    before: dict[int, tuple[Values, Values]] = {}
    for number, group in enumerate(groups):
        later = {name for rest in groups[number + 1 :] for part in rest for name in part.inputs}
        rows += _rows(reference, candidate, model, samples, group, least, metric, before, later)
    return rows


def _rows(
    reference: Engine,
    candidate: Engine,
    model: Model,
    samples: Callable[[], Iterable[Values]],
    group: Sequence[Segment],
    least: float | None,
    metric: Metric | None,
    before: dict[int, tuple[Values, Values]],
    later: Collection[str],
) -> list[Row]:
    """Return the rows of a group; its session ends with the call.

    Args:
        before: Values of both engines for each sample that groups before have computed.
        later: Names of the values that later groups read.
    """
    graph = model.main
    own = {tensor.name for tensor in graph.inputs}
    judged = candidate if isinstance(candidate, HostEngine) else HostEngine(model)
    by_reference = judged is candidate
    names = list(dict.fromkeys(name for part in group for name in (*part.inputs, part.tensor.name)))
    asked = [name for name in names if name not in own and name not in before.get(0, ((),))[0]]
    alone, entries = apart(graph, group)
    bodies = {name: body for name, body in model.graphs.items() if body is not graph}

    def session(graph: Graph, engine: HostEngine = judged) -> Any:
        return engine.session(Model({graph.name: graph, **bodies}, model.metadata), ())

    fixed = session(alone)
    explains = _explains(candidate, model)
    floats = HostEngine(model, quantized=False)
    exact = session(alone, floats) if explains else None
    cumulative = {part.tensor.name: Difference(metric) for part in group}
    isolated = {part.tensor.name: Alone(part.tensor, Difference(metric)) for part in group}
    for number, feeds in enumerate(samples()):
        earlier = before.get(number, ({}, {}))
        first = {**feeds, **earlier[0], **reference.values(feeds, asked, number)}
        second = {**feeds, **earlier[1], **candidate.values(feeds, asked, number)}
        before[number] = (_chosen(first, later), _chosen(second, later))
        source = first if by_reference else second
        fed = {entry: source[name] for name, entry in entries.items()}
        results = fixed.run(fed)
        right, judged_values = (first, results) if by_reference else (results, second)
        for name, differences in isolated.items():
            cumulative[name].add(first[name], second[name])
            differences.whole.add(right[name], judged_values[name])
        if exact is not None:
            rounded = {name: nearest(array, alone.tensors[name]) for name, array in fed.items()}
            values = exact.run(rounded)
            for name, differences in isolated.items():
                stored = nearest(values[name], differences.tensor)
                differences.range.add(values[name], stored)
                differences.steps.add(stored, results[name])
            values = exact.run(fed)
            for name, differences in isolated.items():
                differences.weights.add(first[name], values[name])
            if not number:
                shaken = session(noisy(alone), floats).run(fed)
                for name, differences in isolated.items():
                    differences.noise.add(values[name], shaken[name])
                del shaken
            del rounded, values
        del first, second, source, fed, results, right, judged_values  # before the next sample takes memory
    hidden = unrounded(graph)
    rows = []
    for part in group:
        name, whole = part.tensor.name, isolated[part.tensor.name].whole
        inner = {tensor.name for op in part.ops for tensor in op.outputs} - {name, *hidden}
        if least is not None:
            judgement = fault_below(whole, least)
        elif explains and part.tensor.dtype.is_fixed:
            judgement = fault(isolated[name], is_inner=bool(inner))
        else:
            judgement = fault_of_results(whole, part.tensor, by_reference=by_reference)
        rows.append(_row(part, cumulative[name].figures(), whole.figures(), judgement))
    return rows


def _explains(candidate: Engine, model: Model) -> bool:
    """Return whether rounding to encodings has to explain the errors."""
    return (
        isinstance(candidate, HostEngine)
        and candidate.quantized
        and any(tensor.dtype.is_fixed for tensor in model.main.tensors.values())
        and not came_quantized(model)
    )


def _chosen(values: Values, names: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name in names}


def _row(part: Segment, cumulative: Figures, isolated: Figures, judgement: tuple[str, float]) -> Row:
    op = part.ops[-1] if part.tensor.producer is None else part.tensor.producer
    nodes = dict.fromkeys(node for member in part.ops for node in member.origin.nodes)
    name, dtype, (reason, least) = part.tensor.name, part.tensor.dtype.name, judgement
    return Row(name, op.name, op.type, tuple(nodes), dtype, cumulative, isolated, least, reason)


def wrong_together(
    reference: Engine, candidate: Engine, rows: Sequence[Row], outputs: Sequence[str], feeds: Values
) -> Row | None:
    """Return the row of ops that are wrong unless a value between them is an output.

    A compiler joins ops whose inner values are no outputs.  The candidate computes the outputs of the graph
    and one more value at a time, which halves the ops that may be wrong; None if the outputs are right.
    """
    usual = {row.tensor: row.cumulative.db for row in rows}
    ends = [name for name in outputs if name in usual]

    def worse(name: str | None = None) -> dict[str, float]:
        names = list(dict.fromkeys([*ends, *([name] if name else [])]))
        first, second = reference.values(feeds, names), candidate.values(feeds, names)
        figures = {entry: Difference() for entry in names}
        for entry, difference in figures.items():
            difference.add(first[entry], second[entry])
        ratios = {entry: difference.figures().db for entry, difference in figures.items()}
        return {entry: db for entry, db in ratios.items() if db < min(HALVES, usual[entry] - TOGETHER)}

    spoiled = worse() if ends else {}
    if not spoiled:
        return None
    low, high = 0, max(place for place, row in enumerate(rows) if row.tensor in spoiled)
    while low < high:
        middle = (low + high) // 2
        name = rows[middle].tensor
        left = worse(name)
        if name in left:
            high = middle
        elif left:
            low = middle + 1
        else:  # it is between the ops
            low = high = middle
    output = min(spoiled, key=lambda entry: spoiled[entry])
    reason = (
        f"wrong together with neighbours: {output!r} is at {spoiled[output]:.1f} dB without other outputs"
    )
    return replace(rows[low], fault=reason)


def first_wrong(rows: Iterable[Row]) -> Row | None:
    """Return the first row whose ops are wrong alone, or None."""
    return next((row for row in rows if row.is_wrong), None)
