"""SQNR and verdicts of outputs on samples that no range was computed from.

Every fifth sample is held out: the network is measured with it under the ranges of the others, which the
stored ones, of all samples, hardly differ from.  Of a Softmax the input is measured, and which element is
the largest: a class that is sure to win has the same probability with much noise as with little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xdlc.compare.figures import Noise, percent
from xdlc.ir.data import Array
from xdlc.ir.dtype import SFIXED16
from xdlc.opdefs.traits import traits
from xdlc.quant.bias import corrected_ops
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.judge import judged, judged_by
from xdlc.quant.op_specs import is_real
from xdlc.quant.plan import Plan
from xdlc.quant.runs import Runs
from xdlc.quant.storing import quantized_copy
from xdlc.quant.verdicts import Verdict, too_few

JUDGED = 4
"""Samples that bias correction is judged by."""

FIGURES = "outputs of"
"""Beginning of the note with figures of outputs."""
_SHOWN = 6
"""Most outputs whose figures a note lists."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Accuracy of an output: its SQNR and its verdict.

    Attributes:
        samples: Samples that were measured.
        held_out: Whether ranges have not seen them.
        sqnr: Of its values, or of what goes into its Softmax, in dB; None for integers.
        verdict: What is left for an application.
    """

    output: str
    samples: int
    held_out: bool
    sqnr: float | None
    verdict: Verdict

    def __str__(self) -> str:
        words = [] if self.sqnr is None else [f"{self.sqnr:.1f} dB"]
        equal = self.verdict.equal
        if equal is not None:
            words.append(
                f"{percent(equal)} equal" if self.sqnr is None else f"top-1 equal in {percent(equal)}"
            )
            words += filter(None, [too_few(self.verdict.rows)])
        return f"{self.output!r} {', '.join(words) or f'{percent(self.verdict.kept)} kept'}"


def target_runs(
    plan: Plan, calibration: Calibration, engine: Engine, *, corrected: bool | None = None
) -> Runs:
    """Return runs that approximate the outputs of the target.

    Values are rounded to their encodings between onnxruntime's own kernels (``plain``): within 1.6 dB of
    the emulation of HTP on ten networks, for half its time.  The session of the choice of ranges, which
    rounds less, was up to 4 dB too good.  HTP's sums of products with 16-bit weights lose up to 40 dB
    more: a network with such weights runs in its arithmetic.  Ops that stay float are computed in float16
    where the target has that alone.

    Args:
        corrected: Whether to correct biases; default: as in the plan.
    """
    model = quantized_copy(plan, calibration, corrected=corrected, as_on_target=True)
    plain = all(dtype is not SFIXED16 for dtype, _ in plan.decision.statics.values())
    return Runs(engine, model, outputs=judged(plan.graph), plain=plain)


def measured_results(
    plan: Plan, calibration: Calibration, engine: Engine, *, corrected: bool
) -> Iterator[Mapping[str, Array]]:
    """Yield the quantized model's results for each sample to measure with.

    Ranges are those of the other samples.
    """
    if not calibration.measured or not judged(plan.graph):
        return
    runs = target_runs(plan.without_held_out(calibration), calibration, engine, corrected=corrected)
    yield from runs(kept.sample for kept in calibration.measured)


def measure_figures(
    plan: Plan, calibration: Calibration, results: Sequence[Mapping[str, Array]]
) -> list[Figure]:
    """Return the accuracy of each output.

    Args:
        results: Results for each sample to measure with; empty: nothing was measured.
    """
    if not results:
        return []
    judge = calibration.judge(plan.graph, plan.options.output_kind)
    verdicts = {verdict.output: verdict for verdict in judge.score(results).verdicts}
    figures = []
    for output in dict.fromkeys(tensor for tensor in plan.graph.outputs if tensor.size):
        name, sqnr = judged_by(output).name, None
        if is_real(output):
            pairs = zip(calibration.measured, results, strict=True)
            sqnr = Noise.of((kept.floats[name], rounded[name]) for kept, rounded in pairs).db
        unseen = calibration.holds_out or calibration.has_own_list
        figures.append(Figure(output.name, len(results), unseen, sqnr, verdicts[output.name]))
    return figures


def kinds_note(figures: Sequence[Figure]) -> str:
    """Return a line with the kinds and verdicts of the outputs, the worst of many."""
    verdicts = [figure.verdict for figure in figures]
    shown = (
        sorted(verdicts, key=lambda verdict: verdict.kept)[:_SHOWN] if len(verdicts) > _SHOWN else verdicts
    )
    more = f"; {len(verdicts) - len(shown)} outputs are as good" if len(shown) < len(verdicts) else ""
    listed = "; ".join(f"{verdict.output!r} as {verdict.kind}: {verdict}" for verdict in shown)
    return f"judged {listed}{more}"


def figure_note(figures: Sequence[Figure]) -> str:
    """Return a line with the figures of the outputs, the worst of many."""
    ranked = sorted(figures, key=lambda figure: math.inf if figure.sqnr is None else figure.sqnr)
    shown = figures if len(figures) <= _SHOWN else ranked[:_SHOWN]
    more = f"; {len(figures) - len(shown)} more outputs are better" if len(shown) < len(figures) else ""
    kind = "held-out" if figures[0].held_out else "calibration"
    count = figures[0].samples
    return f"{FIGURES} {count} {kind} sample{'' if count == 1 else 's'}: {', '.join(map(str, shown))}{more}"


def choose_correction(
    plan: Plan, calibration: Calibration, engine: Engine
) -> tuple[Plan, list[Mapping[str, Array]]]:
    """Return a plan that corrects biases if outputs gain by it, and its results."""
    layers = sum(
        len(corrected_ops(part.graph, part.placement, part.decision))
        for part in plan.parts
        if part.decision is not None
    )
    plain = measured_results(plan, calibration, engine, corrected=False)
    if not plan.options.bias_correction or not layers:
        return plan, list(plain)
    corrected = list(measured_results(plan, calibration, engine, corrected=True))
    results = list(islice(plain, JUDGED))
    if not results:
        return plan, results
    kept = calibration.measured[: len(results)]
    judge = calibration.judge(plan.graph, plan.options.output_kind, kept)
    before, after = judge.score(results), judge.score(corrected[: len(results)])
    total = sum(traits(op).bias is not None for part in plan.parts for op in part.placement.fixed)
    gained = f"outputs of {len(results)} samples gain {after.mean_db - before.mean_db:+.2f} dB"
    # Nothing was fitted to the outputs, and nothing else was tried: any gain will do.
    if after.is_gain(before, certainty=0.0):
        note = f"bias correction: xdlc corrected {layers} of {total} layers; {gained}"
        return replace(plan, corrects_biases=True).noted(note), corrected
    lost = "outputs would keep less of their task; " if after.is_worse(before) else "no reliable gain; "
    return plan.noted(f"bias correction: xdlc corrected no bias: {lost}{gained}"), [*results, *plain]


def figures_of(plan: Plan, calibration: Calibration, engine: Engine) -> tuple[list[Figure], bool]:
    """Return the figures of a decided plan, and whether it corrects biases."""
    chosen, results = choose_correction(replace(plan, corrects_biases=False), calibration, engine)
    return measure_figures(chosen, calibration, results), chosen.corrects_biases
