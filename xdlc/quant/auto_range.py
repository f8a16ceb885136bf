"""Automatic choice of the range method for 8 bits, by the noise in the outputs.

No method is best for every network: clipping helps where rounding is what hurts, and ruins what hangs on
its largest values.  So each is tried on the network as a whole.  One session serves all of them, for
encodings are fed to it; tensor by tensor the same samples would only be fitted, which other samples
do not gain by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from xdlc.ir import Encoding
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.options.quantizing import OutputKind
from xdlc.quant.calibration.calibrate import Calibration, KeptSample
from xdlc.quant.engine import Engine
from xdlc.quant.judge import OutputJudge, Part, Score
from xdlc.quant.plan import Plan
from xdlc.quant.range_methods import Choice
from xdlc.quant.ranges import Decision
from xdlc.quant.runs import Runs
from xdlc.quant.samples import Sample
from xdlc.quant.storing import entered, quantized_copy
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.engine import give_back

FEW, MOST = 2, 8
"""Samples of the first round and of the last; each round has twice as many as the one before."""

NEAR = 0.5
"""How far in dB a method of the second round may be behind the best one of the first."""

FINALISTS = 2
"""Methods that go into the second round, beside min-max; later ones have one."""

STAKE = 0.3
"""Least gain over min-max in dB that is worth more samples where it may be chance."""

MIN_GAIN = 0.1
"""Least gain in dB for which a method is taken in place of one that clips less."""

CERTAINTY = 1.645
"""How many of its standard errors a gain has to be: chance reaches that once in twenty times."""

LAG = 1.0
"""How many of its standard errors a method may lag one that clips less before it is dropped."""


CANDIDATES = (
    Choice("min-max"),
    Choice("mse"),
    Choice("percentile", 99.99),
    Choice("sqnr"),
    Choice("percentile", 99.9),
)
"""Those that clip less first: samples that are not at hand reach farther than those that are."""

_Run = Callable[[Iterable[tuple[Choice, Sample]]], Iterator[Mapping[str, Array]]]
"""Runs the quantized model on samples, each under the encodings of a range method."""


def choose(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Return a plan with the range method that leaves outputs closest to float.

    A plan without activations of 8 bits is returned as it is.

    The methods are run on two samples, and those near the best one on four.  The best is run on eight
    beside min-max if it gains much, but not more than chance explains.

    Args:
        calibration: Its calibration, with histograms; the samples to compare by are given up.
    """
    compared, calibration.compared = calibration.compared, []
    if not compared:
        return plan
    engine.report("choosing ranges")
    if has_control_flow(plan.graph) or not plan.placement.has_free_bytes:
        return plan
    kept = _evenly(compared)[:MOST]
    judge = calibration.judge(plan.graph, plan.options.output_kind, kept)
    parts = [part for part in judge.parts if part.kind is not OutputKind.LABELS]
    parts = [part for part in parts if any(part.of(sample.floats).any() for sample in kept)]
    if not parts:  # outputs of integers or zeros
        return plan
    trials = _Trials(plan, calibration, engine, kept, judge, parts)
    first, count = CANDIDATES[0], min(FEW, trials.count)
    powers = trials.powers(CANDIDATES, count)
    left = _near(powers)
    while count < trials.count:
        count = min(2 * count, trials.count)
        powers |= trials.powers(left, count)
        left = _unbeaten({choice: powers[choice] for choice in left})
        if not _is_open([powers[choice] for choice in left]):
            break
    trials.forget(left)
    chosen = left[0]
    # The last one left may not have run all samples.
    scores = {choice: trials.score(choice) for choice in left} if len(left) > 1 else {}
    for choice in left[1:]:
        if _is_gain(powers[chosen], powers[choice]) and not scores[choice].is_worse(scores[chosen]):
            chosen = choice
    used = min(len(powers[first]), len(powers[chosen]))
    reached, plain = (_sqnr(powers[choice][:used]) for choice in (chosen, first))
    samples = f"{used} calibration sample{'' if used == 1 else 's'}"
    figures = f"at {reached:.1f} dB"
    figures += "" if chosen == first else f"; min-max at {plain:.1f} dB"
    note = f"auto: xdlc uses {chosen} for 8-bit activations; outputs of {samples} {figures}"
    return replace(plan, choice=chosen).noted(note)


def _evenly(kept: Sequence[KeptSample]) -> list[KeptSample]:
    """Reorder samples so that the first few are evenly distributed.

    Example:
        >>> [kept.number for kept in _evenly([KeptSample(number, {}) for number in range(8)])]
        [0, 4, 2, 6, 1, 5, 3, 7]
    """
    places = sorted(range(len(kept)), key=lambda place: f"{place:016b}"[::-1])
    return [kept[place] for place in places]


def _near(powers: Mapping[Choice, Array]) -> list[Choice]:
    """Return min-max and the range methods near the best one."""
    reached = {choice: float(_sqnr(sums)) for choice, sums in powers.items()}
    least = max(reached.values()) - NEAR
    return _best([choice for choice in powers if reached[choice] >= least], reached, FINALISTS)


def _unbeaten(powers: Mapping[Choice, Array]) -> list[Choice]:
    """Return the range methods that may still be the best: min-max and another."""
    reached = {choice: float(_sqnr(sums)) for choice, sums in powers.items()}
    order = list(powers)
    leader = max(order, key=lambda choice: reached[choice])
    left = []
    for place, choice in enumerate(order):
        clips_less = place < order.index(leader)
        sure = CERTAINTY if clips_less else LAG
        if choice is leader or not _is_gain(powers[choice], powers[leader], sure):
            left.append(choice)
    return [choice for choice in _best(left, reached, 1) if choice in left]


def _best(choices: Sequence[Choice], reached: Mapping[Choice, float], most: int) -> list[Choice]:
    """Return min-max and the best of other range methods, those that clip less first."""
    ranked = sorted(choices, key=lambda choice: -reached[choice])
    best = [choice for choice in ranked if choice != CANDIDATES[0]][:most]
    return [choice for choice in CANDIDATES if choice == CANDIDATES[0] or choice in best]


def _is_open(powers: Sequence[Array]) -> bool:
    """Return whether the last range method gains much, but perhaps by chance."""
    gain = float(_sqnr(powers[-1]) - _sqnr(powers[0]))
    return gain >= STAKE and not _is_gain(powers[0], powers[-1])


def _sqnr(powers: Array) -> Array:
    """Return the mean over tensors of the SQNR in dB, pooled over samples.

    Args:
        powers: Sums of squares of values and of errors, [..., samples, 2, tensors].
    """
    sums: Array = powers.sum(axis=-3) + _TINY
    return 10.0 * np.log10(sums[..., 0, :] / sums[..., 1, :]).mean(axis=-1)


def _is_gain(before: Array, after: Array, sure: float = CERTAINTY) -> bool:
    """Return whether an SQNR gains more than chance explains.

    Its standard error is that of the jackknife over samples.

    Args:
        before: Sums of squares under one method, [samples, 2, tensors].
        sure: How many of its standard errors the gain has to be.
    """
    count = len(before)
    gain = float(_sqnr(after) - _sqnr(before))
    if count == 1:
        return gain >= MIN_GAIN
    left = [[index for index in range(count) if index != out] for out in range(count)]
    gains = _sqnr(after[left]) - _sqnr(before[left])
    error = math.sqrt((count - 1) / count * float(np.square(gains - gains.mean()).sum()))
    return gain >= max(MIN_GAIN, sure * error)


class _Trials:
    """Runs the quantized model with the encodings of several methods in turn."""

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        engine: Engine,
        kept: Sequence[KeptSample],
        judge: OutputJudge,
        parts: Sequence[Part],
    ) -> None:
        self._kept, self._judge, self._parts = kept, judge, parts
        self._floats = [self._arrays(sample.floats) for sample in kept]
        names = self._judge.names
        parted = any(is_udo(op) for op in plan.graph.ops)
        self._run = (
            _session_each(plan, calibration, engine, names)
            if parted
            else _one_session(plan, calibration, engine, names)
        )
        self._results: dict[Choice, list[Mapping[str, Array]]] = {}
        self._known: dict[tuple[Choice, int], Array] = {}

    @property
    def count(self) -> int:
        return len(self._kept)

    def powers(self, choices: Sequence[Choice], count: int) -> dict[Choice, Array]:
        """Return the power of signal and noise of each method, by sample and output.

        They are sums of squares of values and of errors, [samples, 2, tensors], of the first samples.
        """
        places = [(choice, index) for choice in choices for index in range(count)]
        missing = [place for place in places if place not in self._known]
        pairs = ((choice, self._kept[index].sample) for choice, index in missing)
        for (choice, index), results in zip(missing, self._run(pairs), strict=True):
            self._results.setdefault(choice, []).append(results)
            self._known[choice, index] = _powers(self._floats[index], self._arrays(results))
        return {
            choice: np.array([self._known[choice, index] for index in range(count)]) for choice in choices
        }

    def forget(self, left: Collection[Choice]) -> None:
        """Drop the results of all range methods except some."""
        self._results = {choice: self._results[choice] for choice in left}

    def score(self, choice: Choice) -> Score:
        """Return the score of a range method on the samples that were run."""
        return self._judge.score(self._results[choice])

    def _arrays(self, results: Mapping[str, Array]) -> list[Array]:
        return [part.fine(part.of(results)) for part in self._parts]


def _one_session(plan: Plan, calibration: Calibration, engine: Engine, names: Sequence[str]) -> _Run:
    """Return a function that runs one session with the encodings of any method."""
    first = replace(plan, choice=CANDIDATES[0]).decided(calibration)
    runs = Runs(engine, quantized_copy(first, calibration), adjustable=True, outputs=names)
    give_back()  # what opening took beside the session

    @cache
    def encodings(choice: Choice) -> Mapping[str, Encoding]:
        is_first = choice == CANDIDATES[0]
        decision = first.decision if is_first else plan.main.ranges(calibration, plan.options, choice)
        return _activations(plan, decision)

    return lambda pairs: runs.adjusted((sample, encodings(choice)) for choice, sample in pairs)


def _session_each(plan: Plan, calibration: Calibration, engine: Engine, names: Sequence[str]) -> _Run:
    """Return a function that opens a session for each range method.

    A graph that UDOs divide needs this.
    """

    @cache
    def session(choice: Choice) -> CpuSession:
        decided = replace(plan, choice=choice).decided(calibration)
        return engine.session(quantized_copy(decided, calibration), outputs=names)

    return lambda pairs: (session(choice).run(sample) for choice, sample in pairs)


def _activations(plan: Plan, decision: Decision) -> dict[str, Encoding]:
    """Return the encodings of a decision by the names that tensors have once stored."""
    encodings: dict[str, Encoding] = {}
    graph, placement = plan.graph, plan.placement
    for tensor, (dtype, encoding) in decision.activations.items():
        encodings[tensor.name] = encoding
        if placement.is_fixed(graph, tensor):
            continue
        if placement.readers(graph, tensor).get(dtype):
            encodings[entered(tensor)] = encoding
        elif converted := list(placement.converted(graph, tensor)):
            _, encodings[entered(tensor)] = decision.converted[tensor, converted[0]]
    return encodings


def _powers(real: Sequence[Array], rounded: Sequence[Array]) -> Array:
    rows = []
    for wanted, found in zip(real, rounded, strict=True):
        exact = np.asarray(wanted, np.float64)
        rows.append((np.square(exact).sum(), np.square(found - exact).sum()))
    return np.array(rows).T


_TINY = 1e-30
