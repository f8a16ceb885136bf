"""Report as plain data: the schema of its JSON form.

Ratios are signal-to-noise ratios (SQNR) in dB, 200 for values that do not differ at all, -200 for noise
without a signal; A value is None if it was not measured or does not apply.  A change of the meaning of a
field, or its removal, changes ``SCHEMA``; new fields do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from xdlc.compare.figures import EXACT, percent
from xdlc.page import printable
from xdlc.quant.verdicts import LEAST_ROWS, POOR, USELESS, too_few

SCHEMA = 1
"""Version of the schema."""

WARN_DB = 20.0
"""Below this a tensor's values are off by a tenth on average: a warning."""

ALARM_DB = 10.0
"""Below this the error is a third of the values: an alarm."""

AGREES = 0.95
"""Share of equal labels, or of rows with the same largest element, below which an output is not good."""

SHOWN = 3
"""Most outputs whose agreement the verdict line shows."""

CLIP_WARN = 0.001
"""Share of clipped values above which a tensor is worth a warning."""


@dataclass(frozen=True, slots=True)
class Bars:
    """A histogram of few bins.

    Attributes:
        low: Lower edge of the first bin.
        counts: Values in each bin, of a part of the values where there are many.
    """

    low: float
    width: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChannelRanges:
    """Ranges of a weight's channels.

    Attributes:
        count: How many channels there are.
        lows: Smallest value of each channel, or of each run of ``ceil(count / len(lows))`` neighbours.
        highs: The largest value.
    """

    axis: int
    count: int
    lows: tuple[float, ...]
    highs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TensorReport:
    """One tensor.

    Attributes:
        name: Its name; a static tensor with several uses has several entries.
        op: The op that writes it, or the one that reads it if it is static; None for graph inputs.
        order: Place of that op in the order of execution, -1 for graph inputs.
        role: ``input``, ``activation``, ``output``, ``weight``, ``bias`` or ``constant``.
        stored: Type that it is stored in, such as ``ufixed8`` or ``float32``.
        bits: Used bits of a quantized value, None for floats.
        granularity: ``tensor``, ``channel``, ``block``; None for floats.
        scale: Step between neighbouring values; the largest where there are several.
        scale_low: The smallest step where there are several.
        offset: Added to the quantized value before it is scaled; None where channels differ.
        grid_low: Smallest value that the encoding holds.
        seen_low: Smallest value in the held-out samples, or of static data.
        calibrated_low: Smallest value that calibration saw.
        clipped: Share of values that lie more than half a step beyond the encoding's ends.
        beyond: How far the farthest of these does.
        used: Share of the encoding's range that values lie in.
        cumulative: SQNR of the quantized network's value against the float network's.
        isolated: SQNR of rounding it alone: of a float value and its nearest step.
        sensitivity: SQNR of the network's outputs if nothing but this tensor is rounded, for a weight: the
            static data of its op.
        source: Where the encoding came from.
        shared: Other tensors that have the same encoding by design, the first 16 of them.
        shared_count: How many there are.
        ``heard``: Why only some of its values count, as in front of a Relu.
        histogram: Values of the held-out samples, or static data.
        channels: Ranges per channel of a weight.
    """

    name: str
    op: str | None
    order: int
    role: str
    shape: tuple[int, ...]
    stored: str
    bits: int | None = None
    granularity: str | None = None
    scale: float | None = None
    scale_low: float | None = None
    offset: int | None = None
    grid_low: float | None = None
    grid_high: float | None = None
    seen_low: float | None = None
    seen_high: float | None = None
    calibrated_low: float | None = None
    calibrated_high: float | None = None
    clipped: float | None = None
    beyond: float | None = None
    used: float | None = None
    cumulative: float | None = None
    isolated: float | None = None
    sensitivity: float | None = None
    source: str | None = None
    shared: tuple[str, ...] = ()
    shared_count: int = 0
    heard: str | None = None
    histogram: Bars | None = None
    channels: ChannelRanges | None = None


@dataclass(frozen=True, slots=True)
class OpReport:
    """One op.

    Attributes:
        order: Place in the order of execution.
        nodes: Nodes of the source model that it comes from.
        placement: ``fixed``, ``float``, or ``none`` for ops that touch no float values.
        reason: Why it stayed float.
        raised: What mixed precision made of its widths, and what for.
        act_bits: Bits of what it writes; None if float.
        weight_bits: Bits of its weights; None if float or without weights.
        outputs: Names of what it writes.
        cumulative: SQNR of the worst of its results in the quantized network.
        isolated: SQNR of the worst of its results if it alone is quantized: float inputs, its statics and
            results as stored.
        lost: dB that its worst result is below its worst activation input; negative where it gains.
        sensitivity: SQNR of the network's outputs if it alone is quantized; the two below, added.
        sensitivity_weights: The same of its static data alone.
        sensitivity_activation: The same of its results alone.
        value_bytes: Bytes of activations that it reads and writes, as stored.
        weight_bytes: Bytes of its static data, as stored.
    """

    name: str
    type: str
    order: int
    nodes: tuple[str, ...]
    placement: str
    reason: str | None
    raised: str | None
    act_bits: int | None
    weight_bits: int | None
    outputs: tuple[str, ...]
    cumulative: float | None = None
    isolated: float | None = None
    lost: float | None = None
    sensitivity: float | None = None
    sensitivity_weights: float | None = None
    sensitivity_activation: float | None = None
    value_bytes: int = 0
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OutputReport:
    """One output of the network.

    Attributes:
        sqnr: SQNR of the quantized network against the float one; None for integers.
        weights_only: The same with activations in float.
        activations_only: The same with static data in float.
        same: Share of equal elements, for outputs that hold integers.
        judged: SQNR of what goes into its Softmax, else of itself, on some held-out samples.
        top1: Share of rows whose largest element is the same, for scores of classes.
        rows: How many rows or labels ``top1`` or ``same`` is of; 0 if neither counts.
        is_lost: Whether an application likely loses what it reads from this output.
        is_useless: Whether it likely loses so much that the output is useless.
        kept: Share of the float task that this output keeps, 0 to 1; None: not judged.
        task: The measures behind ``kept``, in words.
    """

    name: str
    sqnr: float | None = None
    weights_only: float | None = None
    activations_only: float | None = None
    same: float | None = None
    judged: float | None = None
    top1: float | None = None
    rows: int = 0
    is_lost: bool = False
    is_useless: bool = False
    kept: float | None = None
    task: str = ""


class Judgement(str):
    """The line with the verdict about a quantization, and the figures behind it.

    Attributes:
        verdict: good, fair, poor or useless; or why the samples are no base for a verdict.
        sqnr: Mean ratio of the outputs; for a Softmax output, the ratio of its input.
    """

    __slots__ = ("outputs", "sqnr", "verdict")
    outputs: tuple[OutputReport, ...]
    verdict: str
    sqnr: float | None

    def __new__(
        cls, outputs: tuple[OutputReport, ...], doubt: str = "", samples: int = 0, *, held_out: bool = True
    ) -> Judgement:
        """Return the line; ``doubt`` states why the samples tell nothing."""
        ratios = [o.sqnr if o.judged is None else o.judged for o in outputs if o.sqnr is not None]
        ratio = sum(ratios) / len(ratios) if ratios else None
        verdict = (
            f"not judged (calibration samples: {doubt})"
            if doubt
            else _verdict(outputs, EXACT if ratio is None else ratio)
        )
        judged = [output for output in outputs if output.kept is not None]
        worst = min(judged, key=lambda output: (not output.is_lost, output.kept), default=None)
        cause = ""
        if worst is not None and worst.is_lost and not doubt:
            cause = f"; {worst.name!r} keeps {percent(worst.kept or 0.0)} of its task, less than {POOR:.0%}"
            cause += f" ({worst.task})"
        shares = [f"{percent(o.top1)} of {o.rows} rows" for o in outputs if o.top1 is not None]
        words = f", top-1 equal in {', '.join(shares[:SHOWN])}" if shares else ""
        reached = "-" if ratio is None else f"{ratio:.1f} dB"
        measured = f"{samples} {'held-out' if held_out else 'calibration'} sample{'s' * (samples != 1)}"
        text = f"verdict: {verdict}{cause}; outputs at {reached}{words}, on {measured}"
        line = super().__new__(cls, printable(text))
        line.outputs, line.verdict, line.sqnr = outputs, verdict, ratio
        return line

    def __str__(self) -> Judgement:
        """Return the line itself, with its figures."""
        return self


def _verdict(outputs: tuple[OutputReport, ...], ratio: float) -> str:
    """Return the worse of dB and agreement, or that rows are too few."""
    shares = (output.top1 if output.same is None else output.same for output in outputs if output.rows)
    agree = min((share for share in shares if share is not None), default=1.0)
    if any(output.is_useless for output in outputs):
        return "useless"
    if ratio < ALARM_DB or agree < USELESS or any(output.is_lost for output in outputs):
        return "poor"
    if ratio < WARN_DB or agree < AGREES:
        return "fair"
    return too_few(min((output.rows for output in outputs if output.rows), default=LEAST_ROWS)) or "good"


@dataclass(frozen=True, slots=True)
class RungReport:
    """Widths that the ladder of ``accuracy`` tried.

    Attributes:
        widths: Their names, like ``A16W8``.
        kept: Share of the float task that the worst output keeps, 0 to 1.
        is_enough: Whether all outputs keep their task.
        bytes: Bytes that an inference moves, in units of the requested widths.
        worst: The worst output in words.
    """

    widths: str
    kept: float | None
    is_enough: bool
    bytes: float
    worst: str


@dataclass(frozen=True, slots=True)
class QuantReport:
    """All that was measured of one quantization.

    Attributes:
        tool: Name and version of the program.
        samples: Held-out samples that were measured.
        sqnr: Mean of the outputs' ratios.
        weights_only: The same with activations in float.
        activations_only: The same with static data in float.
        outputs: The outputs, in order.
        ops: The ops, worst isolated ratio first, floats last.
        tensors: The tensors, worst isolated ratio first, floats last.
        exceptions: Ops whose widths are not the requested ones, with what they have.
        notes: What the quantizer did beyond ranges.
        unmeasured: What was not measured, and why.
        lost: What of the outputs is lost, and what to do about it.
        command: The command line; empty: the API was called.
        rungs: What the ladder of ``accuracy`` tried, in order.
        warn_db: Threshold of warnings.
        phrase: Writes advice; not in JSON.
        doubt: Why the samples are no base for a verdict; empty: they are one.
        held_out: Whether calibration has not seen the samples.
    """

    schema: int
    tool: str
    model: str
    options: dict[str, str]
    samples: int
    sqnr: float | None
    weights_only: float | None
    activations_only: float | None
    outputs: tuple[OutputReport, ...]
    ops: tuple[OpReport, ...]
    tensors: tuple[TensorReport, ...]
    exceptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    rungs: tuple[RungReport, ...] = ()
    warn_db: float = field(default=WARN_DB)
    alarm_db: float = field(default=ALARM_DB)
    phrase: Callable[[str], str] = str
    doubt: str = ""
    held_out: bool = True

    @property
    def judgement(self) -> Judgement:
        """The line with the verdict, and its figures."""
        return Judgement(self.outputs, self.doubt, self.samples, held_out=self.held_out)

    @property
    def reached(self) -> float | None:
        """Mean ratio of the outputs; for a Softmax output, the ratio of its input."""
        return self.judgement.sqnr

    @property
    def verdict(self) -> str:
        """The worse of dB and agreement, from good to useless; or why there is none."""
        return self.judgement.verdict

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``json`` writes it.

        Ratios are rounded to 1/1000 dB, other numbers to 7 digits.
        """
        plain: dict[str, Any] = {**_plain(asdict(replace(self, phrase=str))), "verdict": self.verdict}
        del plain["phrase"]
        return plain


_DECIBELS = {
    "cumulative", "isolated", "lost", "sensitivity", "sensitivity_weights", "sensitivity_activation",
    "sqnr", "weights_only", "activations_only", "judged",
}  # fmt: skip


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(held, name) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, float):
        return round(value, 3) if key in _DECIBELS else float(f"{value:.7g}")
    return value
