"""SQNR and verdicts of a quantized network's outputs on samples that its ranges have not seen.

Every fifth sample is held out: the network is measured with it under the ranges of the others, which the
stored ones, of all samples, hardly differ from.  Of a Softmax the input is measured, and which element is
the largest: a class that is sure to win has the same probability with much noise as with little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.ir.data import Array
from xdlc.quant.judge import judged_by
from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import is_real
from xdlc.quant.verdicts import Verdict

if TYPE_CHECKING:
    from xdlc.quant.job import Job

MOST_HELD_OUT = 8
"""Samples that are measured."""

_SHOWN = 6
"""Most outputs whose figures a note lists."""


@dataclass(frozen=True, slots=True)
class Figure:
    """How good an output is.

    Attributes:
        output: Its name.
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
        """Return the figure in a few words."""
        words = [] if self.sqnr is None else [f"{self.sqnr:.1f} dB"]
        equal = self.verdict.equal
        if equal is not None:
            words.append(f"{equal:.1%} equal" if self.sqnr is None else f"top-1 equal in {equal:.1%}")
        return f"{self.output!r} {', '.join(words) or f'{self.verdict.kept:.1%} kept'}"


def measure_figures(job: Job, results: Sequence[Mapping[str, Array]]) -> list[Figure]:
    """Return how good each output is.

    Args:
        job: A job that is decided and not finished, calibrated with samples.
        results: What the quantized model makes of each of ``job.measured``; empty: nothing was measured.
    """
    if not results:
        return []
    verdicts = {verdict.output: verdict for verdict in job.output_judge().score(results).verdicts}
    figures = []
    for output in dict.fromkeys(tensor for tensor in job.graph.outputs if tensor.size):
        name, sqnr = judged_by(output).name, None
        if is_real(output):
            pairs = zip(job.measured, results, strict=True)
            sqnr = Noise.of((kept.floats[name], rounded[name]) for kept, rounded in pairs).db
        unseen = job.holds_out or job.has_own_list
        figures.append(Figure(output.name, len(results), unseen, sqnr, verdicts[output.name]))
    return figures


def kinds_note(figures: Sequence[Figure]) -> str:
    """Return a line with what each output was judged as, of the worst where there are many."""
    verdicts = [figure.verdict for figure in figures]
    shown = (
        sorted(verdicts, key=lambda verdict: verdict.kept)[:_SHOWN] if len(verdicts) > _SHOWN else verdicts
    )
    more = f", {len(verdicts) - len(shown)} more keep as much" if len(shown) < len(verdicts) else ""
    listed = "; ".join(f"{verdict.output!r} as {verdict.kind}: {verdict}" for verdict in shown)
    return f"judged {listed}{more}"


def figure_note(figures: Sequence[Figure]) -> str:
    """Return a line with the figures of all outputs, of the worst where there are many."""
    ranked = sorted(figures, key=lambda figure: math.inf if figure.sqnr is None else figure.sqnr)
    shown = figures if len(figures) <= _SHOWN else ranked[:_SHOWN]
    more = f", {len(figures) - len(shown)} more outputs above" if len(shown) < len(figures) else ""
    kind = "held-out" if figures[0].held_out else "calibration"
    count = figures[0].samples
    return f"outputs of {count} {kind} sample{'' if count == 1 else 's'}: {', '.join(map(str, shown))}{more}"
