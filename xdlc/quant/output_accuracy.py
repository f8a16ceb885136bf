"""SQNR and top-1 agreement of a quantized network's outputs on samples that its ranges have not seen.

Every fifth sample is held out: the network is measured with it under the ranges of the others, which the
stored ones, of all samples, hardly differ from.  Of a Softmax the input is measured, and which element is
the largest: a class that is sure to win has the same probability with much noise as with little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdlc.ir import Tensor
from xdlc.ir.data import Array
from xdlc.quant.judge import Pairs, Verdict, judged_by
from xdlc.quant.kind_inference import has_unit_range
from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import is_real
from xdlc.quant.output_kinds import OutputKind
from xdlc.quant.tensor_slices import Parts, output_parts, unlike_parts

if TYPE_CHECKING:
    from xdlc.quant.job import Job

MOST_HELD_OUT = 8
"""Samples that are measured."""

LOST_DB = 10.0
"""Below this an output is lost: its error is a third of its values."""

SURE = 0.98
"""Share of largest elements that have to stay the largest for class scores not to be lost below that."""

QUIET = 0.1
"""Scores of samples without a detection, and errors of these that make none, stay below that."""

SMALL = 0.01
"""A channel whose values take less than this share of its output's range is looked at alone."""

NOTHING = 1e-5
"""A channel below this share of its output's range holds rounding errors of floats."""

MOST_CHANNELS = 64
"""Channels of an output that are looked at."""

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
        same: Share of equal elements of integers; of class scores that of rows with the same largest element;
            None for others.
        lost: What of it is lost and how, a line each; empty: nothing.
        verdict: What is left for an application.
    """

    output: str
    samples: int
    held_out: bool
    sqnr: float | None = None
    same: float | None = None
    lost: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def __str__(self) -> str:
        """Give it in a few words."""
        held = [] if self.sqnr is None else [f"{self.sqnr:.1f} dB"]
        if self.same is not None:
            held.append(f"{self.same:.1%} equal" if self.sqnr is None else f"top-1 equal in {self.same:.1%}")
        return f"{self.output!r} {', '.join(held)}"


def measure_figures(job: Job, found: Sequence[Mapping[str, Array]]) -> list[Figure]:
    """Return how good each output is.

    Args:
        job: A job that is decided and not finished, calibrated with samples.
        found: What the quantized model makes of each of ``job.measured``; empty: nothing was measured.
    """
    if not found:
        return []
    parts = output_parts(job.graph)
    verdicts = {verdict.output: verdict for verdict in job.output_judge().score(found).verdicts}
    figures = []
    for output in dict.fromkeys(tensor for tensor in job.graph.outputs if tensor.size):
        source, verdict = judged_by(output), verdicts[output.name]
        pairs = [
            (kept.floats[source.name], results[source.name])
            for kept, results in zip(job.measured, found, strict=True)
        ]
        known = parts.get(output.name, ()) if source is output else ()
        unseen = job.holds_out or job.has_own_list
        if is_real(output):
            sqnr, same, lost = _of_reals(output, pairs, known, verdict)
            figure = Figure(output.name, len(pairs), unseen, sqnr, same, tuple(lost), verdict)
        else:
            figure = Figure(output.name, len(pairs), unseen, same=_share(pairs), verdict=verdict)
        figures.append(figure)
    return figures


def _share(pairs: Pairs) -> float:
    """Return the share of equal elements."""
    import numpy as np

    equal = total = 0
    for wanted, found in pairs:
        equal += int(np.count_nonzero(wanted == found)) if wanted.shape == found.shape else 0
        total += wanted.size
    return equal / max(total, 1)


def _of_reals(
    output: Tensor, pairs: Pairs, parts: Parts, verdict: Verdict
) -> tuple[float, float | None, list[str]]:
    """Return SQNR, top-1 agreement where there are classes, and what is lost."""
    whole = _Slice.of(pairs)
    if verdict.kind is OutputKind.CLASSES:
        same = _share([(wanted.argmax(-1), found.argmax(-1)) for wanted, found in pairs])
        reason = whole.loss
        sure = reason is None or (math.isfinite(whole.noise.noise) and same >= SURE)
        return whole.db, same, [] if sure else [f"{reason}, top-1 equal in {same:.1%}"]
    if whole.loss is not None:
        keeps = whole.has_values and not verdict.is_useless
        return whole.db, None, [] if keeps else [whole.loss]
    return whole.db, None, list(_lost_slices(output, pairs, parts, whole))


def _lost_slices(output: Tensor, pairs: Pairs, parts: Parts, whole: _Slice) -> Iterator[str]:
    """Yield which parts or channels of an output that is not lost as a whole are, and how."""
    unlike = unlike_parts(parts, [wanted for wanted, _ in pairs]) if parts else ()
    if len(unlike) > 1:
        for part in unlike:
            seen = _Slice.of([(part.of(wanted), part.of(found)) for wanted, found in pairs])
            if seen.loss is not None and not (has_unit_range(part.sources) and seen.is_quiet):
                yield f"{part.start}:{part.stop} of axis {part.axis} {seen.loss}{seen.share_of(whole)}"
        return
    last = output.rank - 1
    if not last + 1 >= 2 or last in output.dynamic_axes or not 2 <= output.shape[-1] <= MOST_CHANNELS:
        return
    channels = [
        _Slice.of([(w[..., index], f[..., index]) for w, f in pairs]) for index in range(output.shape[-1])
    ]
    poor = [
        index
        for index, seen in enumerate(channels)
        if NOTHING * whole.peak < seen.peak < SMALL * whole.peak and seen.loss is not None
    ]
    if poor:
        worst = min(poor, key=lambda index: channels[index].db)
        seen = channels[worst]
        more = f", and {len(poor) - 1} more of its channels" if len(poor) > 1 else ""
        yield f"channel {worst} of axis {last} {seen.loss}{seen.share_of(whole)}{more}"


@dataclass(slots=True)
class _Slice:
    """What was seen of a part of an output.

    Attributes:
        noise: Power of float values, and of errors.
        peak: Largest absolute value in float.
        worst: Largest absolute error.
        varies: Whether values differ from each other in float, and in the quantized model.
    """

    noise: Noise = field(default_factory=Noise)
    peak: float = 0.0
    worst: float = 0.0
    varies: tuple[bool, bool] = (False, False)

    @classmethod
    def of(cls, pairs: Pairs) -> _Slice:
        """Return the measures of some values."""
        import numpy as np

        seen = cls()
        ends = []
        for wanted, found in pairs:
            exact = np.asarray(wanted, np.float64)
            seen.noise.add(exact, found)
            seen.peak = max(seen.peak, float(np.abs(exact).max(initial=0.0)))
            seen.worst = max(seen.worst, float(np.abs(found - exact).max(initial=0.0)))
            ends += (
                [(exact.min(), exact.max(), found.min(), found.max())] if exact.size and found.size else []
            )
        if ends:
            low, high = np.min(ends, axis=0), np.max(ends, axis=0)
            seen.varies = bool(low[0] < high[1]), bool(low[2] < high[3])
        return seen

    @property
    def db(self) -> float:
        """SQNR in dB."""
        return self.noise.db

    @property
    def is_quiet(self) -> bool:
        """Whether scores are low and stay so: samples without a detection show nothing of those with one."""
        return self.varies[1] and self.peak <= QUIET and self.worst <= QUIET

    @property
    def has_values(self) -> bool:
        """Whether the quantized model has numbers, that differ where those of float do."""
        return math.isfinite(self.noise.noise) and self.varies != (True, False)

    @property
    def loss(self) -> str | None:
        """In what way it is lost; None: it is not, or holds nothing but zeros in float."""
        if not math.isfinite(self.noise.noise):
            return "is NaN or infinite"
        if self.noise.signal == 0.0:
            return None
        if self.varies == (True, False):
            return "is constant where float is not"
        return f"is at {self.db:.1f} dB" if self.db < LOST_DB else None

    def share_of(self, whole: _Slice) -> str:
        """Give the share of the output's range that the values take, where that is small."""
        share = self.peak / whole.peak if whole.peak else 1.0
        return f", its values take {share:.2%} of the output's range" if share < 10 * SMALL else ""


def kinds_note(figures: Sequence[Figure]) -> str:
    """Return a line with what each output was judged as, of the worst where there are many."""
    verdicts = [figure.verdict for figure in figures if figure.verdict is not None]
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
