"""Measurement of a plan for a report, with held-out samples and stored data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from xdlc.compare.figures import Noise
from xdlc.errors import ProblemList, UnsupportedOp, UsageError, each_problem
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import DType
from xdlc.ir.quantization import float_data, quantized_limits, scale_and_offset, to_float, to_quantized
from xdlc.options import spell
from xdlc.quant.advice import Phrase, Remedies, warnings
from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.mixed.search import RaisedOp
from xdlc.quant.op_specs import float_tensors, is_parameter
from xdlc.quant.output_accuracy import Figure
from xdlc.quant.plan import Plan
from xdlc.quant.ranges import range_of, representable
from xdlc.quant.report.comparison import Quality, Subject, groups, measure_activations, spread
from xdlc.quant.report.model import (
    SCHEMA,
    Bars,
    ChannelRanges,
    Judgement,
    OpReport,
    OutputReport,
    QuantReport,
    RungReport,
    TensorReport,
)
from xdlc.quant.report.sensitivity import (
    Effect,
    Trial,
    measure_effects,
    measure_outputs,
    plan_trials,
    trace_effects,
    why_unknown,
)
from xdlc.quant.samples import Sample
from xdlc.version import VERSION

MOST = 80
"""Most bins of a picture."""
CHANNELS = 128
"""Most ranges that are kept of a weight's channels; more are joined, neighbour to neighbour."""
Progress = Callable[[int, int], None]
WORK = 1 << 28
"""Bytes of activations of all samples that are measured, unless ``LEAST`` samples have more."""
LEAST = 4
SHARED = 16
"""Most names that are kept of tensors that share an encoding."""


def bars(histogram: Histogram) -> Bars | None:
    """Return a histogram with at most ``MOST`` bins; None if it is empty.

    Example:
        >>> import numpy as np
        >>> bars(Histogram.of(np.float32([0.0, 0.5, 0.75]))).counts[0]
        1
    """
    if not histogram.counts.size:
        return None
    # Whole numbers of bins are joined, so that counts stay exact.
    joined = -(-histogram.counts.size // MOST)
    counts = np.add.reduceat(histogram.counts, np.arange(0, histogram.counts.size, joined))
    width = histogram.width * joined
    return Bars(histogram.first * histogram.width, width, tuple(int(count) for count in counts))


def used_bits(dtype: DType, encoding: Encoding | None) -> int | None:
    """Return the bits that quantized values use; None for other types."""
    if not dtype.is_fixed:
        return None
    return getattr(encoding, "bits", None) or dtype.bits


def report_static(
    subject: Subject, op: Op, index: int, order: int, sensitivity: float | None = None
) -> TensorReport:
    """Return the report entry of a static tensor of an op.

    Args:
        order: Place of the op in the order of execution.
        sensitivity: That of all static data of the op.
    """
    twin = subject.reference_ops[op.name]
    tensor, stored = twin.inputs[index], subject.stored_statics[op.name, index]
    if tensor is None or tensor.data is None:
        raise ValueError(f"input {index} of op {op.name!r} is not static")
    source = tensor if not tensor.dtype.is_fixed else None
    values = (tensor.numpy() if source is not None else float_data(tensor).numpy()).reshape(tensor.shape)
    role = _role(op, index)
    dtype, encoding = subject.statics[op, index]
    form = Tensor(stored.name, tensor.shape, dtype, encoding)
    # A corrected bias differs on purpose; what is reported of biases is their rounding.
    rounded = (
        to_float(to_quantized(values, form), encoding, where=f"tensor {tensor.name!r}")
        if role == "bias"
        else float_data(stored).numpy()
    )
    noise = Noise()
    noise.add(values, rounded.reshape(values.shape))
    scale, offset = scale_and_offset(encoding, tensor.shape, where=f"tensor {tensor.name!r}")
    low, high = quantized_limits(form)
    ends = [(low + offset) * scale, (high + offset) * scale]
    seen = range_of(values)
    return TensorReport(
        tensor.name,
        op.name,
        order,
        role,
        tensor.shape,
        str(dtype),
        bits=used_bits(dtype, encoding),
        granularity=_granularity(encoding),
        scale=float(scale.max()),
        scale_low=None if isinstance(encoding, ScaleOffset) else float(scale.min()),
        offset=encoding.offset if isinstance(encoding, ScaleOffset) else None,
        grid_low=float(ends[0].min()),
        grid_high=float(ends[1].max()),
        seen_low=None if seen.is_empty else seen.low,
        seen_high=None if seen.is_empty else seen.high,
        isolated=noise.db,
        sensitivity=sensitivity if role == "weight" else None,
        source=_source(subject, op, index),
        histogram=bars(Histogram.of(spread(values))),
        channels=channel_ranges(values, encoding),
    )


def _role(op: Op, index: int) -> str:
    if is_parameter(op, index):
        return "weight" if index == 1 else "bias"
    return "constant"


def _source(subject: Subject, op: Op, index: int) -> str:
    tensor, options = op.inputs[index], subject.plan.options
    if tensor in subject.plan.decision.sources:
        return subject.plan.decision.sources[tensor]
    if tensor is not None and tensor.encoding is not None:
        return "given"
    if _role(op, index) == "bias" and subject.statics[op, index][0].bits == 32:
        return "product of the scales of input and weight"
    return f"range method {options.param_quantizer_calibration} on its data"


def _granularity(encoding: Encoding) -> str:
    if isinstance(encoding, BlockScaleOffset | BlockwiseExpansion):
        return "block"
    return "channel" if isinstance(encoding, AxisScaleOffset) else "tensor"


def channel_ranges(values: Array, encoding: Encoding) -> ChannelRanges | None:
    """Return the ranges of at most ``CHANNELS`` groups along an encoding's axis.

    The result is None if it divides no axis.
    """
    axis = getattr(encoding, "axis", None)
    if axis is None or not values.size:
        return None
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    starts = np.arange(0, len(rows), -(-len(rows) // CHANNELS))
    lows = np.minimum.reduceat(rows.min(axis=1), starts)
    highs = np.maximum.reduceat(rows.max(axis=1), starts)
    return ChannelRanges(axis, len(rows), tuple(map(float, lows)), tuple(map(float, highs)))


def measure(
    remedies: Remedies,
    samples: Iterable[Sample],
    *,
    held_out: bool = False,
    phrase: Phrase = str,
    trials: int | None = None,
    progress: Progress | None = None,
) -> QuantReport:
    """Return the loss of a quantization by tensor and by op.

    Everything is measured on the main graph; branches and loop bodies count with the op that runs them.

    Args:
        remedies: What may help outputs, with the plan, its calibration and the figures of outputs.
        samples: Samples that calibration has not seen, read once; of a large network not all are.
        held_out: Whether the samples are those that are held out: measured are the ranges of the others.
        trials: Most tensors and weights to quantize alone; default: as many as a bounded amount of work
            allows, the worst first.

    Raises:
        UsageError: If there are no samples, or one does not fit the inputs.
    """
    plan, calibration = remedies.plan, remedies.calibration
    measured = plan.without_held_out(calibration) if held_out else plan
    subject = Subject(measured, calibration, remedies.engine)
    source = iter(samples)
    limit = max(LEAST, WORK // subject.work)
    chosen = subject.samples = list(islice(source, limit))
    if not chosen:
        raise UsageError(
            "the report has no held-out samples", where=spell("report"), fix="pass at least one sample"
        )
    has_more = next(source, None) is not None
    qualities, outputs, effects, left = _measured(subject, trials, progress)
    subject.plan = plan  # measured by the samples held out, reported as stored
    tensors = _tensors(subject, qualities, effects)
    real = [output for output in outputs if output.sqnr is not None]
    return QuantReport(
        SCHEMA,
        f"xdlc {VERSION}",
        plan.graph.name,
        plan.options.stated(),
        len(chosen),
        _mean([output.sqnr for output in real]),
        _mean([output.weights_only for output in real]),
        _mean([output.activations_only for output in real]),
        tuple(with_figures(outputs, remedies.figures)),
        tuple(sorted(_ops(subject, qualities, effects), key=lambda op: _worst_first(op.isolated, op.order))),
        tuple(sorted(tensors, key=lambda tensor: _worst_first(tensor.isolated, tensor.order))),
        tuple(_exceptions(plan)),
        tuple(map(phrase, (*plan.notes, *plan.decision.notes))),
        tuple(_unmeasured(len(chosen) if has_more else None, left)),
        tuple(_lost(remedies, phrase)),
        rungs=tuple(RungReport(r.widths, r.kept, r.is_enough, r.bytes, r.worst) for r in plan.search.rungs),
        phrase=phrase,
        doubt=calibration.doubt,
    )


def judged(figures: Sequence[Figure], doubt: str) -> Judgement:
    """Return the verdict about measured outputs."""
    plain = [
        OutputReport(figure.output, figure.sqnr, same=figure.verdict.equal if figure.sqnr is None else None)
        for figure in figures
    ]
    count = max((figure.samples for figure in figures), default=0)
    held_out = all(figure.held_out for figure in figures)
    return Judgement(tuple(with_figures(plain, figures)), doubt, count, held_out=held_out)


def _measured(
    subject: Subject, trials: int | None, progress: Progress | None
) -> tuple[dict[Tensor, Quality], list[OutputReport], dict[Trial, Effect], str | None]:
    """Return measures of activations, outputs and trials, and a note on omissions."""
    count = _Count(progress)
    parts = sum(1 for _ in groups(subject.activations))
    count.total = len(subject.samples) * (parts + 2)
    qualities, results = measure_activations(subject, count.step)
    outputs = measure_outputs(subject, results, count.step)
    left = why_unknown(subject)
    if left is not None:
        return qualities, outputs, {}, left
    effects = trace_effects(subject, qualities)
    planned, runs, left = plan_trials(subject, effects, trials)
    count.total += len(planned) * runs
    try:
        if planned:
            effects |= measure_effects(subject, qualities, planned, runs, count.step)
    except (UnsupportedOp, ProblemList) as error:  # the network runs, but not as one graph
        count.total -= len(planned) * runs
        left = f"xdlc traced sensitivity without trials: {each_problem(error)[0].problem}"
    return qualities, outputs, effects, left


def _unmeasured(most: int | None, left: str | None) -> Iterator[str]:
    if most is not None:
        yield f"xdlc measured only {most} held-out samples, because the network is large"
    if left is not None:
        yield left


def _lost(remedies: Remedies, phrase: Phrase) -> Iterator[str]:
    """Yield the warnings of a plan, about decisions and outputs."""
    for line in (*remedies.plan.notes, *warnings(remedies)):
        if line.startswith("warning: "):
            yield phrase(line).removeprefix("warning: ")


def with_figures(outputs: Sequence[OutputReport], figures: Sequence[Figure]) -> Iterator[OutputReport]:
    """Yield outputs with their verdicts."""
    by_name = {figure.output: figure for figure in figures}
    for output in outputs:
        figure = by_name.get(output.name)
        if figure is not None:
            verdict, is_real = figure.verdict, figure.sqnr is not None
            # Rows that share one label are no evidence of agreement.
            rows, top1 = (0, None) if verdict.doubt else (verdict.rows, verdict.equal)
            output = replace(output, rows=rows, is_lost=verdict.is_poor, kept=verdict.kept)
            output = replace(output, is_useless=verdict.is_useless, task=str(verdict))
            output = replace(output, judged=figure.sqnr, top1=top1) if is_real else output
        yield output


class _Count:
    """Counts runs."""

    def __init__(self, progress: Progress | None) -> None:
        self.total = self._done = 0
        self._progress = progress

    def step(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self.total)


def _mean(ratios: Sequence[float | None]) -> float | None:
    held = [ratio for ratio in ratios if ratio is not None]
    return sum(held) / len(held) if held else None


def _worst_first(isolated: float | None, order: int) -> tuple[bool, float, int]:
    return isolated is None, isolated or 0.0, order


def _exceptions(plan: Plan) -> list[str]:
    precision = plan.precision
    lines = []
    for op in plan.graph.ops:
        acts, weights = precision.act_bits_of(op), precision.weight_bits_of(op)
        if acts != precision.act_bits:
            lines.append(f"{op.name}: activations {'float' if acts is None else f'{acts} bits'}")
        if weights != precision.weight_bits and op.name in precision.weights:
            lines.append(f"{op.name}: weights {weights} bits")
    return lines


def _tensors(
    subject: Subject, found: dict[Tensor, Quality], effects: dict[Trial, Effect]
) -> list[TensorReport]:
    order = {op: place for place, op in enumerate(subject.graph.ops)}
    reports = [
        _activation(subject, tensor, quality, order, effects.get(Trial(tensor, weights=False)))
        for tensor, quality in found.items()
    ]
    for op, index in subject.statics:
        if (op.name, index) in subject.stored_statics:
            whole = [effects[trial] for out in op.outputs if (trial := Trial(out, weights=True)) in effects]
            reports.append(report_static(subject, op, index, order[op], _together(whole)))
    return reports


def _activation(
    subject: Subject, tensor: Tensor, quality: Quality, order: dict[Op, int], effect: Effect | None
) -> TensorReport:
    graph, plan = subject.graph, subject.plan
    role = "input" if tensor.producer is None else "output" if graph.is_output(tensor) else "activation"
    statistics = subject.calibration.statistics.get(tensor)
    calibrated = statistics.seen if statistics is not None and not statistics.seen.is_empty else None
    stored = str(subject.trial.main.tensors[tensor.name].dtype)
    scale = offset = bits = low = high = used = None
    shared: tuple[str, ...] = ()
    form = subject.form(tensor)
    if form is not None:
        dtype, encoding = form
        stored, bits = str(dtype), used_bits(dtype, encoding)
        shared = tuple(member.name for member in subject.groups.members(tensor) if member is not tensor)
        if isinstance(encoding, ScaleOffset):
            held = representable(encoding, dtype)
            scale, offset, low, high = encoding.scale, encoding.offset, held.low, held.high
            inside = quality.effective.cut(held)
            used = 0.0 if inside.is_empty else min(1.0, (inside.high - inside.low) / (high - low))
    fixed = quality.form is not None
    return TensorReport(
        tensor.name,
        tensor.producer.name if tensor.producer is not None else None,
        order[tensor.producer] if tensor.producer is not None else -1,
        role,
        tensor.shape,
        stored,
        bits=bits,
        granularity="tensor" if fixed else None,
        scale=scale,
        offset=offset,
        grid_low=low,
        grid_high=high,
        seen_low=None if quality.seen.is_empty else quality.seen.low,
        seen_high=None if quality.seen.is_empty else quality.seen.high,
        calibrated_low=calibrated.low if calibrated is not None else None,
        calibrated_high=calibrated.high if calibrated is not None else None,
        clipped=quality.clipped / quality.count if fixed and quality.count else None,
        beyond=quality.beyond if fixed else None,
        used=used,
        cumulative=quality.cumulative.db if quality.effect.joined is None else None,
        isolated=quality.rounding.db if fixed and quality.effect.joined is None else None,
        sensitivity=_mean_db(effect.values()) if effect is not None else None,
        source=plan.decision.sources.get(tensor),
        shared=shared[:SHARED],
        shared_count=len(shared),
        heard=quality.effect.reason,
        histogram=bars(quality.histogram),
    )


def _ops(subject: Subject, found: dict[Tensor, Quality], effects: dict[Trial, Effect]) -> list[OpReport]:
    return [_op(subject, op, place, found, effects) for place, op in enumerate(subject.graph.ops)]


def _op(
    subject: Subject, op: Op, order: int, found: dict[Tensor, Quality], effects: dict[Trial, Effect]
) -> OpReport:
    plan = subject.plan
    results = [found[tensor] for tensor in op.outputs if tensor in found]
    read = [found[tensor] for tensor in op.inputs if tensor in found]
    cumulative = _worst_in_network(results)
    before = _worst_in_network(read)
    isolated = min((quality.isolated.db for quality in results if quality.form is not None), default=None)
    fixed = op in plan.placement.fixed
    weight = subject.statics.get((op, 1))
    acts, weights = (
        [effects[trial] for tensor in op.outputs if (trial := Trial(tensor, weights=kind)) in effects]
        for kind in (False, True)
    )
    return OpReport(
        op.name,
        op.type,
        order,
        op.origin.nodes,
        "fixed" if fixed else "float" if float_tensors(op) else "none",
        plan.placement.reasons.get(op),
        next((_raised(record) for record in plan.search.raised if record.op == op.name), None),
        max((quality.form[0].bits for quality in results if quality.form is not None), default=None)
        if fixed
        else None,
        used_bits(*weight) if fixed and weight is not None else None,
        tuple(tensor.name for tensor in op.outputs),
        cumulative=cumulative,
        isolated=isolated if fixed else None,
        lost=before - cumulative if before is not None and cumulative is not None else None,
        sensitivity=_together([*acts, *weights]),
        sensitivity_weights=_together(weights),
        sensitivity_activation=_together(acts),
        value_bytes=sum(_stored_bytes(subject, tensor) for tensor in (*op.inputs, *op.outputs)),
        weight_bytes=sum(_static_bytes(subject, op, index) for index in range(len(op.inputs))),
    )


def _stored_bytes(subject: Subject, tensor: Tensor | None) -> int:
    """Return the bytes of an activation as stored; 0 of static data."""
    if tensor is None or tensor.is_static:
        return 0
    form = subject.form(tensor)
    return tensor.nbytes if form is None else tensor.size * form[0].bits // 8


def _static_bytes(subject: Subject, op: Op, index: int) -> int:
    """Return the bytes of static data as stored; 0 of an activation."""
    tensor, form = op.inputs[index], subject.statics.get((op, index))
    if tensor is None or not tensor.is_static:
        return 0
    return tensor.nbytes if form is None else tensor.size * (used_bits(*form) or 32) // 8


def _raised(record: RaisedOp) -> str:
    alone = "" if record.alone is None else f", {record.alone:.1f} dB with only {record.before}"
    return f"{record.before} to {record.after}{alone}"


def _worst_in_network(qualities: Sequence[Quality]) -> float | None:
    ratios = [quality.cumulative.db for quality in qualities if quality.effect.joined is None]
    return min(ratios, default=None)


def _together(effects: Sequence[Effect]) -> float | None:
    total: dict[str, Noise] = {}
    for effect in effects:
        for name, noise in effect.items():
            total[name] = total.get(name, Noise()).plus(noise)
    return _mean_db(total.values())


def _mean_db(noises: Iterable[Noise]) -> float | None:
    """Return the mean ratio of the outputs in dB; None if there are no outputs."""
    ratios = [noise.db for noise in noises]
    return sum(ratios) / len(ratios) if ratios else None
