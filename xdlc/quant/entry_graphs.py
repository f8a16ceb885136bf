"""Further entry graphs, quantized as the main graph is.

A decoder has a graph for prompts and one for single tokens, with the same weights.  A runtime hands values of
one to the other, and a compiler stores weights once that are equal: so each tensor of a further graph has the
encoding of the main graph's tensor of its name, and its weights are the same data.  A graph with
weights of its own stays float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.opdefs.control_flow import outer_graphs, reachable
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.float_types import drop_nan_checks
from xdlc.quant.op_specs import listed, weight_of
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.samples import Sample, Source
from xdlc.quant.ties import find_ties, part_results


@dataclass(slots=True, eq=False)
class Entry:
    """A further entry graph.

    Attributes:
        model: A model of that graph alone, float until it is stored.
        shared: Names of static tensors with the data of the main graph's tensors.
        uses: Inputs of ops that are such static data, by name of the op and index.
        calibration: Statistics of samples of its own; empty: it has none.
    """

    model: Model
    shared: set[str]
    uses: set[tuple[str, int]] = field(default_factory=set)
    calibration: Calibration = field(default_factory=Calibration)

    @property
    def graph(self) -> Graph:
        return self.model.main

    def plan(self, options: QuantOptions, precision: Precision) -> Plan:
        """Return the plan of the graph, without decisions.

        Args:
            options: The options of the user; ties of tensors that the graph lacks do not count.
        """
        own = copy(options)
        own.tie = [names for names in options.tie if self.graph.tensors.keys() >= set(names)]
        part_results(self.graph, find_ties(self.model, own), precision)
        return Plan.of(self.model, own, precision.copy())

    def link(self, graph: Graph, older: Mapping[Tensor, Tensor]) -> None:
        """Find the inputs of ops that are data of the main graph.

        Both are in the form to quantize.

        Args:
            older: Static tensors that others replace, by these.
        """
        for use, mine, main in _static_pairs(self.graph, graph):
            source = mine
            while source in older:
                source = older[source]
            if source.name in self.shared and (main.name, main.shape) == (mine.name, mine.shape):
                mine.data = main.data
                self.uses.add(use)


def _static_pairs(graph: Graph, main: Graph) -> Iterator[tuple[tuple[str, int], Tensor, Tensor]]:
    """Yield static inputs of ops, with those of the main graph's op of the name.

    In front are the name of the op and the index of the input.
    """
    twins = {op.name: op for op in main.ops}
    for op in graph.ops:
        twin = twins.get(op.name)
        pairs = () if twin is None or twin.type != op.type else zip(op.inputs, twin.inputs, strict=False)
        for index, (mine, theirs) in enumerate(pairs):
            if mine is not None and theirs is not None and mine.is_static and theirs.is_static:
                yield (op.name, index), mine, theirs


def take_entries(model: Model) -> tuple[list[Entry], dict[str, str]]:
    """Take the graphs that share weights with the main one out of a model.

    Returns:
        They, and why other graphs that nothing calls stay float, by name.
    """
    entries, reasons = [], {}
    for graph in outer_graphs(model)[1:]:
        name = graph.name
        if len(reachable(graph, model.graphs)) > 1:
            reasons[name] = "it has control flow"
            continue
        shared = {
            tensor.name
            for tensor in graph.tensors.values()
            if tensor.is_static and _is_equal(tensor, model.main.tensors.get(tensor.name))
        }
        weights = [weight for op in graph.ops if (weight := weight_of(op)) is not None]
        if sum(weight.name in shared for weight in weights) * 2 <= len(weights):
            reasons[name] = f"it has other weights than {model.main.name!r}"
            continue
        entries.append(Entry(Model({name: model.graphs.pop(name)}, model.metadata), shared))
    return entries, reasons


def _is_equal(tensor: Tensor, main: Tensor | None) -> bool:
    """Return whether static tensors have the same type, shape, encoding and bytes."""
    if main is None or main.data is None or tensor.data is None or main.encoding != tensor.encoding:
        return False
    if (main.dtype, main.shape) != (tensor.dtype, tensor.shape):
        return False
    if main.data is tensor.data:
        return True
    is_equal = main.data.content() == tensor.data.content()
    for data in (main.data, tensor.data):
        data.release()
    return is_equal


def by_graph(samples: Source | Mapping[str, Source], model: Model) -> dict[str, Source]:
    """Return samples by name of their graph; by default that is the main one.

    Raises:
        UsageError: If the samples are a mapping with other keys than entry graphs, or without the main one.
    """
    if not isinstance(samples, Mapping):
        return {model.main.name: samples}
    names = [graph.name for graph in outer_graphs(model)]
    for name in samples:
        if name not in names:
            fix = nearest_names(str(name), names) or "give samples=[{name: array}, ...]"
            raise UsageError(f"you passed samples by graph, but no graph is named {name!r}", fix=fix)
    if model.main.name not in samples:
        raise UsageError(
            f"graph {model.main.name!r} has no samples", fix="pass samples of the main graph too"
        )
    return dict(samples)


def merge_statistics(plan: Plan, calibration: Calibration, entry: Entry) -> None:
    """Add statistics of a further graph to those of the main graph's tensors."""
    pairs = (
        (calibration.statistics, entry.calibration.statistics),
        (calibration.rest, entry.calibration.rest),
        (calibration.peaks, entry.calibration.peaks),
    )
    for statistics, added in pairs:
        for tensor, more in added.items():
            twin = plan.graph.tensors.get(tensor.name)
            if twin is not None and twin in statistics:
                statistics[twin] = statistics[twin].merge(more)


def follow(entry: Entry, plan: Plan, measure: Callable[[Plan], Calibration]) -> Plan:
    """Return the decided plan of a further graph: the decisions of the main graph.

    Args:
        entry: The graph, linked; it is changed.
        plan: The decided plan of the main graph.
        measure: Calibrates a graph without samples, for tensors that the main graph lacks.
    """
    graph, decision = entry.graph, plan.decision
    bare = entry.plan(plan.options, plan.precision)
    if plan.options.drop_nan_checks:
        drop_nan_checks(graph, bare.placement)
    forms = {tensor.name: form for tensor, form in decision.activations.items()}
    for tensor in graph.tensors.values():
        dtype, encoding = forms.get(tensor.name, (None, None))
        if dtype is None or tensor.is_static or not tensor.dtype.is_float or dtype.is_signed:
            continue
        if isinstance(encoding, ScaleOffset):
            tensor.encoding = replace(encoding, bits=dtype.bits)
    ops = {op.name: op for op in graph.ops}
    statics = {
        (ops[op.name], index): form
        for (op, index), form in decision.statics.items()
        if (op.name, index) in entry.uses
    }
    following = entry.plan(plan.options, plan.precision)
    following = replace(following, choice=plan.choice, main=replace(following.main, adopted=statics))
    calibration, unseen = entry.calibration, _unseen(following, entry.calibration)
    if unseen:
        calibration = measure(following)
        following = following.noted(
            f"{listed(unseen)} are in graph {graph.name!r} only, not in {plan.graph.name!r}: their ranges "
            f"come from {plan.graph.name!r}'s samples, cut or repeated to the shapes of inputs; pass samples "
            "for each graph"
        )
    following = following.decided(calibration)
    own = following.decision
    own.statics |= statics
    converted = {(tensor.name, dtype): form for (tensor, dtype), form in decision.converted.items()}
    for tensor, dtype in own.converted:
        own.converted[tensor, dtype] = converted.get((tensor.name, dtype), own.converted[tensor, dtype])
    halves = {op.name: pair for op, pair in decision.halves.items()}
    own.halves = {op: halves.get(op.name, pair) for op, pair in own.halves.items()}
    return following


def _unseen(plan: Plan, calibration: Calibration) -> list[str]:
    """Return the tensors whose ranges are to be chosen and not known."""
    if plan.options.enable_float_fallback:
        return []
    seen = calibration.statistics
    return [
        repr(tensor.name)
        for tensor in plan.main.watched
        if tensor.size and (tensor not in seen or not seen[tensor].count)
    ]


def in_shapes(sample: Sample, graph: Graph) -> Sample:
    """Return a sample of another graph, cut or repeated to the shapes of inputs."""
    fitting = {}
    for tensor in (tensor for tensor in graph.inputs if tensor.name in sample):  # else the run names it
        array = np.asarray(sample[tensor.name])
        for axis, dim in enumerate(tensor.shape if array.ndim == tensor.rank else ()):
            if array.shape[axis] != dim and array.shape[axis]:
                array = array.take(np.arange(dim) % array.shape[axis], axis)
        fitting[tensor.name] = array
    return fitting


def share_data(entry: Entry, graph: Graph) -> None:
    """Replace static data by that of the main graph where they are equal."""
    for use, mine, main in _static_pairs(entry.graph, graph):
        is_same = (mine.dtype, mine.shape, mine.encoding) == (main.dtype, main.shape, main.encoding)
        if is_same and (use in entry.uses or _is_equal(mine, main)):
            mine.data = main.data


def entry_notes(entries: Iterable[Entry], unlike: Mapping[str, str], main: Graph) -> Iterator[str]:
    """Yield notes on further graphs: what they share, or why they stay float."""
    for entry in entries:
        ends = [tensor for op in entry.graph.ops for tensor in op.inputs if tensor is not None]
        statics = {id(tensor.data): tensor.data for tensor in ends if tensor.data is not None}
        shared = {id(tensor.data) for tensor in main.tensors.values()} & statics.keys()
        size = sum(statics[key].nbytes for key in shared)
        yield (
            f"graph {entry.graph.name!r} uses the encodings of {main.name!r} with the same names, and "
            f"shares {size:,} bytes of static data"
        )
    for name, reason in unlike.items():
        yield f"graph {name!r} stays float: {reason}"
