"""Sensitivity: loss of the outputs if only one tensor is quantized.

It is traced back from the noise of the quantized network, without a run: the noise of a tensor is its own, or
came with what its op reads.  The worst tensors are tried, too: the float network gets an input after each of
them, which is added to it: zero, or what the stored form of the tensor, or of its op's weights, differs by.
One session serves all trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xdlc.compare.figures import Noise
from xdlc.ir import Graph, Model, Op, Role, Tensor, make_op, u32
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.opdefs.traits import traits
from xdlc.quant.float_types import insert_beside
from xdlc.quant.op_specs import is_real, reroute, rule_of, single_name, uses_of
from xdlc.quant.report.comparison import Pair, Quality, Step, Subject, groups, rounded, run
from xdlc.quant.report.model import OutputReport
from xdlc.quant.samples import Sample
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.cpu import feed
from xdlc.runtime.engine import Engine
from xdlc.runtime.lower import lower

Run: TypeAlias = Callable[[Sample, Mapping[str, Array]], dict[str, Array]]
"""Returns the float outputs for a sample, after arrays were added to some tensors."""


def shifted(subject: Subject, tensors: Sequence[Tensor]) -> Run:
    """Return a runner of the float network, with an extra input to shift each tensor.

    The graph runs no other graphs.
    """
    parted = any(is_udo(op) for op in subject.graph.ops)
    return _parted(subject, tensors) if parted else _whole(subject, tensors)


def _whole(subject: Subject, tensors: Sequence[Tensor]) -> Run:
    """Return a run of one session, whose inputs for shifts are added after lowering."""
    graph = subject.reference.main
    lowered = lower(graph, quantized=False)
    keys = {tensor.name: lowered.add_shift(tensor.name) for tensor in tensors}
    layouts = {tensor.name: lowered.layout(tensor.name) for tensor in tensors}
    outputs = [output.name for output in graph.outputs if is_real(output)]
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    engine = Engine(lowered, spins=False)

    def run_shifted(sample: Sample, shifts: Mapping[str, Array]) -> dict[str, Array]:
        values: dict[str, Array] = {name: feed(tensor, sample[name]) for name, tensor in inputs.items()}
        for name, key in keys.items():
            layout, shift = layouts[name], shifts.get(name)
            values[key] = (
                np.zeros((1,) * len(layout), np.float32)
                if shift is None
                else np.ascontiguousarray(shift.transpose(layout), np.float32)
            )
        results = engine.run(values)
        return {name: results[name] for name in outputs}

    return run_shifted


def _parted(subject: Subject, tensors: Sequence[Tensor]) -> Run:
    """Return a run of a network with UDOs: inputs and ops are added to its graph."""
    model = subject.reference.clone()
    outputs = [output.name for output in model.main.outputs if is_real(output)]
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    keys = {name: _add_shift(model.main, model.main.tensors[name]) for name in shapes}
    pairs = zip(subject.reference.main.outputs, model.main.outputs, strict=True)
    moved_names = {output.name: moved.name for output, moved in pairs}
    session = subject.engine.session(Model({model.main.name: model.main}), quantized=False)

    def run_shifted(sample: Sample, shifts: Mapping[str, Array]) -> dict[str, Array]:
        values = dict(sample)
        for name, key in keys.items():
            shift = shifts.get(name)
            values[key] = np.zeros(shapes[name], np.float32) if shift is None else shift.astype(np.float32)
        results = session.run(values)
        return {name: results[moved_names[name]] for name in outputs}

    return run_shifted


def _add_shift(graph: Graph, tensor: Tensor) -> str:
    """Add an input to a tensor, for all its readers; return the input's name."""
    name = graph.unique_name(f"{tensor.name}~shift")
    shift = graph.add_input(Tensor(name, tensor.shape, tensor.dtype))
    moved = Tensor(graph.unique_name(f"{tensor.name}~shifted"), tensor.shape, tensor.dtype)
    uses = uses_of(graph, tensor)
    params = {"operation": u32(ADD)}
    op = make_op(graph, "ElementWiseBinary", [tensor, shift], [moved], params, name=f"{name}_op")
    insert_beside(graph, tensor, op)
    reroute(graph, uses, moved)
    if graph.is_output(tensor):
        tensor.role, moved.role = Role.NATIVE, Role.OUTPUT
        graph.outputs = [moved if output is tensor else output for output in graph.outputs]
    return name


WORK = 1 << 30
"""Bytes of activations that all trials together may compute: about two seconds."""

MOST_SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Trial:
    """An activation or an op's static data to quantize, with all else in float.

    Attributes:
        tensor: The activation that it changes.
        weights: Whether it is the static data of the tensor's op, else the tensor itself.
    """

    tensor: Tensor
    weights: bool


Effect: TypeAlias = dict[str, Noise]
"""Noise of each output of the network, by name."""


def trace_effects(subject: Subject, qualities: Mapping[Tensor, Quality]) -> dict[Trial, Effect]:
    """Return the noise of the outputs that comes from each trial's tensor.

    The part of a result's noise that is not its own came with the inputs of its op: to a sum or a Concat in
    proportion to their noise, to other ops in proportion to their noise relative to the signal.  It does not
    cancel: parts of an output add up to its noise.

    Not traced are tensors that nobody reads rounded, and those that hold values of others, as after a
    Reshape or a Relu that shares its input's encoding: they round nothing anew.
    """
    owns = {tensor: _own_noise(subject, tensor, quality) for tensor, quality in qualities.items()}
    outputs = [output for output in dict.fromkeys(subject.graph.outputs) if output in qualities]
    wholes = {output: qualities[output].cumulative for output in outputs}
    effects: dict[Trial, Effect] = {
        trial: {output.name: Noise(whole.signal) for output, whole in wholes.items()}
        for own in owns.values()
        for trial in own
    }
    makers = reversed(subject.graph.ops)
    results = [*(result for op in makers for result in op.outputs), *subject.graph.inputs]
    parts = {result: _parts(result.producer, qualities) for result in results}
    for output, whole in wholes.items():
        shares = {output: whole.noise}
        for result in results:
            share = shares.get(result, 0.0)
            if not share:
                continue
            own = owns.get(result, {})
            own_noise = sum(own.values())
            noise = max(qualities[result].cumulative.noise, own_noise) if result in qualities else 0.0
            for trial, part in own.items():
                effects[trial][output.name].noise += share * part / noise if noise else 0.0
            left = share * (1.0 - own_noise / noise) if noise else share
            for source, part in parts[result].items():
                shares[source] = shares.get(source, 0.0) + left * part
    return effects


def _own_noise(subject: Subject, tensor: Tensor, quality: Quality) -> dict[Trial, float]:
    """Return the noise that a tensor's rounding and its op's static data add."""
    if quality.form is None or tensor.dtype.name == "float64" or _is_rounded_before(subject, tensor):
        return {}
    own = {}
    if quality.effect.joined is None:
        own[Trial(tensor, weights=False)] = quality.rounding.noise
    if quality.weights.signal or quality.weights.noise:
        own[Trial(tensor, weights=True)] = quality.weights.noise
    return own


def _parts(op: Op | None, qualities: Mapping[Tensor, Quality]) -> dict[Tensor, float]:
    """Return which part of a result's noise came with each input of its op."""
    sources = () if op is None else dict.fromkeys(tensor for tensor in op.computed if is_real(tensor))
    powers = {}
    for source in sources:
        noise = qualities[source].cumulative if source in qualities else Noise(1.0, 0.0)
        is_sum = op is not None and (single_name(op) == "ElementWiseAdd" or traits(op).gathers)
        powers[source] = noise.noise if is_sum or not noise.signal else noise.noise / noise.signal
    total = sum(powers.values())
    return {source: power / total if total else 1.0 / len(powers) for source, power in powers.items()}


def plan_trials(
    subject: Subject, traced: Mapping[Trial, Effect], most: int | None = None
) -> tuple[list[Trial], int, str | None]:
    """Return the trials, their number of samples, and how others are known.

    Args:
        traced: What ``trace_effects`` returned; the worst are tried.
        most: Most trials; default: what ``WORK`` allows.
    """
    rated = sorted(traced, key=lambda trial: sum(noise.db for noise in traced[trial].values()))
    runs = max(1, WORK // subject.work)
    samples = max(1, min(len(subject.samples), MOST_SAMPLES, runs // max(1, len(rated))))
    count = min(len(rated), max(1, runs // samples) if most is None else most)
    if count == len(rated):
        return rated, samples, None
    left = f"xdlc measured sensitivity for the {count} worst of {len(rated)} tensors and weights, "
    return rated[:count], samples, f"{left}and traced others back from the noise of the whole network"


def why_unknown(subject: Subject) -> str | None:
    """Return why a network has no sensitivities; None if it has."""
    if has_control_flow(subject.graph):
        return "xdlc did not measure sensitivity, because the graph runs other graphs"
    if not any(is_real(output) for output in subject.graph.outputs):
        return "xdlc did not measure sensitivity: no output of the network holds float values"
    return None


def _is_rounded_before(subject: Subject, tensor: Tensor) -> bool:
    """Return whether a tensor's values were rounded to the same steps before."""
    producer = tensor.producer
    if producer is None or not producer.inputs or producer.inputs[0] is None:
        return False
    rule, groups = rule_of(producer), subject.groups
    clamps = rule.clamps and groups.find(producer.inputs[0]) is groups.find(tensor)
    return rule.selects or clamps


def measure_effects(
    subject: Subject, qualities: dict[Tensor, Quality], trials: Sequence[Trial], samples: int, step: Step
) -> dict[Trial, Effect]:
    """Return the noise of the outputs for each trial.

    Args:
        samples: How many of the held-out samples to take.
    """
    effects: dict[Trial, Effect] = {trial: {} for trial in trials}
    tensors = list(dict.fromkeys(trial.tensor for trial in trials))
    order = {tensor: place for place, tensor in enumerate(subject.activations)}
    for group in groups(sorted(tensors, key=order.__getitem__)):
        chosen = [trial for trial in trials if trial.tensor in group]
        ops = [trial.tensor.producer for trial in chosen if trial.weights and trial.tensor.producer]
        model, locals_ = subject.with_stored_weights(list(dict.fromkeys(ops)))
        names = [tensor.name for tensor in group]
        local_names = [locals_[name] for name in names if name in locals_]
        floats = subject.engine.session(model, quantized=False, outputs=[*names, *local_names])
        run_shifted = shifted(subject, group)
        for index, sample in enumerate(subject.samples[:samples]):
            values = run(floats, sample, index)
            exact = run_shifted(sample, {})
            for trial in chosen:
                name, form = trial.tensor.name, qualities[trial.tensor].form
                changed = values[locals_[name]] if trial.weights else rounded(values[name], form)  # type: ignore[arg-type]
                results = run_shifted(sample, {name: changed - values[name]})
                for output, value in exact.items():
                    effects[trial].setdefault(output, Noise()).add(value, results[output])
                step()
    return effects


def measure_outputs(subject: Subject, results: Sequence[Pair], step: Step) -> list[OutputReport]:
    """Return the quality of each output, also with only weights quantized.

    Its quality with only activations quantized is there too.

    Args:
        results: Outputs of the float network and of the quantized one.
    """
    whole, weights, activations = (
        _noises(subject, rows)
        for rows in (
            results,
            _with_part(subject, results, step, weights=True),
            _with_part(subject, results, step),
        )
    )
    return [
        OutputReport(name, whole[name].db, weights[name].db, activations[name].db)
        if name in whole
        else OutputReport(name, same=_same(name, results))
        for name in (output.name for output in subject.graph.outputs)
    ]


def _noises(subject: Subject, rows: Iterable[Pair]) -> dict[str, Noise]:
    """Return the noise of each output of float values."""
    noises = {output.name: Noise() for output in subject.graph.outputs if is_real(output)}
    for exact, changed in rows:
        for name, noise in noises.items():
            noise.add(np.asarray(exact[name]), np.asarray(changed[name]))
    return noises


def _same(name: str, results: Sequence[Pair]) -> float:
    """Return the share of equal values of an output; other shapes are unequal."""
    pairs = [(exact[name], changed[name]) for exact, changed in results]
    equal = sum(int(np.count_nonzero(a == b)) for a, b in pairs if a.shape == b.shape)
    return float(equal / max(1, sum(exact.size for exact, _ in pairs)))


def _with_part(
    subject: Subject, results: Sequence[Pair], step: Step, *, weights: bool = False
) -> Iterator[Pair]:
    """Yield float outputs beside outputs of a partly quantized network.

    Args:
        weights: Whether weights alone are quantized; else activations alone are.
    """
    model = subject.trial
    if not weights:
        model = quantized_copy(subject.plan, subject.calibration, weights_of=subject.reference)
    session = subject.engine.session(model, quantized=not weights)
    for index, (sample, (exact, _)) in enumerate(zip(subject.samples, results, strict=True)):
        yield exact, run(session, sample, index)
        step()
