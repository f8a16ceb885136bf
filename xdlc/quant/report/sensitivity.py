"""Sensitivity: loss of the outputs if only one tensor is quantized.

The float network gets an input after each tensor in question, which is added to it: zero, or what the
stored form of the tensor, or of its op's weights, differs by.  One session serves all trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xdlc.compare.figures import Noise
from xdlc.ir import Graph, Model, Role, Tensor, make_op, u32
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.quant.float_types import insert_beside
from xdlc.quant.op_specs import is_real, reroute, rule_of, uses_of
from xdlc.quant.report.comparison import Quality, Step, Subject, groups, rounded, run
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
    engine = Engine(lowered)

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


WORK = 1 << 33
"""Bytes of activations that all trials together may compute: about ten seconds."""

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


def plan_trials(
    subject: Subject, qualities: dict[Tensor, Quality], most: int | None = None
) -> tuple[list[Trial], int, str | None]:
    """Return the trials, their number of samples, and the reason for omitted trials.

    Not tried are tensors that nobody reads rounded, and those that hold values of others, as after a
    Reshape or a Relu that shares its input's encoding: they round nothing anew.

    Args:
        qualities: Qualities of activations; the worst are tried first.
        most: Most trials; default: what ``WORK`` allows.
    """
    if has_control_flow(subject.graph):
        return [], 0, "xdlc did not measure sensitivity, because the graph runs other graphs"
    if not any(is_real(output) for output in subject.graph.outputs):
        return [], 0, "xdlc did not measure sensitivity: no output of the network holds float values"
    rated: list[tuple[float, Trial]] = []
    for tensor, quality in qualities.items():
        if quality.form is None or tensor.dtype.name == "float64" or _is_rounded_before(subject, tensor):
            continue
        if quality.effect.joined is None:
            rated.append((quality.rounding.db, Trial(tensor, weights=False)))
        if quality.weights.signal or quality.weights.noise:
            rated.append((quality.weights.db, Trial(tensor, weights=True)))
    rated.sort(key=lambda pair: pair[0])
    runs = max(1, WORK // subject.work)
    samples = min(len(subject.samples), MOST_SAMPLES)
    samples = max(1, min(samples, runs // max(1, len(rated))))
    count = min(len(rated), max(1, runs // samples) if most is None else most)
    trials = [trial for _, trial in rated[:count]]
    if count == len(rated):
        return trials, samples, None
    left = (
        f"xdlc measured sensitivity for the {count} worst of {len(rated)} tensors and weights, because each "
        "one needs a run of the network"
    )
    return trials, samples, left


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


def measure_outputs(subject: Subject, step: Step) -> list[OutputReport]:
    """Return the quality of each output, also with only weights quantized.

    Its quality with only activations quantized is there too.
    """
    session = subject.engine.session
    floats = session(subject.reference, quantized=False)
    variants = {
        "sqnr": session(subject.trial),
        "weights_only": session(subject.trial, quantized=False),
        "activations_only": session(
            quantized_copy(subject.plan, subject.calibration, weights_of=subject.reference)
        ),
    }
    outputs = subject.graph.outputs
    noises = {(output.name, kind): Noise() for output in outputs for kind in variants}
    same = {output.name: [0, 0] for output in outputs}
    for index, sample in enumerate(subject.samples):
        wanted = run(floats, sample, index)
        for kind, variant in variants.items():
            found = run(variant, sample, index)
            for output in outputs:
                first, second = np.asarray(wanted[output.name]), np.asarray(found[output.name])
                if is_real(output):
                    noises[output.name, kind].add(first, second)
                elif kind == "sqnr":
                    equal = first == second if first.shape == second.shape else np.zeros(first.shape)
                    same[output.name][0] += int(np.count_nonzero(equal))
                    same[output.name][1] += first.size
        step()
    return [
        OutputReport(
            output.name,
            noises[output.name, "sqnr"].db,
            noises[output.name, "weights_only"].db,
            noises[output.name, "activations_only"].db,
        )
        if is_real(output)
        else OutputReport(output.name, same=same[output.name][0] / max(1, same[output.name][1]))
        for output in outputs
    ]
