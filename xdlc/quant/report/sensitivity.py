"""What the network's outputs lose if one thing alone is quantized.

The float network gets an input behind each tensor in question, which is added to it: zero, or what the
stored form of the tensor, or of its op's weights, differs by.  One session serves all trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdlc.ir import Tensor
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import is_real, rule_of
from xdlc.quant.report.comparison import Step, Subject, groups, run
from xdlc.quant.report.perturbation import shifted
from xdlc.quant.report.quality import Quality, rounded

WORK = 1 << 33
"""Bytes of activations that all trials together may compute: about ten seconds."""

MOST_SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing to quantize alone.

    Attributes:
        tensor: The activation that it changes.
        weights: Whether it is the static data of the tensor's op, else the tensor itself.
    """

    tensor: Tensor
    weights: bool


@dataclass(slots=True)
class Effect:
    """Noise of each output, by name."""

    outputs: dict[str, Noise] = field(default_factory=dict)


def plan_trials(
    subject: Subject, found: dict[Tensor, Quality], most: int | None = None
) -> tuple[list[Trial], int, str | None]:
    """Return what to try, on how many samples, and what is left out and why.

    Not tried are tensors that nobody reads rounded, and those that hold values of others, as behind a
    Reshape or a Relu that shares its input's encoding: they round nothing anew.

    Args:
        subject: What is measured.
        found: Qualities of activations; the worst are tried first.
        most: Most trials; default: what ``WORK`` allows.
    """
    if has_control_flow(subject.graph):
        return [], 0, "sensitivity was not measured: the graph runs other graphs"
    if not any(is_real(output) for output in subject.graph.outputs):
        return [], 0, "sensitivity was not measured: no output of the network holds reals"
    rated: list[tuple[float, Trial]] = []
    for tensor, quality in found.items():
        if quality.form is None or tensor.dtype.name == "float64" or _is_rounded_before(subject, tensor):
            continue
        if quality.heard.joined is None:
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
        f"sensitivity was measured for the {count} worst of {len(rated)} tensors and weights: "
        "each takes a run of the network"
    )
    return trials, samples, left


def _is_rounded_before(subject: Subject, tensor: Tensor) -> bool:
    """Return whether the values of a tensor are those of another that was rounded to the same steps."""
    producer = tensor.producer
    rule = rule_of(producer) if producer is not None else None
    if producer is None or rule is None or producer.inputs[0] is None:
        return False
    sharing = subject.job.sharing
    clamps = rule.clamps and sharing.find(producer.inputs[0]) is sharing.find(tensor)
    return rule.selects or clamps


def measure_effects(
    subject: Subject, found: dict[Tensor, Quality], trials: Sequence[Trial], samples: int, step: Step
) -> dict[Trial, Effect]:
    """Return the noise of the outputs for each trial.

    Args:
        subject: What is measured; its graph runs no others.
        found: Qualities of activations, for their stored forms.
        trials: What to try.
        samples: How many of the held-out samples to take.
        step: Called after each run of a trial.
    """
    effects = {trial: Effect() for trial in trials}
    tensors = list(dict.fromkeys(trial.tensor for trial in trials))
    order = {tensor: place for place, tensor in enumerate(subject.activations)}
    for group in groups(sorted(tensors, key=order.__getitem__)):
        chosen = [trial for trial in trials if trial.tensor in group]
        ops = [trial.tensor.producer for trial in chosen if trial.weights and trial.tensor.producer]
        model, locals_ = subject.with_stored_weights(list(dict.fromkeys(ops)))
        names = [tensor.name for tensor in group]
        local_names = [locals_[name] for name in names if name in locals_]
        floats = subject.job.session(model, quantized=False, outputs=[*names, *local_names])
        network = shifted(subject, group)
        for index, sample in enumerate(subject.samples[:samples]):
            values = run(floats, sample, index)
            wanted = network.run(sample, {})
            for trial in chosen:
                name, form = trial.tensor.name, found[trial.tensor].form
                changed = values[locals_[name]] if trial.weights else rounded(values[name], form)  # type: ignore[arg-type]
                results = network.run(sample, {name: changed - values[name]})
                for output, value in wanted.items():
                    effects[trial].outputs.setdefault(output, Noise()).add(value, results[output])
                step()
    return effects
