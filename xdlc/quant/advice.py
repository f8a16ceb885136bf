"""Warnings about poor outputs, and options of the quantizer that improve them.

Each remedy is tried on samples that ranges have not seen before it is named, the cheapest first; trials are
made only where a warning is due.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from xdlc.errors import ConstraintError, XdlcError, raise_all
from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.options import spell
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.calibration.statistics import Histogram, share_below
from xdlc.quant.capabilities import supports
from xdlc.quant.engine import Engine
from xdlc.quant.mixed.groups import graph_cost, has_weights
from xdlc.quant.op_specs import crosses, rule_of
from xdlc.quant.output_accuracy import Figure, figures_of
from xdlc.quant.plan import Change, Plan
from xdlc.quant.precision import Precision
from xdlc.quant.ranges import representable
from xdlc.quant.udo import narrow_udo
from xdlc.quant.widening.mixed_scales import writer

Phrase: TypeAlias = Callable[[str], str]
"""Writes a line for the user; one of advice has ``options``."""
Options: TypeAlias = Mapping[str, Any]
"""Keyword arguments of ``quantize``: mappings of names to bits, sequences of names, numbers or text."""
REPORT = "report.html"
NEAR_DB = 1.0
"""An output may be this much below a goal before it is worth a warning."""
FEW = 0.001
"""Part of a tensor's values that may stretch its range."""
STEPS = 2.5
"""Steps that all other values must span."""
_Found: TypeAlias = tuple[float, float, float, str, Options]


class Advice(str):
    """A line of text that ends with options, printed as keyword arguments.

    Attributes:
        text: The line without the options.
        options: The options to set; empty: the line has none.

    Example:
        >>> str(Advice("16-bit activations", {"act_bitwidth": 16}))
        '16-bit activations: act_bitwidth=16'
    """

    __slots__ = ("options", "text")
    text: str
    options: Options

    def __new__(cls, text: str, options: Options | None = None) -> Advice:
        words = ", ".join(f"{name}={value!r}" for name, value in (options or {}).items())
        line = super().__new__(cls, f"{text}: {words}" if words else text)
        line.text, line.options = text, options or {}
        return line

    def after(self, text: str) -> Advice:
        """Return the advice with more text in front."""
        return Advice(f"{text}{self.text}", self.options)


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a trial of widths.

    Attributes:
        figures: The outputs, by name.
        bytes: Bytes that an inference moves, in units of the widths before.
    """

    figures: Mapping[str, Figure]
    bytes: float


def keeps(figure: Figure, least: float | None = None) -> bool:
    """Return whether an output keeps its task.

    Args:
        least: Least SQNR in dB that is requested; None: any.
    """
    below = least is not None and figure.sqnr is not None and figure.sqnr < least
    return not (figure.verdict.is_poor or below)


def moved_bytes(plan: Plan) -> float:
    """Return the bytes that an inference moves under the widths of a plan."""
    bits = 32 if plan.options.float_bitwidth == 32 else 16
    return graph_cost(plan.graph, plan.placement, plan.precision, bits).bytes


def widths(acts: int, weights: int | None, precision: Precision) -> Precision:
    """Return other widths for all ops without individual widths.

    Ops of 16 bits keep them.
    """
    return replace(precision, act_bits=acts, weight_bits=weights or precision.weight_bits)


def one_op(name: str, bits: int | None, precision: Precision) -> Precision:
    """Return widths with other activation bits for an op; None makes it float."""
    precision.acts[name] = bits
    return precision


class Remedies:
    """Options to name in warnings about a plan's outputs.

    Args:
        least: Least SQNR in dB that is requested; None: any.
        outcomes: Outcomes of trials by their text; None: the other options leave no room for one.
    """

    def __init__(
        self,
        plan: Plan,
        calibration: Calibration,
        engine: Engine,
        figures: Sequence[Figure],
        least: float | None = None,
        outcomes: dict[str, Trial | None] | None = None,
    ) -> None:
        self.plan, self.calibration, self.figures = plan, calibration, figures
        self.engine = engine
        self._least = least
        self._outcomes: dict[str, Trial | None] = {} if outcomes is None else outcomes
        self._poor = [figure.output for figure in figures if not keeps(figure, least)]
        self._enough: tuple[str, Options, Trial] | None = None

    def for_least(self, least: float) -> Remedies:
        """Return remedies for outputs below a least SQNR in dB; trials are shared."""
        return Remedies(self.plan, self.calibration, self.engine, self.figures, least, self._outcomes)

    def of(self, figure: Figure) -> tuple[str, Options]:
        """Return a remedy for an output: text, and the options to set.

        Nothing more is tried once options keep all outputs.
        """
        if self._enough is not None:
            text, options, trial = self._enough
            return self._outcome(text, trial, figure), options
        tried, own = [], None
        for text, options, change in self._candidates(figure):
            outcome = self._trial(text, change)
            if outcome is None:
                continue
            tried.append(self._outcome(text, outcome, figure))
            if all(keeps(outcome.figures[name], self._least) for name in self._poor):
                self._enough = text, options, outcome
                return tried[-1], options
            if own is None and keeps(outcome.figures[figure.output], self._least):
                own = tried[-1], options
        if own is not None:
            return own
        requested, least = self.plan.options, self._least
        is_best, has_goal = (
            requested.accuracy == "best",
            requested.has_goal or self.engine.metric is not None,
        )
        cause = "no tried widths are enough" if is_best or has_goal else "the SoC supports no wider type"
        if tried:
            cause = f"no widths are enough ({'; '.join(tried)})"
        is_higher = least is not None and (requested.min_sqnr is None or requested.min_sqnr < least)
        is_last = is_best or (has_goal and not is_higher)  # a goal takes the place of the ladder
        if is_last or not (requested.soc is None or requested.soc.fp16):
            return f"{cause}; read in the report where the accuracy is lost", {"report": REPORT}
        more = "calibrate with more samples, because ranges may be too narrow, or keep some ops in float"
        return f"{cause}; {more}", {"accuracy": "best"} if least is None else {"min_sqnr": least}

    def _candidates(self, figure: Figure) -> Iterator[tuple[str, Options, Change]]:
        """Yield remedies to try, the cheapest first: text, options and widths."""
        plan = self.plan
        options, precision, soc = plan.options, plan.precision, plan.options.soc
        if not self.calibration.measured or options.accuracy == "best":
            return
        op = writer(plan.graph.tensors[figure.output])
        is_fixed = op is not None and op in plan.placement.fixed
        acts, weights = precision.act_bits, precision.weight_bits
        wide = soc is None or soc.capabilities.a16w8
        if op is not None and is_fixed and figure.verdict.place and wide and precision.act_bits_of(op) == 8:
            one = partial(one_op, op.name, 16)
            yield f"16 bits for the values of {op.name!r}", {"act_bitwidth_of": {op.name: 16}}, one
        if acts == 8 and wide:
            yield "16-bit activations", {"act_bitwidth": 16}, partial(widths, 16, None)
        if weights < 8:
            yield "8-bit weights", {"weights_bitwidth": 8}, partial(widths, acts, 8)
        weighted = [op for op in plan.placement.fixed if has_weights(op)]
        if wide and weights < 16 and weighted and all(supports(op, 16, 16, soc) for op in weighted):
            both = {"act_bitwidth": 16, "weights_bitwidth": 16}
            yield "16-bit activations and weights", both, partial(widths, 16, 16)
        if op is not None and is_fixed and (soc is None or soc.fp16):
            floats = {"float_ops": (*options.float_ops, op.name)}
            yield f"float for {op.name!r}", floats, partial(one_op, op.name, None)

    def _trial(self, text: str, change: Change) -> Trial | None:
        """Return the outcome of other widths; None if other options contradict them."""
        if text not in self._outcomes:
            self.engine.report("trying remedies")
            self._outcomes[text], before = None, moved_bytes(self.plan)
            with suppress(XdlcError):
                plan = self.plan.under(change).decided(self.calibration)
                figures = figures_of(plan, self.calibration, self.engine)[0]
                more = moved_bytes(plan) / before if before else 1.0
                self._outcomes[text] = Trial({figure.output: figure for figure in figures}, more)
        return self._outcomes[text]

    def _outcome(self, text: str, trial: Trial, figure: Figure) -> str:
        reached = trial.figures[figure.output]
        kept = reached.verdict if self._least is None else reached
        return f"{text}: {kept}, moves {trial.bytes:.2f} times the bytes"


def warnings(remedies: Remedies) -> Iterator[str]:
    """Yield a warning for each poor output, with the options that improve it."""
    for figure in remedies.figures:
        if figure.verdict.is_poor:
            yield _advice(remedies, figure).after(
                f"warning: output {figure.output!r} is likely {_grade(figure)} as {figure.verdict.kind}: "
                f"{figure.verdict}; "
            )


def _grade(figure: Figure) -> str:
    return "useless" if figure.verdict.is_useless else "poor"


def _advice(remedies: Remedies, figure: Figure) -> Advice:
    """Return advice about an output; no bits while samples or a UDO are at fault."""
    if remedies.calibration.problems:
        return Advice(f"the calibration samples are wrong: {remedies.calibration.problems[0].text}")
    narrow = narrow_udo(remedies.plan.main, figure.output)
    if narrow is not None:
        return Advice(
            f"{narrow} computes with 8 bits: allow 16 bits or floats in the definition, and convert again"
        )
    return Advice(*remedies.of(figure))


def goal_warnings(plan: Plan, figures: Sequence[Figure]) -> Iterator[str]:
    """Yield a warning if outputs miss the goal that mixed precision reached.

    It was reached on the samples that widths were chosen by.
    """
    goal = plan.search.goal
    if goal is None:
        return
    below = [(f.sqnr, f) for f in figures if f.held_out and f.sqnr is not None and f.sqnr < goal - NEAR_DB]
    if not below:
        return
    reached, worst = min(below, key=lambda pair: pair[0])
    others = f" (also for {len(below) - 1} more outputs)" if len(below) > 1 else ""
    yield Advice(
        f"warning: output {worst.output!r} reaches {reached:.1f} dB on {worst.samples} held-out samples, "
        f"but the goal is {goal:.1f} dB{others}. The samples that chose the widths reach the goal. Calibrate "
        "with more varied samples, or raise the goal",
        {"min_sqnr": math.ceil(10 * (2 * goal - max(reached, 0.0))) / 10},
    )


def check_figures(remedies: Remedies, least: float | None, phrase: Phrase) -> None:
    """Refuse a quantized network with outputs below a least SQNR.

    Args:
        remedies: What may help, with the figures of the outputs.
        least: In dB; None: any will do.
        phrase: Writes advice.

    Raises:
        ConstraintError: If an output is below, or useless; several make a ProblemList.
    """
    if least is None:
        return
    if remedies.calibration.doubt:
        problem = f"{spell('fail_below')} has no figures to check: {remedies.calibration.doubt}"
        fix = f"{remedies.calibration.problems[0].fix}, or name other samples as {spell('report_list')}"
        raise ConstraintError(problem, where="calibration samples", fix=fix)
    problems, remedies = [], remedies.for_least(least)
    for figure in remedies.figures:
        if figure.verdict.is_useless or (figure.sqnr is not None and figure.sqnr < least):
            problem = f"{spell('fail_below')} is {least:g} dB, but {figure}; {figure.verdict}"
            fix = phrase(_advice(remedies, figure))
            problems.append(ConstraintError(problem, where=f"output {figure.output!r}", fix=fix))
    raise_all(problems)


def stretched_warnings(plan: Plan, calibration: Calibration) -> list[str]:
    """Return a warning about ranges stretched by a few large values, or nothing.

    Ranges that do not hang on values do not count, nor do values that make no difference to readers.

    Args:
        calibration: Its calibration; 16-bit activations have no histograms to judge by.

    Returns:
        One line for people, or none.
    """
    found = [*_activations(plan, calibration), *_constants(plan)]
    if not found or calibration.problems:
        return []
    rest, largest, scale, name, options = min(found, key=lambda entry: entry[0] / entry[1])
    more = f", also in {len(found) - 1} more tensors" if len(found) > 1 else ""
    return [
        Advice(
            f"warning: a few values of {name!r} reach {largest:.3g}, but all others at most {rest:.3g}: "
            f"its encoding has {rest / scale:.1f} steps for them{more}; to keep them",
            options,
        )
    ]


def _activations(plan: Plan, calibration: Calibration) -> Iterator[_Found]:
    """Yield activations with a stretched range: their magnitudes and the remedy.

    These are the largest magnitude of most values, that of all, the scale, the name, and the options to
    set.
    """
    for tensor, (dtype, encoding) in plan.decision.activations.items():
        statistics = calibration.statistics.get(tensor)
        if (
            statistics is None
            or not statistics.histogram.total
            or dtype.bits != 8
            or not isinstance(encoding, ScaleOffset)
        ):
            continue
        if tensor in plan.decision.useful or _is_fixed(tensor):
            continue
        rest, seen = most_reach(statistics.histogram), statistics.seen
        if 0.0 < rest < STEPS * encoding.scale < max(-seen.low, seen.high):
            values = representable(encoding, dtype)
            largest = max(-values.low, values.high)
            yield rest, largest, encoding.scale, tensor.name, {"act_bitwidth_of": {tensor.name: 16}}


def _constants(plan: Plan) -> Iterator[_Found]:
    """Yield constants other than weights whose range is stretched.

    The values are those of ``_activations``.
    """
    for (op, index), (dtype, encoding) in plan.decision.statics.items():
        tensor = op.inputs[index]
        if tensor is None or dtype.is_signed or not isinstance(encoding, ScaleOffset):
            continue
        rest, largest = _two_largest(tensor.numpy())
        if 0.0 < rest < STEPS * encoding.scale:
            yield rest, largest, encoding.scale, tensor.name, {"float_ops": (op.name,)}


def _is_fixed(tensor: Tensor) -> bool:
    op = tensor.producer
    return op is not None and (crosses(op) or rule_of(op).unit_low is not None)


def most_reach(histogram: Histogram) -> float:
    """Return the magnitude below which 99.9 % of the counted values are."""
    size = np.maximum(np.abs(histogram.edges[:-1]), np.abs(histogram.edges[1:]))
    return share_below(size, histogram.counts, 1.0 - FEW)


def _two_largest(array: Array) -> tuple[float, float]:
    """Return the second largest magnitude, and the largest, which few elements have.

    The first is 0 if all elements are equal, or if many elements have the largest.
    """
    size = np.abs(array).reshape(-1)
    largest = size.max(initial=0.0)
    rest = size[size < largest]
    few = size.size - rest.size <= max(1, FEW * size.size)
    return (float(rest.max(initial=0.0)) if few else 0.0), float(largest)
