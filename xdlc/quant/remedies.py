"""Remedies for lost quality: options that keep the task of an output on samples that ranges have not seen.

Each is tried before it is named, the cheapest first; trials are made only where a warning is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from xdlc.errors import XdlcError
from xdlc.quant.advised import Options
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.capabilities import takes
from xdlc.quant.engine import Engine
from xdlc.quant.mixed.groups import graph_cost, has_weights
from xdlc.quant.output_accuracy import Figure, figures_of
from xdlc.quant.plan import Change, Plan
from xdlc.quant.precision import Precision
from xdlc.quant.widening.mixed_scale_ops import writer

REPORT = "report.html"


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
    """Return widths for all ops but those that have their own; ops of 16 bits keep them."""
    return replace(precision, act_bits=acts, weight_bits=weights or precision.weight_bits)


def one_op(name: str, bits: int | None, precision: Precision) -> Precision:
    """Return widths with other bits of the activations of one op; None: it stays float."""
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
        """Return remedies for outputs below a least SQNR in dB, which share the trials."""
        return Remedies(self.plan, self.calibration, self.engine, self.figures, least, self._outcomes)

    def of(self, figure: Figure) -> tuple[str, Options]:
        """Return what to do about an output of which something is lost, and the options for it.

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
        cause = "no widths that were tried keep it" if is_best or has_goal else "the target has no wider ones"
        if tried:
            cause = f"no widths keep it ({'; '.join(tried)})"
        is_higher = least is not None and (requested.min_sqnr is None or requested.min_sqnr < least)
        is_last = is_best or (has_goal and not is_higher)  # a goal takes the place of the ladder
        if is_last or not (requested.soc is None or requested.soc.fp16):
            return f"{cause}; see where it is lost", {"report": REPORT}
        more = "calibrate with more samples, for ranges may be too narrow, or let ops stay float"
        return f"{cause}; {more}", {"accuracy": "best"} if least is None else {"min_sqnr": least}

    def _candidates(self, figure: Figure) -> Iterator[tuple[str, Options, Change]]:
        """Yield text, options and widths of what might help, the cheapest first."""
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
        if wide and weights < 16 and weighted and all(takes(op, 16, 16, soc) for op in weighted):
            both = {"act_bitwidth": 16, "weights_bitwidth": 16}
            yield "16-bit activations and weights", both, partial(widths, 16, 16)
        if op is not None and is_fixed and (soc is None or soc.fp16):
            floats = {"float_ops": (*options.float_ops, op.name)}
            yield f"float for {op.name!r}", floats, partial(one_op, op.name, None)

    def _trial(self, text: str, change: Change) -> Trial | None:
        """Return the outcome of a trial, None if the other options leave no room for these widths."""
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
        return f"{text}: {kept}, bytes moved x {trial.bytes:.2f}"
