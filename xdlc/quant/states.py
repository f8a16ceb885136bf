"""Variables of a model: values in calibration, and errors over time.

A sample without the value of a variable has the one that the sample before has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain

from xdlc.compare.figures import Noise
from xdlc.ir import Model
from xdlc.ir.data import Array
from xdlc.quant.engine import Engine
from xdlc.quant.op_specs import is_real
from xdlc.quant.output_accuracy import Figure
from xdlc.quant.plan import Plan
from xdlc.quant.samples import Sample, Samples, run_sample
from xdlc.quant.verdicts import LOST_DB
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.states import next_values, with_first_values
from xdlc.runtime.udo import Kernels

STEPS = 32
"""Most samples that are run in a row, the values of variables handed on."""

DRIFT_DB, FAIR_DB = 6.0, 30.0
"""Errors that are fed back are worth a warning from this loss on, where an output is below this."""


class InOrder:
    """Samples in order, completed with values of variables.

    Missing ones are what the float model leaves after the sample before.

    Attributes:
        filled: Names of the inputs for which each sample so far had no value.
    """

    def __init__(self, samples: Iterable[Sample], model: Model, kernels: Kernels | None) -> None:
        self.filled: list[list[str]] = []
        self._length = len(samples) if isinstance(samples, Sized) else 0
        self._steps = self._step(samples, model, kernels)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Sample]:
        return self

    def __next__(self) -> Sample:
        return next(self._steps)

    def _step(self, samples: Iterable[Sample], model: Model, kernels: Kernels | None) -> Iterator[Sample]:
        following, session, previous = next_values(model), None, dict[str, Array]()
        states = {name: model.metadata["states"][name] for name in following}
        for number, sample in enumerate(samples):
            missing = [name for name in following if name not in sample]
            if missing and number:
                if session is None:
                    session = CpuSession(model, quantized=False, spins=False, kernels=kernels)
                results = run_sample(session, previous, f"calibration sample {number - 1}")
                sample = {**{name: results[following[name]] for name in missing}, **sample}
            elif missing:
                sample = with_first_values(model.main, states, sample)
            self.filled.append(missing)
            previous = dict(sample)
            yield sample


def sequence_notes(
    plan: Plan, kept: Samples, engine: Engine, figures: Sequence[Figure], samples: InOrder
) -> Iterator[str]:
    """Yield notes on variables: values in calibration, errors over steps.

    Args:
        kept: The samples, which can be read again.
    """
    names = dict.fromkeys(chain(*samples.filled))
    if names:
        yield (
            f"state {', '.join(map(repr, names))}: each calibration sample starts with the value that the "
            "previous sample left; a sample with its own value starts a new sequence"
        )
    if not figures:
        return
    if not any(samples.filled[1:STEPS]):
        yield (
            "the figures are for single steps; to measure errors over many steps, pass samples in the order "
            "of time, without values of states"
        )
        return
    steps = kept.first(STEPS)
    noises = _fed_back(plan, engine, steps, samples.filled)
    listed = ", ".join(f"{name!r} {noise.db:.1f} dB" for name, noise in noises.items())
    yield f"outputs over {len(steps)} steps with states fed back: {listed}"
    for figure in figures:
        noise = noises.get(figure.output)
        if noise is None or figure.sqnr is None or not noise.signal:
            continue
        if noise.db < min(figure.sqnr - DRIFT_DB, FAIR_DB) or noise.db < LOST_DB <= figure.sqnr:
            yield (
                f"warning: output {figure.output!r} is at {noise.db:.1f} dB over {len(steps)} steps, but "
                f"{figure.sqnr:.1f} dB over single steps: the errors of states add up"
            )


def _fed_back(
    plan: Plan, engine: Engine, steps: Iterable[Sample], filled: Iterable[list[str]]
) -> dict[str, Noise]:
    """Return the noise of each output after steps that feed variables back.

    Args:
        steps: The samples in the order of time.
        filled: Names of the inputs for which each sample had no value.
    """
    noises = {output.name: Noise() for output in plan.graph.outputs if output.size and is_real(output)}
    exact = engine.session(plan.float_model, quantized=False)
    rounded = engine.session(plan.model, plain=True)
    following = next_values(plan.model)
    results: list[dict[str, Array]] = []
    for sample, names in zip(steps, filled, strict=False):
        left = [{name: result[following[name]] for name in names} for result in results] or [{}, {}]
        results = [
            session.run({**sample, **values}) for session, values in zip((exact, rounded), left, strict=True)
        ]
        for name, noise in noises.items():
            noise.add(*(result[name] for result in results))
    return noises
